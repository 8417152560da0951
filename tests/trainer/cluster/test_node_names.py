"""Names of a cluster's nodes: short where that is enough, and always different."""

from hypothesis import given
from hypothesis import strategies as st

from trainer.cluster.node_names import node_names


def node(id, host="", address="10.0.0.1"):
    return {"NodeID": id, "NodeManagerHostname": host, "NodeManagerAddress": address}


def test_nodes_of_one_machine_have_their_ids_and_others_the_names_of_their_hosts():
    names = node_names([node("a" * 56, "left"), node("b" * 56, "right"), node("c" * 56, "right")])
    assert list(names.values()) == ["left", "right (bbbbbbbb)", "right (cccccccc)"]


def test_a_node_without_a_host_name_has_its_address():
    assert node_names([node("a" * 56)]) == {"a" * 56: "10.0.0.1"}
    assert node_names([]) == {}


@given(st.dictionaries(st.text("abcdef0123456789", min_size=8, max_size=8), st.sampled_from(["left", "right", ""])))
def test_names_are_unique(hosts):
    names = node_names(node(id, host) for id, host in hosts.items())
    assert names.keys() == hosts.keys()
    assert len(set(names.values())) == len(names)
