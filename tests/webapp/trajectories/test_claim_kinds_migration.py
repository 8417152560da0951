"""Kinds of the false claims of earlier journals, which the migration finds from what is stored of them."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.db import connection

from bench.claims import precision
from envs import registry
from tests.webapp import journal_builder
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db


def test_the_migration_finds_the_kinds_of_the_readers_in_batches(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One attempt for each labelled sentence, its claims once with their kinds and once without, as in old journals."""
    events: list[object] = []
    turns = []
    for environment in precision.ENVIRONMENTS:
        for sentence in precision.read_sentences(environment):
            claims = registry.read_claims(environment, sentence.text, sentence.board)
            turn = journal_builder.turn(str(len(turns)), 0, sentence.text)
            turns.append(turn.model_copy(update={"claims": claims}))
    keys = [turn.trajectory for turn in turns]
    ends = [journal_builder.end(key, 1) for key in keys]
    events = [journal_builder.started(), journal_builder.group(1, 0, keys), *turns, *ends]
    journal_builder.write(tmp_path / "run", *events)  # type: ignore[arg-type]
    JournalTailer(run, tmp_path / "run").drain()
    wanted = dict(Trajectory.objects.values_list("key", "false_claim_kinds"))
    assert len({kind for kinds in wanted.values() for kind in kinds}) > 15
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE trajectories_turn SET event = jsonb_set(event, '{claims}',
            (SELECT coalesce(jsonb_agg(claim - 'kind'), '[]') FROM jsonb_array_elements(event->'claims') AS claim))"""
        )
    kept = Trajectory.objects.filter(key=keys[0])
    Trajectory.objects.exclude(key=keys[0]).update(false_claim_kinds=[])
    kept.update(false_claim_kinds=["kept"], false_claims=1)
    migration = importlib.import_module("webapp.trajectories.migrations.0010_kinds_of_earlier_claims")
    monkeypatch.setattr(migration, "BATCH", 37)
    for _ in range(2):  # it may be broken off and repeated
        migration.fill_kinds(None, SimpleNamespace(connection=connection))
    assert kept.get().false_claim_kinds == ["kept"], "those that have kinds stay as they are"
    found = dict(Trajectory.objects.values_list("key", "false_claim_kinds"))
    different = {turn.thought: (found[turn.trajectory], wanted[turn.trajectory]) for turn in turns[1:]}
    assert {text: both for text, both in different.items() if both[0] != both[1]} == {}


def test_claims_that_no_reader_words_count_as_other(run: Run, tmp_path: Path) -> None:
    turn = journal_builder.turn("a", 0, "The moon is full.")
    claims = [{"start": 0, "end": 4, "true": False, "actual": "it is new"}, {"start": 5, "end": 6, "true": True}]
    events = [journal_builder.started(), journal_builder.group(1, 0, ["a"]), turn, journal_builder.end("a", 1)]
    journal_builder.write(tmp_path / "run", *events)
    JournalTailer(run, tmp_path / "run").drain()
    trajectory = Trajectory.objects.get()
    trajectory.turns.update(event=turn.model_dump(mode="json") | {"claims": claims})
    Trajectory.objects.update(false_claims=1, true_claims=1)
    migration = importlib.import_module("webapp.trajectories.migrations.0010_kinds_of_earlier_claims")
    migration.fill_kinds(None, SimpleNamespace(connection=connection))
    assert Trajectory.objects.get().false_claim_kinds == ["other"]
