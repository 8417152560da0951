"""Parts of the scaling benchmark: the simulated engine and its latencies, shares of linear scaling."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from bench.scale import equality, random_kills, recorded_latencies, rollout_scaling
from bench.scale.rollout_scaling import ScalingResult
from bench.scale.simulated_engine import SESSIONS, SimulatedSampler
from tests.trainer import tiny
from trainer.engines.sampler import SamplingParams
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory


def test_latencies_have_the_long_tail_of_the_recorded_engine() -> None:
    seconds = recorded_latencies.recorded()
    assert seconds == sorted(seconds)
    assert len(seconds) == 1000
    assert seconds[990] > 4 * seconds[500]


def test_rows_answer_independently_and_sessions_repeat() -> None:
    sampler = SimulatedSampler([1, 2, 3], scale=1e-5)

    def order() -> list[int]:
        session = sampler.session([0] * 4, SamplingParams())
        rows: list[int] = []
        for row, response in session.generate({row: [7] for row in range(4)}):
            assert response.ids == [1, 2, 3]
            rows.append(row)
            if rows.count(row) < 3:
                session.append(row, [8])
        assert sorted(rows) == sorted([0, 1, 2, 3] * 3)
        return rows

    first = [order() for _ in range(SESSIONS)]
    assert len({tuple(rows) for rows in first}) > 1, "latencies differ between sessions"


def test_shares_are_relative_to_one_actor() -> None:
    results = [ScalingResult(1, 100.0, 2.0, 1.0, 50.0), ScalingResult(4, 380.0, 2.0, 1.0, 190.0)]
    assert rollout_scaling.relative(results[1], results[0]) == pytest.approx(0.95)
    text = rollout_scaling.table(results)
    assert "| 4 | 380 | 95% |" in text
    assert "carries 30,000 trajectories per minute" in text


def _renumbered(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps({**line, "seq": number}) + "\n" for number, line in enumerate(lines, start=1))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kills")
    algorithm = {"estimator": "reinforce_plus_plus", "drop_zero_std": False, "gamma": 0.9}  # equal rewards teach, too
    model = tiny.save_llama(folder / "model")
    config = tiny.config(model, iterations=2, checkpoint={"every": 1}, algorithm=algorithm)
    run_factory.run(config, folder / "run", folder / "cache")
    return folder / "run"


def test_a_complete_run_equals_itself(finished: Path) -> None:
    assert random_kills.faults_of(finished, finished) == []


def test_doubled_missing_and_changed_turns_are_found_after_kills(finished: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (finished / JOURNAL_FILE).read_text().splitlines()]
    place = max(number for number, line in enumerate(lines) if line["type"] == "turn")
    turn = lines[place]
    for name, changed, fault in (
        ("doubled", [*lines[:place], turn, *lines[place:]], "is recorded twice"),
        ("missing", [*lines[:place], *lines[place + 1 :]], "1 turns differ or are missing"),
        ("changed", [*lines[:place], {**turn, "response": "other"}, *lines[place + 1 :]], "1 turns differ"),
        ("cut", lines[:-1], "does not end with the completed run"),
    ):
        copy = shutil.copytree(finished, tmp_path / name)
        (copy / JOURNAL_FILE).write_text(_renumbered(changed))
        assert any(fault in found for found in random_kills.faults_of(copy, finished)), name


def test_changed_weights_are_found_after_kills(finished: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(finished, tmp_path / "copy")
    newest = sorted(copy.glob("checkpoints/[0-9]*/model.safetensors"))[-1]
    newest.write_bytes(newest.read_bytes()[:-1] + b"\1")
    assert random_kills.faults_of(copy, finished) == ["copy: the final weights differ"]


def test_turns_after_the_iteration_that_an_attempt_continues_from_do_not_count(finished: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (finished / JOURNAL_FILE).read_text().splitlines()]
    first_update = next(number for number, line in enumerate(lines) if line["type"] == "checkpoint")
    started = next(line for line in lines if line["type"] == "run_started")
    again = {**started, "attempt": 2, "from_iteration": lines[first_update]["iteration"]}
    copy = shutil.copytree(finished, tmp_path / "copy")
    killed = next(n for n, line in enumerate(lines) if n > first_update and line["type"] == "turn") + 1
    (copy / JOURNAL_FILE).write_text(_renumbered([*lines[:killed], again, *lines[first_update + 1 :]]))
    assert random_kills.faults_of(copy, finished) == []


def test_gradients_count_up_to_the_first_turn_that_differs(finished: Path, tmp_path: Path) -> None:
    same = equality.difference(finished, finished, iterations=2)
    assert (same.same_until, same.gradients, same.weights) == (2, [0.0, 0.0], 0.0)
    assert equality.faults_in(same) == []
    lines = [json.loads(line) for line in (finished / JOURNAL_FILE).read_text().splitlines()]
    copy = shutil.copytree(finished, tmp_path / "copy")
    for line in lines:
        if line["type"] == "metrics" and "policy/grad_norm" in line["values"]:
            line["values"]["policy/grad_norm"] *= 1.001 if line["iteration"] == 1 else 2
        if line["type"] == "turn" and random_kills.iteration_of(line["trajectory"]) == 2:
            line["response"] = "other"
    (copy / JOURNAL_FILE).write_text(_renumbered(lines))
    other = equality.difference(copy, finished, iterations=2)
    assert (other.same_until, other.gradients) == (1, pytest.approx([1e-3]))
    assert equality.faults_in(other) == ["two learners: the first gradients differ by more than 1e-05"]
    assert "the same turns up to iteration 1; gradient norms differ by 1.0e-03" in equality.report([], other, 2)
