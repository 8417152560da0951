"""Runs from before the renaming of settings and metrics: stored rows and imported journals."""

from __future__ import annotations

from pathlib import Path

from tests.trainer.config.test_former_names import FORMER_CONFIG, FORMER_MIX, MIX
from tests.webapp import journal_builder
from tests.webapp.conftest import People
from trainer.config.run import RunConfig
from trainer.journal import events as journal
from webapp.explorer.compare import differences
from webapp.ingest.imports import do_create_imported_run
from webapp.ingest.tailer import JournalTailer


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
