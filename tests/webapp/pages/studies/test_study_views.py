"""A study from its launch in the browser to verdict, exports and sharing; who may do what."""

from __future__ import annotations

import csv
import html
import io
import re

import pytest
from django.test import Client

from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from tests.webapp.studies.played import evaluate, finish, play_until, runs_of
from trainer.studies.limits import POCKET
from webapp.runs.models import Evaluation, Run
from webapp.studies.actions import do_create_study
from webapp.studies.models import Study
from webapp.studies.progress import do_advance
from webapp.studies.seen_study import seen_by
from webapp.studies.study_plan import planned
from webapp.studies.study_spec import CatalogueSpec

__all__ = ["who"]

GRID = {
    "kind": "grid",
    "preset": "bandit-starpo_s-pocket",
    "setting_1": "algorithm.kl_coef",
    "values_1": "0, 0.01",
    "seeds": "4",
    "launch_key": "one-launch",
}


@pytest.fixture
def study(people: People) -> Study:
    spec = CatalogueSpec(study="figure-9", scale="smoke", seeds=1)
    return do_create_study(people.team, people.owner, spec, planned(spec))


def launch(client: Client, **fields: str) -> Study:
    response = client.post("/studies/new", fields)
    assert response.status_code == 302, re.findall(r"<li data-field.*?</li>", response.content.decode())
    return Study.objects.get(slug=response["Location"].rsplit("/", 1)[1])


def page(client: Client, study: Study) -> str:
    response = client.get(f"/studies/{study.slug}")
    assert response.status_code == 200
    return str(response.content.decode())


