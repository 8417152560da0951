"""Searches and early stopping, step by step: next trials, hopeless arms, the end; Optuna chooses, the rows remember."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from tests.webapp.studies.played import play_until, runs_of
from trainer.config.files import load_preset
from webapp.runs import curves
from webapp.runs.actions import do_request
from webapp.runs.models import Run
from webapp.studies.actions import do_control_study, do_create_study, do_share_study
from webapp.studies.models import Study
from webapp.studies.optimizer import ArmRecord, is_hopeless, rung_iterations, suggestions
from webapp.studies.progress import do_advance, trial_record
from webapp.studies.study_plan import planned
from webapp.studies.study_spec import EarlyStopping, SearchSpec, read_spec
from webapp.teams.actions import do_set_role
from webapp.teams.models import Membership, User

__all__ = ["who"]

RATE = {"setting": "optimizer.policy_lr", "low": 1e-5, "high": 1e-2, "log": True}
HALVING = {"min_iterations": 2, "reduction": 2}


def config() -> dict[str, Any]:
    return load_preset("bandit-starpo_s-pocket").model_dump(mode="json") | {"iterations": 8}


def search_spec(kind: str = "random", **more: Any) -> SearchSpec:
    spec = read_spec({"kind": kind, "config": config(), "space": [RATE], "trials": 5, "parallel": 2} | more)
    assert isinstance(spec, SearchSpec)
    return spec


def create(people: People, data: dict[str, Any]) -> Study:
    spec = read_spec(data)
    return do_create_study(people.team, people.owner, spec, planned(spec))


def search(people: People, kind: str = "random", **more: Any) -> Study:
    return create(people, search_spec(kind, **more).model_dump(mode="json"))


def rates(study: Study) -> list[float]:
    return [arm.changes["optimizer.policy_lr"] for arm in study.arms.all()]


@pytest.mark.parametrize("kind", ["random", "bayesian"])
def test_a_search_keeps_as_many_trials_going_until_all_are_done(kind: str, people: People) -> None:
    study = search(people, kind)
    assert runs_of(study) == [], "trials are launched by the clock"
    assert do_advance() == 1
    assert len(runs_of(study)) == 2
    assert do_advance() == 0, "both are busy"
    for done in range(5):
        play_until(runs_of(study)[done], [0.1 * done] * 8, Run.State.FINISHED)
        do_advance()
        assert len(runs_of(study)) == min(5, done + 3)
    study.refresh_from_db()
    assert study.state == Study.State.FINISHED
    assert len(set(rates(study))) == 5
    assert all(1e-5 <= rate <= 1e-2 for rate in rates(study))
    assert [run.config["optimizer"]["policy_lr"] for run in runs_of(study)] == pytest.approx(rates(study))
    assert {run.group for run in runs_of(study)} == {study.title}


def test_a_search_repeated_chooses_the_same_trials(people: People) -> None:
    first, second = search(people), search(people)
    do_advance()
    assert rates(first) == rates(second)


def test_a_bayesian_search_looks_where_trials_were_good() -> None:
    spec = search_spec("bayesian")
    good = [ArmRecord({"optimizer.policy_lr": 1e-3 * (1 + at / 20)}, "complete", 0.9 + at / 1000) for at in range(10)]
    bad = [ArmRecord({"optimizer.policy_lr": 1e-5 * (1 + at)}, "complete", 0.1) for at in range(30)]
    whole = {"optimizer.policy_lr": False}
    chosen = [one["optimizer.policy_lr"] for one in suggestions(spec, whole, good + bad, "up", 12, 0)]
    random = [one["optimizer.policy_lr"] for one in suggestions(search_spec(), whole, good + bad, "up", 12, 0)]
    assert sum(3e-4 < rate < 3e-3 for rate in chosen) >= 9 > sum(3e-4 < rate < 3e-3 for rate in random)


def test_whole_numbers_and_words_are_searched_as_such(people: People) -> None:
    space = [
        {"setting": "rollout.group_size", "low": 4, "high": 16},
        {"setting": "algorithm.group_filter", "values": ["none", "std"]},
    ]
    study = search(people, space=space, parallel=5)
    do_advance()
    changes = [arm.changes for arm in study.arms.all()]
    assert all(isinstance(one["rollout.group_size"], int) and 4 <= one["rollout.group_size"] <= 16 for one in changes)
    assert {one["algorithm.group_filter"] for one in changes} <= {"none", "std"}


def test_rungs_are_the_powers_before_the_end() -> None:
    assert rung_iterations(EarlyStopping(min_iterations=5, reduction=3), 45) == [5, 15]
    assert rung_iterations(EarlyStopping(min_iterations=5, reduction=3), 5) == []


def test_the_pruner_keeps_one_in_so_many_at_a_rung() -> None:
    stopping = EarlyStopping(min_iterations=2, reduction=2)
    others = [ArmRecord({}, "running", rungs={0: value}) for value in (0.9, 0.5, 0.4)]
    assert not is_hopeless(stopping, "up", ArmRecord({}, "running", rungs={0: 0.6}), others)
    assert is_hopeless(stopping, "up", ArmRecord({}, "running", rungs={0: 0.3}), others)
    assert not is_hopeless(stopping, "down", ArmRecord({}, "running", rungs={0: 0.3}), others)
    assert is_hopeless(stopping, "down", ArmRecord({}, "running", rungs={0: 0.6}), others)
    assert not is_hopeless(stopping, "up", ArmRecord({}, "running", rungs={0: 0.6, 1: 0.1}), others), "first at rung 2"


def grid_of_four(people: People, **more: Any) -> Study:
    axes = [{"setting": "algorithm.kl_coef", "values": [0, 0.001, 0.01, 0.1]}]
    data = {"kind": "grid", "config": config(), "axes": axes, "seeds": 1, "early_stopping": HALVING}
    return create(people, data | more)


def test_hopeless_arms_of_a_grid_are_stopped_with_a_reason(people: People, who: Visitors) -> None:
    study = grid_of_four(people)
    for run, value in zip(runs_of(study), (0.5, 0.6, 0.1, 0.7), strict=True):
        play_until(run, [value] * 2)
    do_advance()
    assert [bool(arm.stopped) for arm in study.arms.all()] == [True, False, True, False]
    assert [run.requested for run in runs_of(study)] == ["stop", "", "stop", ""]
    reason = study.arms.get(number=3).stopped
    assert reason.startswith(f"Stopped by the study {study.title}: after iteration 2, its")
    assert "place 4 of 4 arms" in reason
    assert reason in text_of(who.owner, f"/runs/{runs_of(study)[2].slug}/")
    assert "Part of" in text_of(who.owner, f"/runs/{runs_of(study)[1].slug}/")
    assert do_advance() == 0, "an arm is judged once at each rung"

    Run.objects.filter(requested="stop").update(state=Run.State.STOPPED, requested="")
    for run, value in zip(runs_of(study), (0.5, 0.6, 0.1, 0.7), strict=True):
        if run.state != Run.State.STOPPED:
            play_until(run, [value] * 4)
    do_advance()
    assert [bool(arm.stopped) for arm in study.arms.all()] == [True, True, True, False]
    assert study.arms.get(number=2).rungs == {"0": 0.6, "1": 0.6}


def test_a_stopped_run_can_be_resumed_by_hand(people: People) -> None:
    study = grid_of_four(people)
    for run, value in zip(runs_of(study), (0.5, 0.6, 0.1, 0.7), strict=True):
        play_until(run, [value] * 2)
    do_advance()
    run = runs_of(study)[2]
    Run.objects.filter(pk=run.pk).update(state=Run.State.STOPPED, requested="")
    do_request(run, "resume")
    do_advance()
    assert (runs_of(study)[2].state, runs_of(study)[2].requested) == (Run.State.QUEUED, "")


def text_of(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def test_the_value_at_a_rung_does_not_depend_on_when_it_is_looked_at(people: People) -> None:
    early, late = grid_of_four(people), grid_of_four(people)
    curves = (
        [0.1, 0.3, 0.9, 0.9, 0.9],
        [0.2, 0.4, 0.0, 0.0, 0.0],
        [0.5, 0.5, 0.5, 0.5, 0.5],
        [0.3, 0.1, 0.8, 0.8, 0.8],
    )
    for length in (2, 4, 5):
        for run, curve in zip(runs_of(early), curves, strict=True):
            if not run.requested:
                play_until(run, curve[:length])
        do_advance()
    for run, curve in zip(runs_of(late), curves, strict=True):
        play_until(run, curve)
    do_advance()
    first = [arm.rungs.get("0") for arm in early.arms.all()]
    assert first == [arm.rungs.get("0") for arm in late.arms.all()]
    assert first == pytest.approx([0.2, 0.3, 0.5, 0.2])


def test_an_arm_of_several_seeds_waits_for_all_of_them(people: People) -> None:
    study = grid_of_four(people, seeds=2)
    for run in runs_of(study, "arm-1"):
        play_until(run, [0.9] * 2)
    ahead, behind = runs_of(study, "arm-2")
    play_until(ahead, [0.1] * 2)
    play_until(behind, [0.1])
    do_advance()
    assert study.arms.get(number=2).rungs == {}
    play_until(behind, [0.1] * 2)
    do_advance()
    assert study.arms.get(number=2).stopped
    assert [run.requested for run in runs_of(study, "arm-2")] == ["stop", "stop"]


def test_a_stopped_trial_makes_room_for_the_next_one(people: People) -> None:
    study = search(people, early_stopping=HALVING)
    do_advance()
    good, bad = runs_of(study)
    play_until(good, [0.9] * 2)
    do_advance()
    play_until(bad, [0.1] * 2)
    do_advance()
    assert study.arms.get(number=2).stopped
    assert len(runs_of(study)) == 3


def test_a_paused_or_cancelled_search_launches_nothing(people: People) -> None:
    study = search(people)
    do_control_study(study, "pause")
    assert do_advance() == 0
    assert runs_of(study) == []
    do_control_study(study, "resume")
    do_advance()
    do_control_study(study, "cancel")
    do_advance()
    assert [run.state for run in runs_of(study)] == [Run.State.CANCELLED] * 2


def test_a_search_whose_author_may_not_write_any_more_shows_why_it_waits(people: People, who: Visitors) -> None:
    study = search(people)
    do_set_role(people.team, people.viewer, Membership.Role.ADMIN)
    do_set_role(people.team, people.owner, Membership.Role.VIEWER)
    do_advance()
    assert runs_of(study) == []
    assert "may not launch runs in its team any more" in text_of(who.viewer, f"/studies/{study.slug}")


def test_a_search_of_a_deactivated_account_launches_nothing(people: People) -> None:
    study = search(people)
    User.objects.filter(pk=people.owner.pk).update(is_active=False)
    do_advance()
    study.refresh_from_db()
    assert runs_of(study) == []
    assert "may not launch runs in its team any more" in study.problem


def test_trials_that_did_not_finish_have_no_result(people: People) -> None:
    study = search(people)
    do_advance()
    good, bad = runs_of(study)
    play_until(good, [0.9] * 8, Run.State.FINISHED)
    play_until(bad, [0.9] * 3, Run.State.FAILED)
    arms = list(study.arms.prefetch_related("members__run"))
    found = curves.raw([good.pk, bad.pk], ["success/rate"])
    records = [trial_record(arm, found, "success/rate") for arm in arms]
    assert [(record.state, record.value) for record in records] == [("complete", pytest.approx(0.9)), ("failed", None)]


def test_later_trials_of_an_open_study_are_open_only_on_request(people: People) -> None:
    study = search(people, trials=20)
    do_share_study(study, Study.Visibility.LINK)
    do_advance()
    assert {run.visibility for run in runs_of(study)} == {Run.Visibility.TEAM}
    do_share_study(study, Study.Visibility.LINK, with_runs=True)
    play_until(runs_of(study)[0], [0.5] * 8, Run.State.FINISHED)
    do_advance()
    assert [run.visibility for run in runs_of(study)] == [Run.Visibility.LINK] * 3
    do_share_study(study, Study.Visibility.TEAM)
    play_until(runs_of(study)[1], [0.5] * 8, Run.State.FINISHED)
    do_advance()
    assert [run.visibility for run in runs_of(study)] == [Run.Visibility.LINK] * 3 + [Run.Visibility.TEAM]


def test_seeds_of_trials_go_round() -> None:
    spec = search_spec()
    whole = {"optimizer.policy_lr": False}
    assert suggestions(spec, whole, [], "up", 1, 2**32) == suggestions(spec, whole, [], "up", 1, 0)


def test_a_full_queue_delays_the_next_trials(people: People, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_QUEUED_RUNS_PER_TEAM = 1
    study = search(people)
    do_advance()
    study.refresh_from_db()
    assert len(runs_of(study)) == 1, "the one for which there is room"
    assert "No further trials at the moment" in study.problem
    assert do_advance() == 0
    settings.ECHOSCOPE_MAX_QUEUED_RUNS_PER_TEAM = 2
    do_advance()
    study.refresh_from_db()
    assert len(runs_of(study)) == 2
    assert study.problem == ""


def test_a_run_resumed_after_the_end_reopens_the_study(people: People) -> None:
    study = grid_of_four(people)
    for run in runs_of(study):
        play_until(run, [0.5] * 8, Run.State.FINISHED)
    do_advance()
    study.refresh_from_db()
    assert study.state == Study.State.FINISHED
    Run.objects.filter(pk=runs_of(study)[0].pk).update(state=Run.State.RUNNING)
    do_advance()
    study.refresh_from_db()
    assert study.state == Study.State.RUNNING
