"""Backtest of the Echo Trap detector: collapse, lead time, false alarms."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.diagnostics.test_echo_trap import SEEDS, Script
from trainer.cli import main
from trainer.config.run import RunConfig
from trainer.diagnostics import backtest
from trainer.journal import reader
from trainer.journal.events import Alarm, Metrics, RunStarted
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.writer import Journal

RECORDINGS = Path(__file__).parents[3] / "webapp/ingest/recordings"


def numbered(curves: list[dict[str, float]]) -> dict[int, dict[str, float]]:
    return dict(enumerate(curves, start=1))


def of_reward(values: list[float]) -> dict[int, dict[str, float]]:
    return numbered([{"reward/mean": value} for value in values])


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1.0, 2.0],
        [0.0] * 60,
        list(np.linspace(0, 5, 60)),
        [0.0] * 20 + [5.0] * 20 + [1.0] * 6 + [5.0] * 20,
        [0.0] * 20 + [5.0] * 20 + [4.0] * 20,
        list(3 + np.random.default_rng(0).normal(size=80)),
    ],
    ids=["nothing", "too short", "flat", "rising", "came back", "fell by a little", "noise"],
)
def test_a_run_that_ends_well_has_no_collapse(values: list[float]) -> None:
    assert backtest.find_collapse(of_reward(values)) is None


def test_a_reward_that_falls_by_half_of_its_range_and_stays_there_is_a_collapse() -> None:
    found = backtest.find_collapse(of_reward([0.0] * 20 + [5.0] * 20 + [0.5] * 30))
    assert found is not None
    assert 41 <= found <= 46


def test_halved_success_is_a_collapse_at_any_reward() -> None:
    curves = [{"reward/mean": 1.0, "success/rate": rate} for rate in [0.6] * 30 + [0.1] * 30]
    found = backtest.find_collapse(numbered(curves))
    assert found is not None
    assert 31 <= found <= 37


def test_scripted_collapses_are_located_and_preceded_by_an_alarm() -> None:
    verdicts = [backtest.backtest(numbered(Script(collapse=110).play(seed))) for seed in SEEDS]
    assert all(verdict.collapse is not None and 95 <= verdict.collapse <= 120 for verdict in verdicts)
    leads = sorted(verdict.lead for verdict in verdicts if verdict.lead is not None)
    assert len(leads) == len(verdicts)
    assert leads[len(leads) // 2] >= 5
    assert sum(verdict.false_alarms for verdict in verdicts) == 0


def test_healthy_runs_have_neither_collapse_nor_lead_nor_false_alarms() -> None:
    for seed in SEEDS:
        verdict = backtest.backtest(numbered(Script().play(seed)))
        assert (verdict.collapse, verdict.lead, verdict.false_alarms) == (None, None, 0)


def test_a_false_alarm_is_counted_once() -> None:
    flat = {"reward/mean": 1.0, "success/rate": 0.3, "entropy/mean": 0.5}
    curves = [flat | {"reward/in_group_std": spread} for spread in [5.0] * 30 + [0.5] * 15 + [5.0] * 60]
    verdict = backtest.backtest(numbered(curves))
    assert [alarm.state for alarm in verdict.alarms] == ["watch", "healthy"]
    assert (verdict.collapse, verdict.lead, verdict.false_alarms) == (None, None, 1)


@pytest.mark.parametrize(
    ("recording", "alarms"),
    [
        ("bandit-smollm2", []),
        ("countdown-smollm2", []),
        ("countdown_trap-smollm2", [(22, "watch"), (28, "trapped")]),
        ("frozen_lake-smollm2", [(19, "watch")]),
    ],
)
def test_recorded_runs_of_a_real_model_are_judged_as_they_are_shown(
    tmp_path: Path, recording: str, alarms: list[tuple[int, str]]
) -> None:
    (tmp_path / JOURNAL_FILE).write_bytes(gzip.decompress((RECORDINGS / f"{recording}.jsonl.gz").read_bytes()))
    metrics, window = backtest.read_metrics(tmp_path / JOURNAL_FILE)
    judged = backtest.backtest({at: values for at, values in metrics.items() if at > 0}, window)
    assert [(alarm.iteration, alarm.state) for alarm in judged.alarms] == alarms
    events = reader.read(tmp_path / JOURNAL_FILE)
    assert [(event.iteration, event.state) for event in events if isinstance(event, Alarm)] == alarms


def write(folder: Path, *attempts: tuple[int, list[dict[str, float]]]) -> Path:
    """A journal of attempts, each beginning after an iteration."""
    journal = Journal(folder)
    config = RunConfig().model_dump(mode="json")
    config["echo_trap"]["window"] = 7  # as before the setting was removed
    for number, (begin, curves) in enumerate(attempts, start=1):
        journal.write(
            RunStarted(
                attempt=number,
                from_iteration=begin,
                iterations=99,
                title="",
                config=config,
                device="",
                parameters=1,
                versions={},
            )
        )
        for iteration, values in enumerate(curves, start=begin + 1):
            journal.write(Metrics(iteration=iteration, tokens=1, seconds=1.0, values=values))
    journal.close()
    return journal.path


def test_metrics_exclude_iterations_replaced_by_a_later_attempt(tmp_path: Path) -> None:
    path = write(tmp_path, (0, [{"reward/mean": 1.0}] * 5), (3, [{"reward/mean": 2.0}]))
    metrics, window = backtest.read_metrics(path)
    assert {iteration: values["reward/mean"] for iteration, values in metrics.items()} == {1: 1, 2: 1, 3: 1, 4: 2}
    assert window == 7


def test_the_command_prints_a_table_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "collapses", (0, Script(collapse=110).play(0)))
    well = write(tmp_path / "well", (0, Script().play(1)))
    assert main.main(["echo-trap", "backtest", str(tmp_path / "collapses"), str(well)]) == 0
    printed = capsys.readouterr().out
    assert "1 of 2 runs collapsed, 1 of them announced, lead time" in printed
    assert "0 false alarms" in printed
    assert "trapped" in printed


def test_each_signal_is_scored_with_an_interval(capsys: pytest.CaptureFixture[str]) -> None:
    recordings = sorted(map(str, RECORDINGS.glob("*.jsonl.gz")))
    assert main.main(["echo-trap", "backtest", *recordings]) == 0
    scores = dict(line.rsplit("  ", 1) for line in capsys.readouterr().out.splitlines()[-11:])
    scores = {title.split("  ")[0]: score.strip() for title, score in scores.items()}
    assert scores["Variety of first thoughts"] == "1 (5–70%)", "the trap of Countdown, in which success did not halve"
    assert scores["Thoughts about their state"] == scores["True claims"] == "0 (0–49%)"


def test_a_file_that_is_not_a_journal_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["echo-trap", "backtest", str(tmp_path / "nothing")]) == 1
    assert "nothing" in capsys.readouterr().err
    (tmp_path / "journal.jsonl").write_text('{"seq":1,"time":0,"type":"metrics"}\n')
    assert main.main(["echo-trap", "backtest", str(tmp_path)]) == 1
    assert "line 1 is not an event" in capsys.readouterr().err
    packed = (RECORDINGS / "bandit-smollm2.jsonl.gz").read_bytes()
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[:-50_000])
    assert main.main(["echo-trap", "backtest", str(tmp_path / "cut.jsonl.gz")]) == 1
    assert "the compressed journal is damaged or cut off" in capsys.readouterr().err