def words(text: str) -> str:
    """The text of a page in one line, without tags."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_a_grid_from_the_form_to_its_verdict(who: Visitors, people: People) -> None:
    assert "Launch the first study" in who.owner.get("/studies").content.decode()
    study = launch(who.owner, **GRID)
    runs = runs_of(study)
    assert len(runs) == 8
    assert {run.group for run in runs} == {study.title} == {"Bandit: KL penalty"}
    assert {run.state for run in runs} == {Run.State.QUEUED}
    assert "Queued 0 of 8 ended Grid 8 runs: 8 queued" in words(page(who.owner, study))
    listed = words(who.viewer.get("/studies").content.decode())
    assert study.title in listed
    assert "Queued 0 of 8" in listed

    for run, success in zip(runs_of(study, "arm-1"), (0.50, 0.52, 0.49, 0.51), strict=True):
        finish(run, success)
    untrained = runs_of(study, "arm-2")[0]
    evaluate(untrained, 0.44)
    assert "Running 4 of 8 ended Grid 8 runs: 4 finished, 4 queued" in words(page(who.viewer, study))
    assert not seen_by(people.owner, study).results().arms[1].successes, "success before training is no result"
    Evaluation.objects.filter(run=untrained).delete()
    for run, success in zip(runs_of(study, "arm-2")[:3], (0.80, 0.82, 0.81), strict=True):
        finish(run, success)
    text = words(page(who.viewer, study))
    assert "50.5 ± 1.3%" in text
    assert "yes (provisional)" in text
    assert "3 of 4 seeds" in text
    assert "verdicts on success hold for them only." in text, "no puzzle was recorded"
    finish(runs_of(study, "arm-2")[3], 0.79)
    do_advance()
    study.refresh_from_db()
    assert study.state == Study.State.FINISHED
    text = page(who.owner, study)
    assert "provisional)" not in text
    assert "80.5 ± 1.3%" in words(text)
    assert 'hx-trigger="every' not in text, "a finished study is not polled"
    assert all(f"/runs/{run.slug}/" in text for run in runs), "every figure opens its run"


def test_the_same_form_sent_again_launches_nothing_twice(who: Visitors) -> None:
    assert launch(who.owner, **GRID) == launch(who.owner, **GRID)
    assert Run.objects.filter(group="Bandit: KL penalty").count() == 8
    other = launch(who.owner, **GRID | {"launch_key": "another"})
    assert other.title == "Bandit: KL penalty #2"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"values_1": ""}, "name “KL penalty” without values"),
        ({"setting_1": ""}, "name at least one setting"),
        ({"values_1": "0, high"}, "contain a value that does not fit: “KL penalty” = high: must be a number"),
        ({"setting_1": "algorithm.kl"}, "The settings to vary"),
        ({"seeds": "many"}, "must be a whole number, not"),
        ({"seeds": "21"}, "The seeds"),
        ({"preset": "none"}, "The preset must be one of"),
        ({"from": "absent"}, "does not exist"),
        ({"shared": "iterations 5"}, "must be lines such as"),
        ({"shared": "no.such=5"}, "The shared changes"),
        ({"kind": "wish"}, "The kind of study must be one of"),
        ({"kind": "catalogue", "study": "figure-99"}, "The study of the paper must be one of"),
        ({"kind": "catalogue", "study": "figure-9", "scale": "paper"}, "no worker with one is online"),
        ({"kind": "random", "values_1": "5 .. 1"}, "below"),
        ({"shared": "policy.model=/etc/passwd"}, "The shared settings"),
    ],
)
def test_bad_input_is_answered_with_what_to_change(fields: dict[str, str], message: str, who: Visitors) -> None:
    checked = who.owner.post("/studies/new/check", GRID | fields)
    assert checked.status_code == 200
    assert message in words(checked.content.decode())
    launched = who.owner.post("/studies/new", GRID | fields)
    assert launched.status_code == 422
    assert message in words(launched.content.decode())
    assert not Study.objects.exists()


def test_the_check_shows_size_and_time_before_the_launch(who: Visitors) -> None:
    text = words(who.owner.post("/studies/new/check", GRID).content.decode())
    assert "8 runs: 2 arms × 4 seeds" in text
    assert "Computing time: at most" in text
    assert "KL penalty 0.01" in text


def test_a_team_that_was_left_meanwhile_is_not_replaced_by_another(who: Visitors) -> None:
    refused = who.owner.post("/studies/new", GRID | {"team": "a-team-i-left"})
    assert refused.status_code == 422
    assert "You may not launch runs in this team (any more): choose another one." in refused.content.decode()
    assert not Study.objects.exists()


def test_values_nested_too_deeply_are_words(who: Visitors) -> None:
    checked = who.owner.post("/studies/new/check", GRID | {"values_1": "[" * 20_000})
    assert checked.status_code == 200
    assert "contain a value that does not fit" in words(checked.content.decode())


def test_a_grid_begins_from_a_run(who: Visitors, run: Run) -> None:
    study = launch(who.owner, **GRID | {"from": f"http://testserver/runs/{run.slug}/", "seeds": "1"})
    assert [one.config["rollout"]["groups"] for one in runs_of(study)] == [2, 2]


def test_all_runs_pause_resume_and_are_cancelled_together(study: Study, who: Visitors) -> None:
    running, finished = runs_of(study)[:2]
    Run.objects.filter(pk=running.pk).update(state=Run.State.RUNNING)
    finish(finished, 0.5)
    who.owner.post(f"/studies/{study.slug}/pause")
    assert [run.state for run in runs_of(study)] == ["running", "finished", *["paused"] * 4]
    assert runs_of(study)[0].requested == "pause"
    assert "Resume all runs" in page(who.owner, study)
    Run.objects.filter(pk=running.pk).update(state=Run.State.PAUSED, requested="")
    who.owner.post(f"/studies/{study.slug}/resume")
    assert [run.state for run in runs_of(study)] == ["queued", "finished", *["queued"] * 4]
    who.owner.post(f"/studies/{study.slug}/cancel")
    assert [run.state for run in runs_of(study)] == ["cancelled", "finished", *["cancelled"] * 4]
    text = page(who.owner, study)
    assert "Cancelled by mistake?" in text
    who.owner.post(f"/studies/{study.slug}/undo-cancel")
    assert [run.state for run in runs_of(study)] == ["queued", "finished", *["queued"] * 4]
    refused = who.owner.post(f"/studies/{study.slug}/resume", follow=True).content.decode()
    assert "This study is running: it cannot resume now." in refused


def test_runs_that_pause_after_the_study_was_resumed_are_resumed_by_a_second_request(
    study: Study, who: Visitors
) -> None:
    slow = runs_of(study)[0]
    Run.objects.filter(pk=slow.pk).update(state=Run.State.RUNNING)
    who.owner.post(f"/studies/{study.slug}/pause")
    text = who.owner.post(f"/studies/{study.slug}/resume", follow=True).content.decode()
    assert "1 run did not follow: It is still pausing: resume the study again when it has." in words(text)
    assert "Resume paused runs" not in text
    Run.objects.filter(pk=slow.pk).update(state=Run.State.PAUSED, requested="")
    assert "Resume paused runs" in page(who.owner, study)
    assert "Resume paused runs" not in page(who.viewer, study)
    who.owner.post(f"/studies/{study.slug}/resume")
    assert {run.state for run in runs_of(study)} == {Run.State.QUEUED}


def test_only_the_team_is_shown_it_and_only_writers_its_controls(study: Study, who: Visitors) -> None:
    assert "Pause all runs" not in page(who.viewer, study)
    assert study.title not in who.outsider.get("/studies").content.decode()


def test_a_shared_study_is_read_by_anyone_and_its_runs_on_request(study: Study, who: Visitors) -> None:
    first = runs_of(study)[0]
    finish(first, 0.625)
    who.owner.post(f"/studies/{study.slug}/visibility", {"visibility": "link"})
    response = who.anonymous.get(f"/studies/{study.slug}")
    assert "62.5" in response.content.decode()
    assert response["X-Robots-Tag"] == "noindex, nofollow"
    assert f"/runs/{first.slug}/" not in response.content.decode()
    assert "Pause all runs" not in response.content.decode()
    assert who.outsider.post(f"/studies/{study.slug}/pause").status_code == 404
    assert first.slug not in who.anonymous.get(f"/studies/{study.slug}/export/csv").content.decode()
    who.owner.post(f"/studies/{study.slug}/visibility", {"visibility": "link", "runs": "1"})
    assert f"/runs/{first.slug}/" in page(who.anonymous, study)
    who.owner.post(f"/studies/{study.slug}/visibility", {"visibility": "team", "runs": "1"})
    assert who.anonymous.get(f"/studies/{study.slug}").status_code == 302
    assert {run.visibility for run in runs_of(study)} == {Run.Visibility.TEAM}


def test_figures_of_private_runs_reach_only_their_readers(study: Study, who: Visitors) -> None:
    hidden = runs_of(study)[0]
    finish(hidden, 0.625)
    Run.objects.filter(pk=hidden.pk).update(visibility=Run.Visibility.PRIVATE)
    assert "62.5" in page(who.owner, study)
    text = page(who.viewer, study)
    assert "62.5" not in text
    assert "1 private run of this study is not visible to you" in words(text)
    assert "62.5" not in who.viewer.get(f"/studies/{study.slug}/export/markdown").content.decode()
    who.owner.post(f"/studies/{study.slug}/visibility", {"visibility": "link", "runs": "1"})
    assert "62.5" not in page(who.anonymous, study)


def test_an_open_page_polls_and_gets_nothing_while_nothing_changed(study: Study, who: Visitors) -> None:
    digest = re.search(r'"X-Seen": "(\w+)"', page(who.viewer, study))
    assert digest
    headers = {"HX-Request": "true", "X-Seen": digest[1]}
    assert who.viewer.get(f"/studies/{study.slug}", headers=headers).status_code == 204
    play_until(runs_of(study)[0], [0.1, 0.2, 0.3])
    evaluate(runs_of(study)[0], 0.375, 2)
    polled = who.viewer.get(f"/studies/{study.slug}", headers=headers)
    assert polled.status_code == 200
    assert "37.5" in polled.content.decode()
    assert "<nav" not in polled.content.decode()


def test_exports_hold_the_page_the_charts_and_the_runs(study: Study, who: Visitors) -> None:
    for number, run in enumerate(runs_of(study)):
        finish(run, 0.5 + number / 100)
    text = who.owner.get(f"/studies/{study.slug}/export/markdown").content.decode()
    assert text.startswith(f"# {study.title}\n")
    for heading in (
        "## Results",
        "## Verdicts",
        "## Figures of the paper",
        "## Method",
        "## Settings in which",
        "## Runs",
    ):
        assert heading in text
    assert "verdicts on success hold for them only." in text
    assert "| final success | Sokoban | StarPO-S | 20.3% |" in text
    assert f"http://testserver/runs/{runs_of(study)[0].slug}/" in text
    picture = who.owner.get(f"/studies/{study.slug}/export/svg")
    assert picture["Content-Type"].startswith("image/svg+xml")
    assert picture.content.decode().startswith("<svg")
    assert "Sokoban: " in picture.content.decode()
    rows = list(csv.DictReader(io.StringIO(who.owner.get(f"/studies/{study.slug}/export/csv").content.decode())))
    assert [row["success"] for row in rows] == ["0.5", "0.51", "0.52", "0.53", "0.54", "0.55"]
    assert rows[0]["run"] == runs_of(study)[0].slug
    assert who.owner.get(f"/studies/{study.slug}/export/pdf").status_code == 404


def test_a_study_of_the_paper_has_its_own_seeds_by_default(who: Visitors) -> None:
    for name, scale, seeds in (("echo-trap", "pocket", 10), ("echo-trap", "smoke", 1)):
        fields = {"kind": "catalogue", "study": name, "scale": scale}
        assert f"× {seeds} seed" in words(who.owner.post("/studies/new/check", fields).content.decode())
    study = launch(who.owner, kind="catalogue", study="echo-trap", scale="pocket")
    assert len(runs_of(study)) == 3 * 10
    short = words(who.owner.get("/studies/new?study=figure-9").content.decode())
    assert "60 runs: 2 arms × 3 environments × 10 seeds" in short
    assert "30 runs: 3 arms × 10 seeds" in words(who.owner.get("/studies/new?study=echo-trap").content.decode())
    chosen = {"kind": "catalogue", "study": "echo-trap", "seeds": "4"}
    assert "× 4 seeds" in words(who.owner.post("/studies/new/check", chosen).content.decode())


def test_a_study_shows_settings_of_each_environment_and_what_it_cannot_show(people: People, who: Visitors) -> None:
    spec = CatalogueSpec(study="appendix-d", scale="pocket", seeds=1)
    lora = do_create_study(people.team, people.owner, spec, planned(spec))
    text = words(page(who.owner, lora))
    assert "0.0002; FrozenLake: 0.0004" in text
    assert "0.002; FrozenLake: 0.004" in text
    assert html.escape(POCKET["appendix-d"]) in text
    assert "LoRA, rate × 10: GRPO; the paper&#x27;s figures are of PPO." in text
    assert "Decay" not in text, "a schedule that differs between environments alone"
    exported = who.owner.get(f"/studies/{lora.slug}/export/markdown").content.decode()
    assert "| policy learning rate | 0.0002 (LoRA, rate × 10: 0.002," in exported
    assert "| estimator | GRPO |" in exported
    assert POCKET["appendix-d"] in exported
    assert "LoRA, rate × 10: GRPO; the paper's figures are of PPO." in exported


def test_settings_of_another_version_do_not_keep_a_study_from_being_read(study: Study, who: Visitors) -> None:
    first = runs_of(study)[0]
    Run.objects.filter(pk=first.pk).update(config=first.config | {"iterations": "as many as it takes"})
    assert "StarPO-S" in page(who.owner, study)
    exported = who.owner.get(f"/studies/{study.slug}/export/markdown").content.decode()
    assert "| policy learning rate |" in exported


def test_a_page_of_many_runs_takes_as_many_queries_as_one_of_few(
    study: Study, who: Visitors, people: People, django_assert_max_num_queries: object
) -> None:
    spec = CatalogueSpec(study="figure-9", scale="smoke", seeds=6)
    large = do_create_study(people.team, people.owner, spec, planned(spec))
    counts = []
    for one in (study, large):
        for run in runs_of(one):
            finish(run, 0.5)
        with django_assert_max_num_queries(40) as found:  # type: ignore[operator]
            page(who.owner, one)
        counts.append(len(found))
    assert counts[0] == counts[1]


def test_page_and_markdown_hold_the_same_figures(study: Study, who: Visitors, people: People) -> None:
    for number, run in enumerate(runs_of(study)[:-1]):
        finish(run, 0.5 + number / 100)
    seen = seen_by(people.owner, study)
    shown = words(html.unescape(page(who.owner, study)))
    exported = who.owner.get(f"/studies/{study.slug}/export/markdown").content.decode().replace("\\", "")
    for section in seen.document(seen.results()).sections:
        texts = {piece.text for row in section.rows for cell in row for piece in cell}
        texts |= {column.title for column in section.columns} | set(section.notes)
        assert {text for text in texts if text not in exported} == set()
        if section.name != "runs":
            assert {text for text in texts if text not in shown} == set()


def test_a_setting_is_named_by_its_title_and_a_problem_by_the_field_of_its_row(who: Visitors) -> None:
    titles = GRID | {"setting_1": "kl penalty", "setting_2": "Learning rate (Policy)", "values_2": "fast, 0.001"}
    checked = who.owner.post("/studies/new/check", titles | {"setting_2": "", "values_2": ""}).content.decode()
    assert "KL penalty 0.01" in words(checked)
    checked = who.owner.post("/studies/new/check", titles | {"setting_2": "Turn limit!"}).content.decode()
    assert 'data-field="setting_2"' in checked
    assert "Setting 2 is no setting, 'Turn limit!'" in html.unescape(words(checked))
    checked = who.owner.post("/studies/new/check", titles | {"setting_2": "rollout.groups"}).content.decode()
    assert 'data-field="values_2"' in checked


def test_choosing_an_environment_keeps_what_was_typed(who: Visitors) -> None:
    page = who.owner.post("/studies/new", GRID | {"choose": "bandit-starpo-pocket", "title": "Mine"})
    assert page.status_code == 200
    text = page.content.decode()
    assert contains(text, '<input type="hidden" name="preset" value="bandit-starpo-pocket">')
    assert 'value="0, 0.01"' in text
    assert 'value="Mine"' in text
    assert not Study.objects.exists()
