"""A run of a study gives the same outcome from the tables as its journal gives the trainer's own study."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.utils import timezone

from tests.webapp import journal_builder
from tests.webapp.conftest import People
from tests.webapp.pages.runs.test_worker_views import worker
from tests.webapp.studies.played import runs_of
from trainer.config.run import RunConfig
from trainer.journal import events as journal
from trainer.studies import cell_journal
from trainer.studies.catalogue import STUDIES
from trainer.studies.grid import Cell
from trainer.studies.outcomes import GPU_MEMORY, OWN_GPU_MEMORY, UPDATE
from trainer.studies.results import RunRow
from webapp.ingest.tailer import JournalTailer
from webapp.runs.actions import do_release_run
from webapp.runs.models import Run
from webapp.studies.actions import do_create_study
from webapp.studies.study_outcomes import add_puzzles, load_members, read_outcomes
from webapp.studies.study_plan import planned
from webapp.studies.study_results import load_results
from webapp.studies.study_spec import CatalogueSpec
from webapp.worker.claims import do_claim_run


def evaluation(iteration: int, suite: str, success: float) -> journal.Evaluation:
    return journal.Evaluation(
        iteration=iteration,
        suite=suite,
        prompts=64,
        success=success,
        success_low=success / 2,
        success_high=1.0,
        mean_reward=1.0,
        mean_turns=1.0,
        mean_actions=1.0,
    )


def metrics(iteration: int, success: float) -> journal.Metrics:
    values = {"success/rate": success, "reward/mean": success, UPDATE: 1.5}
    values |= {GPU_MEMORY: 2.0**35, OWN_GPU_MEMORY: 2.0 ** (20 + min(iteration, 10))}
    return journal.Metrics(iteration=iteration, tokens=100 * iteration, seconds=2.0 * iteration, values=values)


def played(suite: str) -> Iterator[journal.Event]:
    """Success collapses after iteration 8; the run was resumed from iteration 6, which undid iteration 7."""
    yield journal_builder.started()
    yield evaluation(0, suite, 0.25)
    for number in range(1, 8):
        yield metrics(number, 0.75)
    yield journal.Alarm(iteration=7, state="trapped", message="Undone.", evidence={})
    yield journal_builder.started(attempt=2, from_iteration=6, evaluated=0)
    for number in range(7, 20):
        yield metrics(number, 0.75 if number <= 8 else 0.0)
    yield journal.Alarm(iteration=12, state="trapped", message="The rewards are equal.", evidence={})
    yield evaluation(19, suite, 0.125)
    yield evaluation(19, "FrozenLake", 0.5)
    yield journal.RunFinished(reason="completed", iteration=19, message="Done.", summary={"seconds": 38.0})


def test_outcomes_equal_those_of_the_journal(people: People) -> None:
    spec = CatalogueSpec(study="figure-9", scale="smoke", seeds=1)
    study = do_create_study(people.team, people.owner, spec, planned(spec))
    run = runs_of(study)[0]
    Run.objects.filter(pk=run.pk).update(state=Run.State.STARTING)
    journal_builder.write(run.folder, *played(run.environment))
    JournalTailer(Run.objects.get(pk=run.pk)).drain()
    (here, *_) = read_outcomes(load_members(study), [UPDATE])
    config = RunConfig.model_validate(run.config)
    arm = STUDIES["figure-9"].arms[0]
    there = cell_journal.read(Cell(here.environment, arm, here.seed, config, run.folder))
    assert (here.environment, here.arm, here.seed) == (there.environment, there.arm, there.seed)
    for name in ("success/rate", UPDATE):
        assert here.curves[name] == there.curves[name]
    assert here.evaluations == there.evaluations
    assert here.alarms == there.alarms == [(12, "trapped")]
    assert (here.suite, here.iterations) == (there.suite, there.iterations)
    assert here.collapse == there.collapse
    assert there.collapse is not None, "the journal holds a collapse"
    assert here.trapped == there.trapped
    assert here.update_seconds == there.update_seconds == pytest.approx(19 * 1.5)
    assert here.learner_megabytes == there.learner_megabytes == 1024
    assert here.final() == there.final()
    row = RunRow(here)
    assert (row.success, row.before, here.seconds) == (0.125, 0.25, 38.0)


def test_runs_are_timed_together_if_the_same_workers_computed_both(people: People) -> None:
    spec = CatalogueSpec(study="figure-9", scale="smoke", seeds=1)
    study = do_create_study(people.team, people.owner, spec, planned(spec))
    first, second, third, unclaimed, *_ = runs_of(study)
    one, two = worker("one@here"), worker("two@there")
    for run, by in ((first, one), (second, one), (third, two)):
        held = do_claim_run(run.pk, by, timezone.now())
        assert held is not None
        assert do_release_run(held, Run.State.FINISHED)
    members = load_members(study)
    outcomes = read_outcomes(members)
    timed_in = {member.run_id: outcome.timed_in for member, outcome in zip(members, outcomes, strict=True)}
    assert timed_in[first.pk] == timed_in[second.pk]
    assert len({timed_in[run.pk] for run in (second, third, unclaimed)}) == 3


def test_a_verdict_is_firm_with_all_seeds(people: People) -> None:
    spec = CatalogueSpec(study="figure-9", scale="pocket")
    study = do_create_study(people.team, people.owner, spec, planned(spec))
    assert {one.planned for one in load_results(study, load_members(study)).verdicts} == {10}


def rewound(suite: str) -> Iterator[journal.Event]:
    """A collapse at iteration 3, a rewind to iteration 1, and no collapse after it."""
    yield journal_builder.started()
    for number in range(1, 4):
        yield metrics(number, 0.5)
    yield journal.Alarm(iteration=3, state="trapped", message="The rewards are equal.", evidence={})
    yield journal.Rewound(number=1, from_iteration=3, to_iteration=1)
    yield journal_builder.started(attempt=2, from_iteration=1, evaluated=0)
    for number in range(2, 5):
        yield metrics(number, 0.75)
    for number, success in enumerate((True, False, True, True)):
        name = f"e00004-p{number}"
        yield journal_builder.group(4, number, [name], "eval").model_copy(update={"suite": suite})
        yield journal_builder.turn(name, 0)
        yield journal_builder.end(name, 1, success)
    yield evaluation(4, suite, 0.75)
    yield journal.RunFinished(reason="completed", iteration=4, message="Done.", summary={"seconds": 8.0})


def test_a_collapse_that_a_rewind_took_back_was_detected_all_the_same(people: People) -> None:
    spec = CatalogueSpec(study="echo-trap", scale="smoke", seeds=1)
    study = do_create_study(people.team, people.owner, spec, planned(spec))
    run = next(run for run in runs_of(study, "rewind"))
    Run.objects.filter(pk=run.pk).update(state=Run.State.STARTING)
    journal_builder.write(run.folder, *rewound(run.environment))
    JournalTailer(Run.objects.get(pk=run.pk)).drain()
    members = [member for member in load_members(study) if member.run_id == run.pk]
    (here,) = read_outcomes(members, [UPDATE])
    arm = next(arm for arm in STUDIES["echo-trap"].arms if arm.name == "rewind")
    there = cell_journal.read(Cell(here.environment, arm, here.seed, RunConfig.model_validate(run.config), run.folder))
    assert here.trapped == there.trapped == 3
    assert here.collapse is None
    assert here.timed_in == (f"run {run.pk}",), "no worker is known"
    add_puzzles({run.pk: here})
    assert here.final() == there.final()
    assert [evaluation.puzzles for evaluation in here.evaluations[run.environment]] == [(1.0, 0.0, 1.0, 1.0)]
