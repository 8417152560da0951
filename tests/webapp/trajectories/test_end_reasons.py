"""Codes of the end of an attempt, which words of a search suggest them, and their migration."""

from __future__ import annotations

import importlib
import re
from types import SimpleNamespace

import pytest
from django.db import connection

from envs.lost_reasons import lost_reason
from tests.webapp.explorer.scripted_run import write_story
from webapp.runs.models import Run
from webapp.trajectories.end_reasons import END_REASONS, LOST, end_reason, suggested
from webapp.trajectories.models import Trajectory

LOST_AT = {"turn": 1, "action": 0, "reason": "a box is in a corner"}


@pytest.mark.parametrize(
    ("end", "success", "lost", "error", "code"),
    [
        ("terminated", True, None, None, "solved"),
        ("turns", False, LOST_AT, None, "box_corner"),
        ("turns", False, None, None, "out_of_turns"),
        ("actions", False, None, None, "out_of_actions"),
        ("truncated", False, None, None, "cut_off"),
        ("truncated", False, LOST_AT, "the simulator gave up", "environment_error"),
        ("interrupted", False, LOST_AT, None, "interrupted"),
        ("terminated", False, None, None, "ended"),
        ("terminated", None, None, None, "unknown"),
        ("turns", None, None, None, "out_of_turns"),
        ("truncated", None, None, "it crashed", "environment_error"),
        ("terminated", False, LOST_AT | {"reason": "checkmate"}, None, "lost"),
    ],
)
def test_an_end_has_one_code(
    end: str, success: bool | None, lost: dict[str, object] | None, error: str | None, code: str
) -> None:
    assert end_reason(end, success, lost, error) == code
    assert code in END_REASONS


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("corner", "box_corner"),
        ("fails in corners", "box_corner"),
        ('"fell in hole"', "hole"),
        ("wall", "box_wall"),
        ("Interrupted", "interrupted"),
    ],
)
def test_words_of_a_search_suggest_ways_to_end(text: str, code: str) -> None:
    assert code in suggested(text)


def test_common_words_suggest_nothing() -> None:
    assert suggested("push the box and 3,4") == []


def test_the_migration_finds_the_codes_of_the_ingest_in_batches(
    run: Run, tmp_path: object, settings: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path  # type: ignore[attr-defined]
    write_story(run)
    wanted = list(Trajectory.objects.order_by("pk").values_list("pk", "end_reason", "lost_turn"))
    assert len({code for _, code, _ in wanted}) > 5
    migration = importlib.import_module("webapp.trajectories.migrations.0008_codes_of_earlier_attempts")
    monkeypatch.setattr(migration, "BATCH", 3)
    kept = wanted[1][0]
    Trajectory.objects.exclude(pk=kept).update(end_reason="", lost_turn=None)
    Trajectory.objects.filter(pk=kept).update(end_reason="kept")
    for _ in range(2):  # it may be broken off and repeated
        migration.fill_codes(None, SimpleNamespace(connection=connection))
    assert Trajectory.objects.get(pk=kept).end_reason == "kept"
    Trajectory.objects.filter(pk=kept).update(end_reason=wanted[1][1])
    assert list(Trajectory.objects.order_by("pk").values_list("pk", "end_reason", "lost_turn")) == wanted
    patterns = dict(re.findall(r"~ '\^(.*?)' THEN '(\w+)'", migration.CODES))
    for pattern, code in patterns.items():  # later wordings may join a reason, but none of the stored ones leaves it
        sentence = re.sub(r"\(([^|)]*)[^)]*\)\??", r"\1", pattern)
        assert lost_reason(sentence).code == code
    assert set(LOST) >= set(patterns.values()) | {"lost"}
