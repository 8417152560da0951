"""Client of MCP servers: definitions, results, errors, and servers that fail."""

import sys
from pathlib import Path

import pytest

from envs.base import TextEnv
from envs.pool import EnvironmentPool
from envs.tools import mcp_example_server
from envs.tools.mcp_client import McpConnection, McpError
from envs.tools.mcp_stdio import StdioTransport
from envs.tools.tool import Toolbox, ToolError
from tests.patience import SECONDS

SERVER = Path(__file__).parent / "stdio_server.py"


def connect(mode="plain", timeout=20.0):
    return McpConnection(StdioTransport([sys.executable, "-S", str(SERVER), mode]), timeout)


@pytest.fixture
def server():
    connection = connect()
    yield connection
    connection.close()


def test_all_pages_of_definitions_are_listed(server):
    names = [tool.spec.name for tool in server.tools()]
    assert names == ["add", "fail", "picture", "process", "wait", "end"]
    assert [tool.spec.description for tool in server.tools(["picture"])] == ["A picture."]
    with pytest.raises(McpError, match="has no tool 'subtract': choose among add, fail"):
        server.tools(["subtract"])


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("add(2, 3)", "5"),
        ("picture()", "[image]\na cat"),
        ("fail()", "Error: it failed"),
        ("add(a='x', b=1)", """Error: the argument 'a' must be of the type integer, not "x\""""),
    ],
)
def test_calls_have_the_servers_result_or_an_error(server, text, result):
    assert Toolbox(server.tools()).execute(text).result == result


def test_structured_content_without_text_is_json(server):
    assert server.call("process", {}).startswith('{"process": ')


def test_an_error_of_the_protocol_is_the_tools_error(server):
    with pytest.raises(ToolError, match="no tool nothing"):
        server.call("nothing", {})


def test_a_server_that_does_not_answer_in_time_is_ended():
    connection = connect(timeout=0.3)
    with pytest.raises(McpError, match=r"did not answer tools/call within 0\.3 s"):
        connection.call("wait", {})
    assert not connection.running


def test_a_server_that_ends_during_a_call_is_an_error_with_its_status(server):
    with pytest.raises(McpError, match="has ended with status 3"):
        server.call("end", {})
    with pytest.raises(McpError, match="has ended"):
        server.call("add", {"a": 1, "b": 2})


CHATTY = "import sys; print('x' * 300_000 + '\\nthe last line\\n\\n', file=sys.stderr); sys.exit(1)"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["/nowhere/server"], "cannot be started: No such file"),
        ([sys.executable, "-c", "pass"], "has ended with status 0$"),
        (
            [sys.executable, "-c", "import nowhere"],
            "status 1: ModuleNotFoundError: No module named 'nowhere'",
        ),
        ([sys.executable, "-c", CHATTY], "has ended with status 1: the last line$"),
        ([sys.executable, "-S", str(SERVER), "no tools"], "offers no tools"),
    ],
)
def test_an_unusable_server_is_refused_with_the_reason(command, message):
    with pytest.raises(McpError, match=message):
        McpConnection(StdioTransport(command), 20.0)


def test_a_server_that_is_silent_at_the_start_is_refused():
    with pytest.raises(McpError, match=r"did not answer initialize within 0\.2 s"):
        McpConnection(StdioTransport([sys.executable, "-c", "import time; time.sleep(60)"]), 5.0, start_timeout=0.2)


def test_a_name_that_no_model_could_call_is_refused():
    connection = connect("odd name")
    with pytest.raises(McpError, match="cannot call the MCP server's tool 'no spaces please'"):
        connection.tools()
    connection.close()


def test_the_example_server_speaks_the_protocol():
    connection = McpConnection(StdioTransport([sys.executable, mcp_example_server.__file__]), 20.0)
    box = Toolbox(connection.tools())
    assert box.execute("price(lamp)").result == "12"
    assert "lamp, mirror" in box.execute("items()").result
    assert box.execute("price(unicorn)").result == "Error: there is no 'unicorn': items() lists what there is"
    with pytest.raises(ToolError, match="no method prompts/list"):
        connection.request("prompts/list", {})
    assert connection.request("ping", {}) == {}
    connection.close()


def test_a_server_may_start_for_longer_than_a_step_takes(tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "How much is 2 + 3?", "answer": "5"}\n')
    slow = f'sh -c "sleep 3; exec {sys.executable} -S {SERVER}"'
    pool = EnvironmentPool(
        "ToolMCP", {"command": slow, "questions": str(questions)}, step_timeout=2.5, start_timeout=SECONDS
    )
    try:
        for env in pool.start([(1, 1), (2, 2)]):
            assert isinstance(env, TextEnv), env
            env.step("add(2, 3)")
            assert "5" in env.render()
    finally:
        pool.close()
