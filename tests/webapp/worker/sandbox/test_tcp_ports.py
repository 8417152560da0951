"""TCP ports of a trainer: the ports of the servers that its configuration and its variables name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config.run import RunConfig
from webapp.runs.inputs import allowed_inputs
from webapp.worker.sandbox import named_paths, tcp_ports

ALWAYS = {443, 53}


def ports(variables: dict[str, str] | None = None, *, single: bool = True, **config: Any) -> set[int] | None:
    made = RunConfig.model_validate(config).model_dump(mode="json")
    urls = [text.text for text in allowed_inputs.texts(made) if text.role.value == "url"]
    found = tcp_ports.of_run(made, urls, variables or {}, single=single)
    return None if found is None else set(found) - ALWAYS


def test_a_run_reaches_the_servers_that_it_names() -> None:
    tis = {"tis_cap": 2.0}
    assert ports() == set()
    assert ports(engine={"name": "server", "urls": ["http://gpu1:8000", "http://gpu2"]}, algorithm=tis) == {8000, 80}
    assert ports(kind="evaluate", hosted={"url": "http://models:8100/v1", "model": "m"}) == {8100}
    mcp = {"name": "ToolMCP", "settings": {"url": "http://127.0.0.1:9300/mcp", "questions": "/data/q"}}
    assert ports(environment=mcp) == {9300}
    assert ports(trackers=["opentelemetry"]) == {4318}
    assert ports(engine={"name": "vllm"}, algorithm=tis) is None
    assert ports(single=False) is None


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("HTTPS_PROXY", "http://user:word@proxy:3128", {3128}),
        ("http_proxy", "proxy:3129", {3129}),
        ("NO_PROXY", "localhost:1", set()),
        ("HF_ENDPOINT", "http://mirror", {80}),
        ("MLFLOW_TRACKING_URI", "https://tracker:5000/api", {5000}),
        ("PIP_EXTRA_INDEX_URL", "http://[::1]:8081/simple https://b:8082", {8081, 8082}),
        ("A", "http://host:99999 http://[x", set()),
        ("PATH", "/usr/bin:/bin", set()),
    ],
)
def test_addresses_in_variables_are_reached(name: str, value: str, expected: set[int]) -> None:
    assert ports({name: value}) == expected
    assert set(tcp_ports.of_download({name: value})) == expected | ALWAYS


@given(st.dictionaries(st.sampled_from(["A", "HTTP_PROXY", "HF_HOME"]), st.text("/:@[]h.tp0 ~\0,é", max_size=30)))
def test_any_value_of_a_variable_names_valid_ports_and_absolute_paths(environment: dict[str, str]) -> None:
    assert all(0 < port < 65536 for port in tcp_ports.of_variables(environment))
    paths = [*named_paths.readable(environment), *named_paths.writable(environment)]
    assert all(path.is_absolute() and "\0" not in str(path) for path in paths)
