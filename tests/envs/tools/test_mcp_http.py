"""MCP over streamable HTTP: answers as JSON and as events, sessions, and servers that fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import envs
from envs.base import TextEnv
from envs.sandbox.client import EnvironmentFailure, Sandbox
from envs.support.addresses import checked_address
from envs.tools import mcp_http
from envs.tools.mcp_client import McpConnection, McpError, SessionExpiredError
from envs.tools.mcp_http import HttpTransport, event_data
from envs.tools.tool import Toolbox, ToolError
from tests.envs.tools.mcp_http_server import LINES, HttpMcpServer, serving

QUESTION = '{"question": "What is the sum of 20 and 22?", "answer": "42"}\n'


def connect(address: str, timeout: float = 10.0) -> McpConnection:
    return McpConnection(HttpTransport(address, timeout), timeout, timeout)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "questions.jsonl").write_text(QUESTION)
    return {"questions": str(tmp_path / "questions.jsonl"), "tools": ["add"], "timeout": 5.0}


@pytest.fixture
def server() -> HttpMcpServer:
    return HttpMcpServer()


@pytest.fixture
def address(server: HttpMcpServer) -> Iterator[str]:
    with serving(server) as found:
        yield found


@pytest.mark.parametrize("events", [False, True], ids=["JSON", "events"])
@pytest.mark.parametrize("sessions", [False, True], ids=["no session", "session"])
def test_calls_have_the_servers_result_or_an_error(events: bool, sessions: bool) -> None:
    server = HttpMcpServer(events=events, sessions=sessions)
    with serving(server) as address:
        connection = connect(address)
        box = Toolbox(connection.tools())
        assert list(box.tools) == ["add", "fail", "echo"]
        for text, result in (("add(2, 3)", "5"), ("fail()", "Error: it failed"), ("echo()", LINES)):
            call = box.execute(text)
            assert call is not None
            assert call.result == result
        with pytest.raises(ToolError, match="no tool nothing"):
            connection.call("nothing", {})
        assert connection.running
        connection.close()
        assert not connection.running
    assert server.ended == (["session-1"] if sessions else [])
    assert [message["method"] for message in server.messages[:2]] == ["initialize", "notifications/initialized"]


def test_requests_of_the_server_are_answered_while_it_works() -> None:
    server = HttpMcpServer(events=True)
    with serving(server) as address:
        connection = connect(address)
        server.messages.clear()
        assert connection.call("add", {"a": 1, "b": 2}) == "3"
        connection.close()
    call, ping, roots = server.messages
    assert call["method"] == "tools/call"
    assert ping == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert (roots["id"], roots["error"]["code"]) == ("r", -32601)


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("closes the connection", "broke the connection"),
        ("no JSON", "answered tools/call with something that is no JSON object: '<html>'"),
        ("a number", "something that is no JSON object: '17'"),
        ("no result", "answered tools/call without a result"),
        ("another id", "ended its response to tools/call without a result"),
        (
            "a page",
            r"neither JSON nor an event stream \(HTTP 200, text/html\): check that it is the address of an MCP server",
        ),
        ("accepted", "something that is no JSON object: ''"),
        ("an event without JSON", "something that is no JSON object: 'oops'"),
        ("compressed", "broke the connection"),
        ("307", r"redirects to 'https://elsewhere\.example/mcp' \(HTTP 307\): set url to its own address"),
        ("401", "HTTP 401: it requires credentials, .* its message: the reason"),
        ("405", r"HTTP 405: it accepts no messages at this address.* HTTP\+SSE are not supported"),
        ("429", "HTTP 429: it receives too many requests"),
        ("500", "HTTP 500: its message: the reason"),
    ],
)
def test_a_server_that_fails_is_an_error_with_the_reason(
    server: HttpMcpServer, address: str, trouble: str, message: str
) -> None:
    connection = connect(address)
    server.trouble = trouble
    with pytest.raises(McpError, match=message):
        connection.call("add", {"a": 1, "b": 2})
    connection.close()


@pytest.mark.parametrize("trouble", ["hangs", "trickles"])
def test_a_call_that_takes_too_long_ends_the_session(server: HttpMcpServer, address: str, trouble: str) -> None:
    connection = connect(address, timeout=0.4)
    server.trouble = trouble
    with pytest.raises(McpError, match=r"did not answer tools/call within 0\.4 s"):
        connection.call("add", {"a": 1, "b": 2})
    assert not connection.running
    assert server.ended == ["session-1"]
    with pytest.raises(McpError, match="has ended"):
        connection.call("add", {"a": 1, "b": 2})


@pytest.mark.parametrize("trouble", ["too large", "too large a stream"])
def test_responses_have_a_maximum_size(
    server: HttpMcpServer, address: str, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_http.HttpTransport._limited, "__defaults__", (2**16,))
    connection = connect(address)
    server.trouble = trouble
    with pytest.raises(McpError, match="sent a response of more than 0 MiB"):
        connection.call("add", {"a": 1, "b": 2})


def test_an_expired_session_is_an_error_that_names_the_next_step(server: HttpMcpServer, address: str) -> None:
    connection = connect(address)
    server.expire()
    with pytest.raises(SessionExpiredError, match=r"has expired \(HTTP 404\): the next trajectory begins another one"):
        connection.call("add", {"a": 1, "b": 2})
    assert not connection.running
    assert server.ended == [], "there is none to end"


def test_a_server_that_cannot_be_used_is_refused_at_the_start(server: HttpMcpServer, address: str) -> None:
    with pytest.raises(McpError, match=r"HTTP 404: there is no MCP server at this address: check its path"):
        connect(address + "/other")
    server.trouble_at = "initialize"
    for trouble, message in (("an odd session", "session id has characters"), ("400", "HTTP 400: its message: the")):
        server.trouble = trouble
        with pytest.raises(McpError, match=message):
            connect(address)
    server.trouble, server.trouble_at = "500", "notifications/initialized"
    with pytest.raises(McpError, match="HTTP 500"):
        connect(address)
    assert server.ended == ["session-1"], "a start that failed leaves no session behind"


def test_a_server_that_is_away_is_named_with_the_reason() -> None:
    with pytest.raises(McpError, match=r"the MCP server http://127\.0\.0\.1:9/mcp cannot be reached: .*refused; check"):
        connect("http://127.0.0.1:9/mcp")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_may_be_cut_anywhere(size: int) -> None:
    text = (
        "\ufeffdata: a\rdata:b\r\rdata: é\u2028\r\n\r\n: note\nid: 3\nevent: other\ndata: x\n\ndata: c\n\ndata: lost\n"
    )
    stream = text.encode()
    if size < 3:
        stream = stream.removeprefix(b"\xef\xbb\xbf")  # a mark that is cut in two is not worth the code
    parts = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert list(event_data(parts)) == [b"a\nb", "é\u2028".encode(), b"c"]


# -- the environment -------------------------------------------------------------------------------------------------


def started(settings: dict[str, Any]) -> TextEnv:
    env = envs.make("ToolMCP", settings)
    env.reset(seed=1)
    return env


def test_questions_are_answered_with_the_tools_of_a_server(
    server: HttpMcpServer, address: str, settings: dict[str, Any]
) -> None:
    env = started({**settings, "url": address})
    assert [tool.name for tool in env.env_spec.tools] == ["add"]
    assert env.step("add(20, 22)")[0] == "42"
    assert env.step("42")[1] == 1.0
    env.reset(seed=2)
    env.close()
    assert server.started == 1
    assert server.ended == ["session-1"]


def test_a_session_that_expires_between_episodes_loses_none(
    server: HttpMcpServer, address: str, settings: dict[str, Any]
) -> None:
    env = started({**settings, "url": address})
    server.expire()
    env.reset(seed=2)
    assert env.step("add(20, 22)")[0] == "42"
    server.expire()
    with pytest.raises(SessionExpiredError):
        env.step("add(20, 22)")
    env.reset(seed=3)
    assert env.step("add(1, 2)")[0] == "3"
    env.close()


def test_a_server_that_is_away_fails_the_episode_and_may_come_back(
    server: HttpMcpServer, settings: dict[str, Any]
) -> None:
    with serving(server) as address:
        pass
    sandbox = Sandbox("ToolMCP", {**settings, "url": address})
    try:
        env = sandbox.make()
        with pytest.raises(EnvironmentFailure, match="cannot be reached"):
            env.reset(seed=1)
        with serving(server, int(address.removesuffix("/mcp").rpartition(":")[2])):
            env = sandbox.make()
            env.reset(seed=1)
            assert env.step("add(20, 22)")[0] == "42"
            env.close()
    finally:
        sandbox.close()


def test_each_trajectory_has_a_session_of_its_own(
    server: HttpMcpServer, address: str, settings: dict[str, Any]
) -> None:
    sandbox = Sandbox("ToolMCP", {**settings, "url": address})
    try:
        first, second = sandbox.make(), sandbox.make()
        first.reset(seed=1)
        second.reset(seed=1)
        assert first.step("add(1, 1)")[0] == "2"
        assert second.step("add(2, 2)")[0] == "4"
        assert len(set(server.called_in)) == 2
    finally:
        sandbox.close()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"url": "http://shop:8000/mcp", "command": "server"}, "command and url name two servers: set one of them"),
        ({"url": "http://shop:8000/mcp", "questions": None}, "url needs questions"),
        ({"url": "shop:8000/mcp"}, "is not the address of a server: write it as in http://localhost:8000/mcp"),
        ({"url": "ws://shop:8000/mcp"}, "is not the address of a server"),
        ({"url": "http://shop:8000/mcp?key=1"}, "is not the address of a server"),
        ({"url": "http://me:secret@shop:8000/mcp"}, "may contain no user name and password"),
    ],
)
def test_settings_that_name_no_server_are_refused(
    settings: dict[str, Any], wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        envs.make("ToolMCP", {**settings, **wrong})


def test_a_final_slash_is_part_of_an_address() -> None:
    assert checked_address(" https://shop.example/mcp/ ") == "https://shop.example/mcp/"
    assert json.loads(envs.make("ToolMCP").settings.model_dump_json())["url"] == ""
