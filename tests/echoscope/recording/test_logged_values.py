"""Values of metrics that are no finite numbers: one warning for each name, and a notice where a curve has a gap."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import echoscope
from echoscope.integrations.metric_names import with_standard_names
from tests.echoscope.recording.caught_warnings import caught_warnings
from trainer.journal.reader import read


def recorded(folder: Path, kind: str) -> list[Any]:
    return [event for event in read(folder / "journal.jsonl") if event.type == kind]


def log_quietly(run: echoscope.Recorder, values: dict[str, Any], **keywords: Any) -> None:
    with caught_warnings() as messages:
        run.log(values, **keywords)
    assert messages == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan"), torch.tensor(math.inf), 10**400])
def test_a_number_that_is_not_finite_is_a_gap_with_one_warning_and_one_notice(value: Any, tmp_path: Path) -> None:
    run = echoscope.init("Diverged", folder=tmp_path)
    run.log({"loss": 1.0}, iteration=11)
    with pytest.warns(
        RuntimeWarning, match=r"^loss is not a finite number \(-?(nan|inf)\) and is not recorded"
    ) as caught:
        run.log({"loss": value, "lr": 0.1}, iteration=12)
    assert [warning.filename for warning in caught] == [__file__]
    log_quietly(run, {"loss": value, "lr": 0.1}, iteration=13)
    (notice,) = recorded(tmp_path, "notice")
    assert notice.level == "warning"
    assert notice.message.startswith(f"loss is not a finite number ({float(caught_number(value))}) in iteration 12: ")
    values = [(event.iteration, event.values) for event in recorded(tmp_path, "metrics")]
    assert values == [(11, {"loss": 1.0}), (12, {"lr": 0.1}), (13, {"lr": 0.1})]


def caught_number(value: Any) -> float:
    return math.inf if isinstance(value, int) else float(value)


def test_each_name_has_its_own_warning_and_notice(tmp_path: Path) -> None:
    run = echoscope.init("Diverged", folder=tmp_path)
    with pytest.warns(RuntimeWarning) as caught:
        run.log({"loss": math.nan, "grad": math.inf})
    assert [str(warning.message).split()[0] for warning in caught] == ["loss", "grad"]
    assert [notice.message.split()[0] for notice in recorded(tmp_path, "notice")] == ["loss", "grad"]


def test_a_gap_has_one_notice_of_all_processes_in_each_attempt_at_the_run(tmp_path: Path) -> None:
    for start in (0, 1):
        run = echoscope.init("Diverged", folder=tmp_path, from_iteration=start)
        for process in (run, echoscope.attach(tmp_path)):
            with pytest.warns(RuntimeWarning):
                process.log({"loss": math.nan}, iteration=start + 1)
    assert ["in iteration 1:" in notice.message for notice in recorded(tmp_path, "notice")] == [True, False]


def test_an_iteration_whose_only_value_is_not_finite_counts(tmp_path: Path) -> None:
    run = echoscope.init("Diverged", folder=tmp_path)
    run.log({"loss": 1.0})
    with pytest.warns(RuntimeWarning):
        run.log({"loss": math.nan})
    run.log({"loss": 0.5})
    values = [(event.iteration, event.values) for event in recorded(tmp_path, "metrics")]
    assert values == [(1, {"loss": 1.0}), (2, {}), (3, {"loss": 0.5})]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("fine", "a text"),
        (None, "None"),
        ([1.0], "of type list"),
        ({}, "of type dict"),
        (1j, "of type complex"),
        (np.ones(2), "of type ndarray"),
        (torch.ones(2), "of type Tensor"),
    ],
)
def test_what_is_no_number_is_left_out_with_one_warning_of_what_to_do(value: Any, kind: str, tmp_path: Path) -> None:
    run = echoscope.init("Texts", folder=tmp_path)
    with pytest.warns(RuntimeWarning) as caught:
        run.log({"state": value, "loss": 1.0})
    log_quietly(run, {"state": value, "loss": 0.5})
    (warning,) = caught
    assert str(warning.message) == (
        f"state is {kind} and is not recorded: log() takes numbers. Pass settings as config= of echoscope.init, and "
        "anything else as a further keyword of log() or turn(), which is kept as extra of the event."
    )
    assert [event.values for event in recorded(tmp_path, "metrics")] == [{"loss": 1.0}, {"loss": 0.5}]
    assert recorded(tmp_path, "notice") == []


def test_numbers_of_python_numpy_and_torch_are_recorded(tmp_path: Path) -> None:
    run = echoscope.init("Numbers", folder=tmp_path)
    numbers = {"a": 1, "b": True, "c": np.float32(0.5), "d": np.int64(3), "e": torch.tensor(0.25), "f": torch.ones(1)}
    log_quietly(run, {**numbers, "g": "0.5"})
    (metrics,) = recorded(tmp_path, "metrics")
    assert metrics.values == {"a": 1.0, "b": 1.0, "c": 0.5, "d": 3.0, "e": 0.25, "f": 1.0, "g": 0.5}


def test_further_keywords_are_kept_without_any_number(tmp_path: Path) -> None:
    run = echoscope.init("Extra", folder=tmp_path)
    run.log({}, iteration=1, note="as the warning advises")
    run.log({}, iteration=2)
    (metrics,) = recorded(tmp_path, "metrics")
    assert metrics.extra == {"note": "as the warning advises"}


def test_texts_of_other_trainers_are_left_out_and_a_gap_has_one_name() -> None:
    values = {"actor/entropy": math.nan, "actor/grad_norm": torch.tensor(0.5), "val/table": object(), "name": "ppo"}
    named = with_standard_names(values)
    assert sorted(named) == ["actor/entropy", "actor/grad_norm", "policy/grad_norm"]
    assert named["policy/grad_norm"] == 0.5
