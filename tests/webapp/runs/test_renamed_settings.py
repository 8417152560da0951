"""Runs from before the renaming of settings and metrics: stored rows and imported journals."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from tests.trainer.config.test_former_names import FORMER_CONFIG, FORMER_MIX, MIX, RENAMED
from tests.webapp import journal_builder
from tests.webapp.conftest import People
from trainer.config.files import current_settings
from trainer.config.run import RunConfig
from trainer.journal import events as journal
from trainer.metrics.registry import FORMER_NAMES
from webapp.explorer.compare import differences
from webapp.ingest.imports import do_create_imported_run
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import MetricPoint, Run

migration: Any = import_module("webapp.runs.migrations.0009_renamed_settings_and_metrics")
mix_migration: Any = import_module("webapp.runs.migrations.0010_environment_mix")


def former_run(run: Run) -> Run:
    """The run with rows as an earlier version wrote them."""
    Run.objects.filter(pk=run.pk).update(config=FORMER_CONFIG)
    for number, name in enumerate(FORMER_NAMES):
        MetricPoint.objects.create(run=run, name=name, iteration=1, value=number, tokens=1, seconds=1.0)
    changes = {"algorithm.filter": "std", "optimizer.policy_lr": "0.1"}
    run.rewinds.create(seq=9, number=1, from_iteration=2, to_iteration=1, changes=changes, time=timezone.now())
    return run


def test_the_migration_renames_all_settings_and_metrics(run: Run) -> None:
    assert {f"{name.rpartition('.')[0]}.{new}".lstrip(".") for name, new in migration.SETTINGS.items()} == {
        current for _, current in RENAMED
    }
    former_run(run)
    migration.forwards(apps, None)
    run.refresh_from_db()
    assert run.config == current_settings(FORMER_CONFIG)
    assert RunConfig.model_validate(run.config) == RunConfig.model_validate(FORMER_CONFIG)
    assert run.rewinds.get().changes == {"algorithm.group_filter": "std", "optimizer.policy_lr": "0.1"}
    points = MetricPoint.objects.filter(run=run).order_by("value").values_list("name", flat=True)
    assert list(points) == list(FORMER_NAMES.values())


def test_the_migration_can_be_undone(run: Run) -> None:
    former_run(run)
    migration.forwards(apps, None)
    migration.backwards(apps, None)
    run.refresh_from_db()
    assert run.config == FORMER_CONFIG
    assert run.rewinds.get().changes == {"algorithm.filter": "std", "optimizer.policy_lr": "0.1"}
    assert set(MetricPoint.objects.filter(run=run).values_list("name", flat=True)) == set(FORMER_NAMES)


def test_an_imported_former_journal_has_current_names(people: People, tmp_path: Path) -> None:
    started = journal_builder.started().model_copy(update={"config": FORMER_CONFIG})
    rewound = journal.Rewound(number=1, from_iteration=1, to_iteration=0, changes={"algorithm.filter": "std"})
    journal_builder.write(tmp_path, started, *journal_builder.iteration(1), rewound)
    run = do_create_imported_run(people.team, people.owner, started)
    JournalTailer(run, tmp_path).drain()
    former = RunConfig.model_validate(FORMER_CONFIG).model_dump(mode="json")
    for section in ("algorithm", "engine", "hosted", "memory", "optimizer", "sft", "trackers"):
        assert run.config[section] == former[section]
    assert "algorithm.group_filter_keep" in run.config["echo_trap"]["rewind_changes"]
    assert run.rewinds.get().changes == {"algorithm.group_filter": "std"}


def test_a_former_run_differs_from_a_current_one_only_where_values_differ(people: People) -> None:
    config = RunConfig().model_dump(mode="json")
    former = {"algorithm": {"lam": 1.0, "filter": "none", "reuse": 3}}
    runs = [
        do_create_imported_run(people.team, people.owner, journal_builder.started().model_copy(update={"config": data}))
        for data in (former, config)
    ]
    names = [one.name for group in differences(runs) for one in group.differences]
    assert names == ["algorithm.updates_per_rollout"]


@pytest.mark.parametrize(
    ("former", "current"),
    [
        (FORMER_MIX, {"mix": MIX[::-1]}),  # in the order in which PostgreSQL keeps keys, as the runs were trained
        ({name: {} for name in FORMER_MIX}, {"mix": []}),
        ({"name": "Bandit"}, {"name": "Bandit"}),
    ],
)
def test_the_migration_lists_further_environments_and_can_be_undone(
    former: dict[str, Any], current: dict[str, Any], run: Run
) -> None:
    rest, editor = {"seed": 3}, connection.schema_editor()
    Run.objects.filter(pk=run.pk).update(config=rest | {"environment": former})
    mix_migration.forwards(apps, editor)
    run.refresh_from_db()
    assert run.config == rest | {"environment": current}
    mix_migration.forwards(apps, editor)
    mix_migration.backwards(apps, editor)
    run.refresh_from_db()
    assert run.config == rest | {"environment": former}


def test_an_imported_former_journal_lists_its_further_environments(people: People) -> None:
    started = journal_builder.started().model_copy(update={"config": {"environment": FORMER_MIX}})
    run = do_create_imported_run(people.team, people.owner, started)
    assert run.config["environment"]["mix"] == MIX
    assert not set(FORMER_MIX) & set(run.config["environment"])


def test_a_former_journal_whose_mixture_does_not_fit_together_is_imported(people: People) -> None:
    data = {"environment": {"other_settings": {"FrozenLake.size": 5}}}
    started = journal_builder.started().model_copy(update={"config": data})
    run = do_create_imported_run(people.team, people.owner, started)
    assert run.config["environment"]["mix"] == []
