"""Native calls of tools against vLLM's own OpenAI-compatible server, whose parser finds them in the response."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import tiny
from tests.trainer.loops.test_train import events
from tests.vllm.servers import serving
from trainer.config.run import RunConfig
from trainer.journal.events import Metrics, TrajectoryFinished, Turn
from trainer.loops import run_factory

MODEL = "pocket"
CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "1 + 1"}}\n</tool_call>'
"""What the server lets the model write, which never learned to call anything; the parser then has to find it."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Root URL of a server that parses calls in the format of Hermes and Qwen."""
    parsing = "--enable-auto-tool-choice --tool-call-parser hermes"
    options = f"--vllm-args=--served-model-name {MODEL} {parsing}"
    with serving(tmp_path_factory.mktemp("server"), options) as url:
        yield url


def settings(server: str, *written: str) -> RunConfig:
    """One episode of the calculator, in which the model may write nothing else."""
    data: dict[str, Any] = {
        "kind": "evaluate",
        "environment": {"name": "ToolCalculator", "settings": {"max_calls": 3}},
        "evaluation": {"prompts": 1, "samples_per_prompt": 1, "temperature": 0.0, "suites": []},
        "rollout": {"tool_calls": "native", "max_turns": 2, "max_actions": 4, "max_response_tokens": 200},
        "hosted": {"url": server, "model": MODEL, "extra_body": {"structured_outputs": {"choice": list(written)}}},
    }
    return tiny.config("pocket", **data)


def test_calls_that_the_server_parsed_are_executed_and_their_results_sent_back(server: str, tmp_path: Path) -> None:
    assert run_factory.run(settings(server, CALL), tmp_path, tmp_path / "cache").reason == "completed"
    first, second = events(tmp_path, Turn)
    for turn in (first, second):
        (action,) = turn.actions
        assert action.call is not None
        assert (action.call.tool, action.call.arguments) == ("calculator", {"expression": "1 + 1"})
        assert (action.call.result, action.call.failed, turn.format_valid) == ("2", False, True)
        written = turn.response.removeprefix("<tool_call>").removesuffix("</tool_call>")
        assert json.loads(written) == {"name": "calculator", "arguments": {"expression": "1 + 1"}}
    assert "2" in second.state.splitlines()
    assert events(tmp_path, TrajectoryFinished)[0].end == "turns"
    values = events(tmp_path, Metrics)[-1].values
    assert values["hosted/requests"] == 2, "the dialogue with the call and its result was accepted at once"


def test_an_answer_without_a_call_stays_text(server: str, tmp_path: Path) -> None:
    config = settings(server, "<think>Two.</think><answer>2</answer>")
    assert run_factory.run(config, tmp_path, tmp_path / "cache").reason == "completed"
    (turn,) = events(tmp_path, Turn)
    assert (turn.thought, turn.answer, [action.call for action in turn.actions]) == ("Two.", "2", [None])
