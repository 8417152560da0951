"""What keeps a run from its cluster is said in one sentence, with what to do about it."""

import platform
import socket
import threading
import time

import pytest
from ray.exceptions import AuthenticationError

from trainer.cluster import connection as connection_module
from trainer.cluster.actor_description import ActorDescription, check_versions
from trainer.cluster.connection import ClusterConnection
from trainer.cluster.errors import ClusterError
from trainer.cluster.local_cluster import is_start_failure
from trainer.config.resources import RAY_ADDRESS_VARIABLE
from trainer.config.run import RunConfig


def connect(**cluster):
    config = RunConfig.model_validate({"cluster": {"rollout_actors": 1, **cluster}})
    return ClusterConnection(config.cluster, lambda: False, lambda message: None, policy_bytes=1)


def raising(error):
    def init(**options):
        raise error

    return init


@pytest.fixture(autouse=True)
def unconnected(monkeypatch):
    """As in a process without the cluster that other tests of this folder share."""
    monkeypatch.setattr(connection_module.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(connection_module.ray, "shutdown", lambda: None)


@pytest.fixture
def listening():
    """The address of something that accepts connections, and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_an_address_at_which_nothing_listens_is_refused_at_once(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    began = time.monotonic()
    monkeypatch.setenv(RAY_ADDRESS_VARIABLE, f"127.0.0.1:{free}")
    with pytest.raises(ClusterError) as caught:
        connect()
    assert time.monotonic() - began < 5
    assert f"no Ray cluster answers at 127.0.0.1:{free}" in str(caught.value)
    assert "start one there (ray start --head), correct ECHOSCOPE_RAY_ADDRESS" in str(caught.value)


@pytest.mark.parametrize(
    "error, advice",
    [
        (
            RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.55\n    Python: 3.12.1\n"),
            "Install the same versions of Python and Ray on all of its nodes",
        ),
        (ConnectionError("Failed to connect to Ray cluster"), "start one there (ray start --head)"),
        (AuthenticationError("invalid token"), "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH as on its nodes"),
    ],
)
def test_what_a_cluster_answers_instead_is_passed_on_with_advice(monkeypatch, listening, error, advice):
    monkeypatch.setattr(connection_module.ray, "init", raising(error))
    monkeypatch.setenv(RAY_ADDRESS_VARIABLE, listening)
    with pytest.raises(ClusterError) as caught:
        connect()
    assert listening in str(caught.value)
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("address", ["head node:6379", "user@head:6379"])
def test_an_address_of_no_cluster_is_refused_before_any_connection(monkeypatch, address):
    monkeypatch.setenv(RAY_ADDRESS_VARIABLE, address)
    with pytest.raises(ClusterError, match=r"must be an address such as 10\.0\.0\.5:6379"):
        connect()


def test_a_machine_too_busy_to_start_ray_is_named(monkeypatch):
    monkeypatch.setattr("ray.init", raising(Exception("The current node timed out during startup. This could ...")))
    with pytest.raises(ClusterError, match=rf"could not be started.*half a minute.*{RAY_ADDRESS_VARIABLE}"):
        connect()


def test_errors_of_our_own_are_not_taken_for_rays(monkeypatch, listening):
    monkeypatch.setenv(RAY_ADDRESS_VARIABLE, listening)
    monkeypatch.setattr(connection_module.ray, "init", raising(TypeError("a mistake")))
    with pytest.raises(TypeError, match="a mistake"):
        connect()
    assert is_start_failure(Exception("timed out"))
    assert not is_start_failure(KeyError("x"))


def test_signal_handlers_are_untouched_outside_the_main_thread(monkeypatch, listening):
    monkeypatch.setenv(RAY_ADDRESS_VARIABLE, listening)
    monkeypatch.setattr(connection_module.ray, "init", raising(ConnectionError("no")))
    caught = []

    def try_it():
        with pytest.raises(ClusterError) as error:
            connect()
        caught.append(error)

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    assert caught


@pytest.mark.parametrize("library", ["python", "torch", "transformers", "echoscope"])
def test_other_versions_on_a_node_are_named_with_the_node(library):
    same = ActorDescription("CPU", node="gpu7", pid=12)
    check_versions("learner 1", same)
    other = ActorDescription("CPU", node="gpu7", pid=12, versions=same.versions | {library: "0.1"})
    with pytest.raises(ClusterError) as caught:
        check_versions("learner 1", other)
    assert f"learner 1 on gpu7, process 12 has {library} 0.1" in str(caught.value)
    assert "install the same versions on all nodes" in str(caught.value)
    assert same.versions["python"] == platform.python_version()
