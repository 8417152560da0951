"""Traces of the real verifiers package: its file is imported, and its objects are recorded by the monitor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import Field

import echoscope
from echoscope.cli import main
from echoscope.importers.importing import import_files
from echoscope.importers.records import ImportFailed
from echoscope.integrations.verifiers_rollouts import EchoscopeMonitor
from trainer.journal.reader import read

pytest.importorskip("verifiers.v1", reason="verifiers is not installed: pip install verifiers")

from verifiers.v1 import graph
from verifiers.v1.cli.output import write_config
from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.episode import EnvInfo, Episode, EvalRunInfo, GroupInfo, TrainRunInfo, TrainWorkInfo
from verifiers.v1.task import WireTaskData
from verifiers.v1.trace import AgentInfo, ModelCall, Trace, TraceTask
from verifiers.v1.types import (
    AssistantMessage,
    Response,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from verifiers.v1.utils.trace_store import write_episode

SYSTEM, QUESTION = SystemMessage(content="You add."), UserMessage(content="2 + 2?")


def task_of(number: int = 0) -> TraceTask[WireTaskData]:
    data = WireTaskData(idx=number, prompt="2 + 2?", system_prompt="You add.")
    return TraceTask(type="SumsTask", data=data, key=f"sum-{number}")


def begun(number: int = 0, agent: str = "agent") -> Trace[Any, Any, Any]:
    client = {"type": "eval", "headers": {"Authorization": "secret"}}
    config = WireAgentConfig.model_validate({"model": "m-7b", "client": client})
    return Trace(task=task_of(number), agent=AgentInfo(config=config, name=agent))


def respond(trace: Trace[Any, Any, Any], prompt: list[Any], tokens: int = 3, **message: Any) -> AssistantMessage:
    """A response of the model to this prompt, committed as verifiers does it."""
    answer = AssistantMessage(**message)
    response = Response(id="r", created=0, model="m-7b", message=answer, finish_reason="stop")
    node = graph.prepare_turn(trace, prompt).commit(response)
    usage = Usage(prompt_tokens=10, completion_tokens=tokens)
    trace.calls.append(ModelCall(node=node, finish_reason="stop", usage=usage))
    return answer


def answered(text: str, reward: float, number: int = 0, agent: str = "agent") -> Trace[Any, Any, Any]:
    trace = begun(number, agent)
    respond(trace, [SYSTEM, QUESTION], content=text, reasoning_content="Two and two.")
    trace.record_reward("exact", reward)
    trace.record_reward("short", 1.0, weight=0.25)
    trace.ok = True
    return trace


def episode_of(*traces: Trace[Any, Any, Any], number: int = 0, **fields: Any) -> Episode[Any, Any, Any]:
    return Episode(env=EnvInfo(id="sums"), task=task_of(number), traces=list(traces), **fields)


def written(folder: Path, *episodes: Episode[Any, Any, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for episode in episodes:
        write_episode(folder, episode)
    return folder


def events_of(folder: Path) -> dict[str, list[Any]]:
    events: dict[str, list[Any]] = {}
    for event in read(folder / "journal.jsonl"):
        events.setdefault(event.type, []).append(event)
    return events


def imported(tmp_path: Path, folder: Path) -> dict[str, list[Any]]:
    import_files([folder], tmp_path / "run")
    return events_of(tmp_path / "run")


def test_the_folder_of_an_evaluation_is_imported_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = EvalRunInfo(id="e1", name="sums--m-7b")
    episodes = [episode_of(answered(text, reward), run=run) for text, reward in (("4", 1.0), ("5", 0.0))]
    folder = written(tmp_path / "sums--m-7b", *episodes, episode_of(answered("7", 0.5, 1), number=1, run=run))
    write_config(begun().agent.config, folder)
    assert main(["import", str(folder), "--out", str(tmp_path / "run")]) == 0
    assert "3 trajectories, 2 by task" in capsys.readouterr().out
    events = events_of(tmp_path / "run")
    first, second = events["group_started"]
    assert (first.prompt, first.environment, first.split, first.suite) == ("You add.", "sums", "eval", "sums")
    assert (len(first.members), len(second.members)) == (2, 1)
    turn = events["turn"][0]
    assert (turn.state, turn.thought, turn.answer) == ("2 + 2?", "Two and two.", "4")
    assert (turn.terms, turn.tokens) == ({"exact": 1.0, "short": 0.25}, 3)
    ends = events["trajectory_finished"]
    assert [(end.total_reward, end.success) for end in ends] == [(1.25, True), (0.25, False), (0.75, False)]
    (evaluation,) = events["evaluation"]
    assert (evaluation.suite, evaluation.prompts, evaluation.success) == ("sums", 2, pytest.approx(1 / 3))
    record = ends[0].extra["record"]
    assert record["task"]["key"] == "sum-0"
    assert record["agent"]["model"] == "m-7b"
    settings = events["run_started"][0].config["recorded"]
    assert settings["model"] == "m-7b"
    assert "secret" not in (tmp_path / "run" / "journal.jsonl").read_text()


def test_tools_and_every_branch_of_the_graph_are_turns_of_one_trajectory(tmp_path: Path) -> None:
    trace = begun()
    example = AssistantMessage(content="1 + 1 is 2.")
    prompt: list[Any] = [SYSTEM, UserMessage(content="1 + 1?"), example, QUESTION]
    call = ToolCall(id="c1", name="add", arguments='{"a": 2, "b": 2}')
    called = respond(trace, prompt, tool_calls=[call])
    prompt = [*prompt, called, ToolMessage(tool_call_id="c1", content="4")]
    respond(trace, prompt, content="It is 4.")
    respond(trace, [SYSTEM, UserMessage(content="Summary: it was 4.")], tokens=5, content="4")
    trace.record_reward("exact", 1.0)
    assert trace.num_branches == 2
    events = imported(tmp_path, written(tmp_path / "evals", episode_of(trace)))
    first, second, third = events["turn"]
    assert first.state == "1 + 1?\n\n1 + 1 is 2.\n\n2 + 2?"
    assert first.actions[0].call.result == "4"
    assert (second.state, second.response) == ("4", "It is 4.")
    assert (third.state, third.extra["message"]) == ("Summary: it was 4.", {"branch": 2})
    (end,) = events["trajectory_finished"]
    assert (end.turns, end.total_reward, end.tokens) == (3, 1.0, 11)


def test_failed_rollouts_keep_their_error_and_have_no_reward(tmp_path: Path) -> None:
    broken = begun()
    broken.record_error(TimeoutError("no answer"))
    before = episode_of(number=1, errors=broken.errors)
    events = imported(tmp_path, written(tmp_path / "evals", episode_of(answered("4", 1.0)), episode_of(broken), before))
    failed = events["trajectory_finished"][1:]
    assert [(end.error, end.turns, end.total_reward, end.success) for end in failed] == [
        ("TimeoutError: no answer", 0, None, None)
    ] * 2
    assert events["evaluation"][0].success == 1.0


def test_traces_without_messages_are_refused_with_their_line(tmp_path: Path) -> None:
    folder = written(tmp_path / "evals", episode_of(answered("4", 1.0)), episode_of(begun()))
    with pytest.raises(ImportFailed, match=r"traces\.jsonl, line 2: the trace has no messages: its fields are"):
        import_files([folder], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_steps_of_training_and_agents_of_an_episode_are_separate_groups(tmp_path: Path) -> None:
    def trained(step: int) -> Episode[Any, Any, Any]:
        run = TrainRunInfo(id="t1", work=TrainWorkInfo(step=step))
        traces = [answered("4", 1.0, agent="solver"), answered("yes", 0.0, agent="judge")]
        return episode_of(*traces, run=run, group=GroupInfo(id=f"g{step}"))

    events = imported(tmp_path, written(tmp_path / "rollouts", trained(2), trained(1), trained(2)))
    groups = [(group.iteration, group.split, len(group.members)) for group in events["group_started"]]
    assert groups == [(1, "train", 1), (1, "train", 1), (2, "train", 2), (2, "train", 2)]
    assert [metrics.iteration for metrics in events["metrics"]] == [1, 2]


def test_the_monitor_records_traces_as_objects_and_as_written(tmp_path: Path) -> None:
    monitor = EchoscopeMonitor(echoscope.init("Sums", folder=tmp_path / "run", environment="sums"))
    traces = [answered("4", 1.0), answered("5", 0.0)]
    monitor.log_samples(traces, step=1)
    monitor.log_samples([json.loads(json.dumps(trace.to_record())) for trace in traces], step=2)
    monitor.log_eval_samples([episode_of(trace) for trace in traces], env_name="sums-hard", step=2)
    monitor.save_final_summary(filename="final_summary.json", success=False, error_message="The GPU was lost.")
    monitor.close()
    events = events_of(tmp_path / "run")
    assert [(group.iteration, group.environment, len(group.members)) for group in events["group_started"]] == [
        (1, "sums", 2),
        (2, "sums", 2),
        (2, "sums", 2),
    ]
    assert [turn.answer for turn in events["turn"]] == ["4", "5"] * 3
    assert [end.total_reward for end in events["trajectory_finished"]] == [1.25, 0.25] * 3
    assert [metrics.values for metrics in events["metrics"]] == [
        {"reward/mean": 0.75, "reward/in_group_std": 0.5, "success/rate": 0.5}
    ] * 2
    assert (events["evaluation"][0].suite, events["evaluation"][0].success) == ("sums-hard", 0.5)
    (finished,) = events["run_finished"]
    assert (finished.reason, finished.message) == ("error", "The GPU was lost.")


class Rollout(Trace[Any, Any, Any]):
    """A trace with what prime-rl's orchestrator knows of it, which it does not write."""

    env_name: str = Field(default="", exclude=True)
    group_id: UUID = Field(default_factory=uuid4, exclude=True)


def test_rollouts_of_prime_rl_are_grouped_by_its_environments_and_groups(tmp_path: Path) -> None:
    group, rollouts = uuid4(), []
    for text, reward in (("4", 1.0), ("5", 0.0), ("4", 1.0)):
        trace = answered(text, reward)
        rollouts.append(
            Rollout(
                task=trace.task,
                agent=trace.agent,
                nodes=trace.nodes,
                rewards=trace.rewards,
                env_name="sums-easy",
                group_id=group if len(rollouts) < 2 else uuid4(),
            )
        )
    EchoscopeMonitor(echoscope.init("Sums", folder=tmp_path / "run")).log_samples(rollouts=rollouts, step=3)
    events = events_of(tmp_path / "run")
    assert [(group.environment, len(group.members)) for group in events["group_started"]] == [
        ("sums-easy", 2),
        ("sums-easy", 1),
    ]
    assert events["trajectory_finished"][0].extra["record"]["group_id"] == str(group)
