"""The recorder writes journals that a site reads, by threads and processes, and survives interruptions."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, get_args

import pytest

import echoscope
from echoscope.recording.recorder import UNUSED_REASONS
from trainer.journal.events import AnyEvent, UnusedReason
from trainer.journal.reader import read


def events(folder: Path) -> list[AnyEvent]:
    return list(read(folder / "journal.jsonl"))


def test_a_run_becomes_a_journal_in_the_documented_order(tmp_path: Path) -> None:
    run = echoscope.init("Wordle", config={"lr": 1e-6, "seed": math.nan}, folder=tmp_path, environment="Wordle")
    with run.trajectory(prompt="Guess.", iteration=1, seed=7, board="_____") as attempt:
        attempt.turn(state="_____", response="CRANE", actions=["CRANE"], reward=0.25, tokens=3, tool_calls=[{"id": 1}])
        attempt.turn(
            state="C____", response="CLOUD", actions=[{"text": "cloud", "status": "illegal"}], reward=1, tokens=2
        )
        attempt.finish(success=True)
    with pytest.warns(RuntimeWarning, match="^broken is not a finite number"):
        run.log({"my/loss": 0.5, "broken": math.inf}, iteration=1)
    run.finish(summary={"success": 1.0})
    started, group, first, second, end, metrics, notice, finished = events(tmp_path)
    assert (started.type, started.config["recorded"]) == ("run_started", {"lr": 1e-6, "seed": "nan"})
    assert (group.environment, group.seed, len(group.members)) == ("Wordle", 7, 1)
    assert (first.extra, second.turn, second.actions[0].status) == ({"tool_calls": [{"id": 1}]}, 1, "illegal")
    assert (end.total_reward, end.turns, end.actions, end.tokens, end.success) == (1.25, 2, 1, 5, True)
    assert (metrics.values, metrics.tokens) == ({"my/loss": 0.5, "success/rate": 1.0, "reward/mean": 1.25}, 5)
    assert (notice.type, notice.level, notice.extra) == ("notice", "warning", {"metric_with_gap": "broken"})
    assert (finished.reason, finished.iteration, finished.summary) == ("completed", 1, {"success": 1.0})


def test_a_reward_that_was_not_given_is_not_recorded(tmp_path: Path) -> None:
    run = echoscope.init("Chats", folder=tmp_path)
    for rewards in ((None, None), (None, 0.5), (0.0, None)):
        with run.trajectory(prompt="p", iteration=1) as attempt:
            for reward in rewards:
                attempt.turn(state="s", response="r", reward=reward)
    with run.trajectory(prompt="p", iteration=1) as attempt:
        attempt.turn(state="s", response="r")
        attempt.finish(success=True, total_reward=2)
    with run.trajectory(prompt="p", iteration=1) as attempt:
        attempt.turn(state="s", response="r", terms={"exact": 1.0, "format": -0.25})
    recorded = events(tmp_path)
    assert [end.total_reward for end in recorded if end.type == "trajectory_finished"] == [None, 0.5, 0.0, 2.0, 0.75]
    terms = [turn.terms for turn in recorded if turn.type == "turn"]
    assert terms[:-1] == [{}, {}, {}, {"environment": 0.5}, {"environment": 0.0}, {}, {}]
    assert terms[-1] == {"exact": 1.0, "format": -0.25}


def test_without_a_seed_a_task_is_known_by_its_environment_prompt_and_board(tmp_path: Path) -> None:
    run = echoscope.init("Seeds", folder=tmp_path)
    tasks: list[dict[str, Any]] = [{}, {}, {"prompt": "q"}, {"board": "b"}, {"environment": "Go"}, {"seed": 0}]
    for task in tasks:
        run.group(2, **{"prompt": "p", "iteration": 1} | task)
    first, again, *others = [event.seed for event in events(tmp_path)[1:]]
    assert first == again
    assert len({first, *others}) == 5
    assert others[-1] == 0
    assert max(others) < 2**53, "exact in JavaScript"


def test_tool_calls_of_a_turn_without_actions_are_its_actions(tmp_path: Path) -> None:
    run = echoscope.init("Tools", folder=tmp_path)
    looked = {"name": "lookup", "arguments": {"word": "crane"}, "result": "a bird"}
    nested = {"id": "c2", "function": {"name": "now", "arguments": ""}, "error": "no clock"}
    with run.trajectory(prompt="p", iteration=1) as attempt:
        attempt.turn(state="s", response="I look.", tool_calls=[looked, nested])
        attempt.turn(state="s", response="I look.", tool_calls=[looked], actions=["CRANE"])
    _, _, first, second, end = events(tmp_path)
    assert first.extra == {"tool_calls": [looked, nested]}
    assert [action.call.model_dump() for action in first.actions] == [
        {"tool": "lookup", "arguments": {"word": "crane"}, "result": "a bird", "failed": False},
        {"tool": "now", "arguments": {}, "result": "no clock", "failed": True},
    ]
    assert ([action.text for action in second.actions], end.actions) == (["CRANE"], 3)


def test_attempts_that_taught_nothing_are_recorded_with_the_reason(tmp_path: Path) -> None:
    run = echoscope.init("Wordle", folder=tmp_path)
    attempts = run.group(5, iteration=4)
    for attempt in attempts:
        attempt.finish(success=True)
    run.used(attempts[:2], filtered=attempts[2:3], stale=attempts[3:4])
    with pytest.warns(RuntimeWarning) as warned:
        run.used(attempts[:2], iteration=5, bad_luck=attempts[2:], filtered=["a name", None])
    assert [str(one.message).partition(":")[0] for one in warned] == [
        "a reason of used() is 'bad_luck' and is recorded as 'other'",
        "used() takes lists of the attempts of group() or trajectory()",
    ]
    keys = [attempt.key for attempt in attempts]
    used = [event for event in events(tmp_path) if event.type == "attempts_used"]
    assert [(event.iteration, event.trained, event.unused) for event in used] == [
        (4, 2, {"filtered": keys[2:3], "stale": keys[3:4]}),
        (5, 2, {"other": keys[2:], "filtered": []}),
    ]
    assert set(UNUSED_REASONS) == set(get_args(UnusedReason))


def test_a_trajectory_ends_with_the_error_of_its_block(tmp_path: Path) -> None:
    run = echoscope.init("Broken", folder=tmp_path)
    attempt = run.trajectory(prompt="p", iteration=1)

    def play() -> None:
        with run, attempt:
            attempt.turn(state="s", response="r")
            raise ZeroDivisionError("nothing left")

    with pytest.raises(ZeroDivisionError):
        play()
    *_, end, _metrics, finished = events(tmp_path)
    assert (end.success, end.end, end.error) == (False, "truncated", "ZeroDivisionError: nothing left")
    assert (finished.reason, finished.message) == ("error", "ZeroDivisionError: nothing left")


def test_threads_write_whole_lines_in_order(tmp_path: Path) -> None:
    run = echoscope.init("Threads", folder=tmp_path)

    def play(attempt: echoscope.Trajectory) -> None:
        with attempt:
            for number in range(20):
                attempt.turn(state=f"{number}", response="x" * 500)

    threads = [threading.Thread(target=play, args=[one]) for one in run.group(6, prompt="p", iteration=1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    turns: dict[str, list[int]] = {}
    for event in events(tmp_path):
        if event.type == "turn":
            turns.setdefault(event.trajectory, []).append(event.turn)
    assert list(turns.values()) == [list(range(20))] * 6


def test_other_processes_attach_to_the_run(tmp_path: Path) -> None:
    run = echoscope.init("Processes", folder=tmp_path)
    code = (
        "import echoscope, sys\n"
        "run = echoscope.attach(sys.argv[1])\n"
        "for number in range(30):\n"
        "    with run.trajectory(prompt='p', iteration=number) as attempt:\n"
        "        attempt.turn(state='s', response='r' * 300)\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(2)]
    for number in range(30):
        run.log({"mine": number}, iteration=number)
    assert [process.wait() for process in processes] == [0, 0]
    run.finish()
    assert len(events(tmp_path)) == 1 + 2 * 30 * 3 + 30 + 1
    groups = [(event.iteration, event.group) for event in events(tmp_path) if event.type == "group_started"]
    assert sorted(groups) == [(number, group) for number in range(30) for group in (0, 1)]
    with pytest.warns(RuntimeWarning, match=r"Nothing of this run is recorded.*call echoscope\.init"):
        echoscope.attach(tmp_path / "none").log({"mine": 1.0})
    assert not (tmp_path / "none").exists()


def test_a_run_continues_after_a_line_that_was_not_finished(tmp_path: Path) -> None:
    echoscope.init("Again", folder=tmp_path).log({"a": 1.0}, iteration=4)
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(b'{"seq":3,"time":17')
    with pytest.warns(RuntimeWarning, match=r"this is attempt 2 at it, after iteration 4\. Pass from_iteration="):
        run = echoscope.init("Again", folder=tmp_path)
    run.log({"a": 2.0}, iteration=5)
    started = [event for event in events(tmp_path) if event.type == "run_started"]
    assert [(event.attempt, event.from_iteration) for event in started] == [(1, 0), (2, 4)]


def test_what_came_after_the_iteration_that_a_run_continues_from_is_superseded(tmp_path: Path) -> None:
    for start in (0, 2):
        run = echoscope.init("Again", folder=tmp_path, from_iteration=start)
        for iteration in range(start + 1, 5):
            for _ in range(2):
                run.group(1, prompt="p", iteration=iteration)
            run.group(1, prompt="p", iteration=iteration, split="eval")
            run.log({"a": 1.0}, iteration=iteration)
    started = [event for event in events(tmp_path) if event.type == "run_started"]
    assert [(event.attempt, event.from_iteration, event.evaluated_iteration) for event in started] == [
        (1, 0, -1),
        (2, 2, 2),
    ]
    again = [event for event in events(tmp_path) if event.type == "group_started" and event.seq > started[1].seq]
    assert [event.group for event in again] == [0, 1, 0] * 2, "numbered anew"
    run = echoscope.init("Again", folder=tmp_path, from_iteration=3)
    run.finish()
    assert events(tmp_path)[-1].iteration == 3
    with pytest.raises(ValueError, match="from 0 on, not -1"):
        echoscope.init("Again", folder=tmp_path, from_iteration=-1)


def test_values_without_an_iteration_belong_to_the_newest_attempts_or_to_the_next_one(tmp_path: Path) -> None:
    run = echoscope.init("Steps", folder=tmp_path)
    run.log({"loss": 3.0})
    run.log({"loss": 2.0})
    run.group(1, prompt="p", iteration=7)
    run.log({"loss": 1.0})
    run.log({"lr": 0.1})
    run.group(1, prompt="p", iteration=9, split="eval")
    echoscope.attach(tmp_path).log({"other": 1.0})
    run = echoscope.init("Steps", folder=tmp_path, from_iteration=7)
    run.log({"loss": 0.5})
    logged = [(event.iteration, event.values) for event in events(tmp_path) if event.type == "metrics"]
    assert logged == [
        (1, {"loss": 3.0}),
        (2, {"loss": 2.0}),
        (7, {"loss": 1.0}),
        (7, {"lr": 0.1}),
        (7, {"other": 1.0}),
        (8, {"loss": 0.5}),
    ]


def play(run: echoscope.Recorder, iteration: int, rewards: list[list[float]], **group: Any) -> None:
    for members in rewards:
        attempts = run.group(len(members), prompt="p", iteration=iteration, **group)
        for reward, attempt in zip(members, attempts, strict=True):
            attempt.turn(state="s", response="r", reward=reward)
            attempt.finish(success=reward == 1)


def test_what_attempts_amount_to_is_logged_where_it_was_not_given(tmp_path: Path) -> None:
    run = echoscope.init("Loop", folder=tmp_path)
    play(run, 1, [[0.0, 1.0], [1.0, 1.0]])
    play(run, 1, [[5.0]], split="eval")
    run.log({"loss": 0.5})
    play(run, 2, [[0.0, 1.0]])
    run.log({"reward/mean": 0.25}, iteration=2)
    play(run, 3, [[1.0], [0.0]])
    play(run, 4, [[0.0, 0.0]])
    run.log({"loss": 0.4}, iteration=4)
    play(run, 4, [[1.0, 1.0]])
    play(run, 2, [[1.0, 1.0]])
    run.finish()
    run.finish()
    logged = [(event.iteration, event.values) for event in events(tmp_path) if event.type == "metrics"]
    assert logged == [
        (1, {"loss": 0.5, "success/rate": 0.75, "reward/mean": 0.75, "reward/in_group_std": 0.25}),
        (2, {"reward/mean": 0.25, "success/rate": 0.5, "reward/in_group_std": 0.5}),
        (3, {"success/rate": 0.5, "reward/mean": 0.5}),
        (4, {"loss": 0.4, "success/rate": 0.0, "reward/mean": 0.0, "reward/in_group_std": 0.0}),
        (2, {"success/rate": 0.75, "reward/in_group_std": 0.25}),
        (4, {"success/rate": 0.5, "reward/mean": 0.5}),
    ]


def test_attempts_of_other_processes_and_long_runs_are_counted(tmp_path: Path) -> None:
    run = echoscope.init("Long", folder=tmp_path)
    other = echoscope.attach(tmp_path)
    for iteration in range(1, 201):
        play(run, iteration, [[0.0, 1.0]])
        play(other, iteration, [[1.0, 1.0]])
        run.log({}, iteration=iteration)
    play(other, 1, [[0.0, 0.0]])
    run.finish()
    logged = [event.values["success/rate"] for event in events(tmp_path) if event.type == "metrics"]
    assert logged == [0.75] * 200, "old iterations are final"


def test_unknown_success_and_interrupted_attempts_are_left_out(tmp_path: Path) -> None:
    run = echoscope.init("Unknown", folder=tmp_path)
    first, second, third = run.group(3, prompt="p", iteration=1)
    first.finish(success=None)
    second.finish(success=True, total_reward=1)
    third.finish(success=False, end="interrupted", total_reward=0)
    run.finish()
    (logged,) = [event.values for event in events(tmp_path) if event.type == "metrics"]
    assert logged == {"success/rate": 1.0, "reward/mean": 1.0}


def test_values_that_were_not_given_are_not_recorded(tmp_path: Path) -> None:
    run = echoscope.init("Bare", folder=tmp_path)
    with run.trajectory(prompt="p", iteration=1) as attempt:
        attempt.turn(state="s", response="r")
        attempt.turn(state="s", response="r", tokens=3, valid=True)
        attempt.turn(state="s", response="r", problem="no answer")
    with run.trajectory(prompt="p", iteration=1) as attempt:
        attempt.turn(state="s", response="r", tokens=0)
    run.log({"loss": 1.0})
    run.evaluation("Task", iteration=1, prompts=1, trajectories=1, successes=1, mean_reward=1)
    recorded = events(tmp_path)
    turns = [(event.tokens, event.format_valid) for event in recorded if event.type == "turn"]
    assert turns == [(None, None), (3, True), (None, False), (None, None)]
    assert [event.tokens for event in recorded if event.type == "trajectory_finished"] == [3, None]
    assert (recorded[-1].mean_turns, recorded[-1].mean_actions) == (None, None)


def test_means_of_an_evaluation_are_those_of_its_attempts(tmp_path: Path) -> None:
    run = echoscope.init("Evaluated", folder=tmp_path)
    for suite, actions in (("A", ["up", "down"]), ("A", ["up"]), ("B", [])):
        with run.trajectory(prompt="p", iteration=3, split="eval", suite=suite) as attempt:
            attempt.turn(state="s", response="r", actions=actions)
            attempt.turn(state="s", response="r")
            attempt.finish(success=True, total_reward=len(actions) if actions else None)
    result: dict[str, Any] = {"prompts": 1, "trajectories": 1, "successes": 1}
    for suite, iteration in (("A", 3), ("B", 3), ("A", 4)):
        run.evaluation(suite, iteration=iteration, **result)
    run.evaluation("A", iteration=5, mean_reward=0.5, mean_turns=7, mean_actions=0, **result)
    recorded = [event for event in events(tmp_path) if event.type == "evaluation"]
    means = [(event.mean_reward, event.mean_turns, event.mean_actions) for event in recorded]
    assert means == [(1.5, 2, 1.5), (None, 2, None), (None, None, None), (0.5, 7, 0)]


@pytest.mark.parametrize(
    "wrong, message",
    [({"url": "https://example.org"}, "both url and token"), ({"token": "es_x"}, "both url and token")],
)
def test_half_of_a_site_is_refused(wrong: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        echoscope.init("x", folder=tmp_path, **wrong)
    assert list(tmp_path.iterdir()) == []


def test_everything_is_json(tmp_path: Path) -> None:
    run = echoscope.init("JSON", folder=tmp_path, config={"path": Path("a"), "shape": (1, 2)})
    run.log({"a": 1.0}, iteration=1, note={"when": {1}})
    lines = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert lines[0]["config"]["recorded"] == {"path": "a", "shape": [1, 2]}
    assert lines[1]["extra"] == {"note": {"when": [1]}}
