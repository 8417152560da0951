"""Progress of updates: every micro-batch is counted once, also after a retry with smaller ones."""

import pytest
import torch

from tests.trainer.learner.test_learner import batch_of, learner_for, weights

REWARDS = [1, 0, 0, 0, 0, 1]


def updated(folder, *, retry_at=None, **sections):
    """The learner after an update, and its reports; with `retry_at` the memory runs out at that report."""
    learner = learner_for(folder, optimizer={"mini_batch_trajectories": 3, "micro_batch_tokens": 64}, **sections)
    batch = batch_of(learner, REWARDS)
    reports = []

    def note(report):
        reports.append(report)
        if len(reports) == retry_at:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    learner.meter.on_progress = note
    learner.update(batch, 1)
    return learner, reports


def test_an_update_reports_each_micro_batch_of_all_its_stages(pocket_folder):
    _, reports = updated(
        pocket_folder, algorithm={"estimator": "gae", "kl_coef": 0.0, "tis_cap": 2.0, "updates_per_rollout": 2}
    )
    stages = list(dict.fromkeys((report.stage, report.pass_number) for report in reports))
    assert stages == [("old", 0), ("values", 0), ("step", 1), ("step", 2)]
    for stage in stages:
        part = [report for report in reports if (report.stage, report.pass_number) == stage]
        planned = part[0].total
        assert [report.done for report in part[:planned]] == list(range(planned)), stage
        assert {report.total for report in part} == {planned}
        assert set().union(*(report.groups for report in part)) == {0, 1}
    assert all(report.passes == 2 for report in reports)
    shares = [report.share for report in reports]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, pytest.approx(1.0))
    assert (reports[-1].done, reports[-1].groups) == (reports[-1].total, [])


def test_a_report_names_the_groups_of_its_micro_batch(pocket_folder):
    learner = learner_for(pocket_folder, optimizer={"mini_batch_trajectories": 6, "micro_batch_tokens": 64})
    batch = batch_of(learner, REWARDS)
    reports = []
    learner.meter.on_progress = reports.append
    learner.update(batch, 1)
    steps = [report for report in reports if report.stage == "step" and report.groups]
    plan = learner.planner.plan(batch)
    assert len(steps) == plan.count(64)
    assert {tuple(report.groups) for report in steps} <= {(0,), (1,), (0, 1)}


def test_a_retry_counts_nothing_twice_and_learns_the_same(pocket_folder):
    settings = {"algorithm": {"estimator": "grpo", "updates_per_rollout": 2}}
    plain, reports = updated(pocket_folder, **settings)
    at = next(number for number, report in enumerate(reports, 1) if report.pass_number == 1 and report.done == 1)
    retried, again = updated(pocket_folder, retry_at=at, **settings)
    assert retried.oom_retry.tokens == 32
    after = again[at:]
    assert after[0].done == 0, "the step starts over"
    assert after[0].total > reports[at].total, "smaller micro-batches are more"
    last = after[-1]
    assert (last.done, last.share) == (last.total, pytest.approx(1.0))
    torch.testing.assert_close(weights(retried), weights(plain), atol=1e-5, rtol=1e-4)


def test_reporting_changes_no_weight(pocket_folder):
    silent = learner_for(pocket_folder, optimizer={"mini_batch_trajectories": 3, "micro_batch_tokens": 64})
    silent.update(batch_of(silent, REWARDS), 1)
    reported, reports = updated(pocket_folder)
    assert reports
    assert torch.equal(weights(silent), weights(reported))
