"""Pages of other trainers' runs speak of tasks where those of our own runs speak of puzzles."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

import echoscope
from echoscope.importers.importing import import_files
from tests.webapp.conftest import People
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.page_requests import Visitors, who
from webapp.annotations.actions import do_comment
from webapp.explorer.compare import sides, unequal_text
from webapp.explorer.related import same_prompt
from webapp.pages.runs.live_layout import CHARTS, intro
from webapp.runs.models import LogLine, Run
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory

__all__ = ["who"]

OUTCOMES = {0: (False, False, True), 4: (True, False, False)}
"""Iteration of an evaluation → success of its three tasks; each is tried three times, and solved by the first try."""
NOT_READ = re.compile(r"<script\b.*?</script>|<style\b.*?</style>|class=\"puzzles |[?;]puzzle=\d|name=\"puzzle\"", re.S)
"""Parts of a page that hold the word as the name of something in the program."""


def recorded(folder: Path, people: People, title: str = "GRPO on Wordle") -> Run:
    """A run of another trainer with two evaluations of the same three tasks, and a training iteration."""
    run = echoscope.init(title, folder=folder, config={"lr": 1e-6})
    for iteration, outcomes in OUTCOMES.items():
        for task, solved in enumerate(outcomes):
            group = run.group(
                3,
                prompt=f"Guess word {task}.",
                iteration=iteration,
                seed=task,
                split="eval",
                suite="W",
                environment="W",
            )
            for member, attempt in enumerate(group):
                attempt.turn(state="_____", response="CRANE", reward=float(solved))
                attempt.finish(success=solved and member == 0)
        run.evaluation("W", iteration=iteration, prompts=3, trajectories=9, successes=sum(outcomes), mean_reward=0.5)
    with run.trajectory(prompt="Guess.", iteration=4, environment="W") as attempt:
        attempt.turn(state="_____", response="CRANE")
        attempt.finish(success=False)
    run.log({"reward/mean": 0.5, "success/rate": 0.25}, iteration=4)
    run.finish()
    call_command("import_journal", str(folder), "--team", people.team.slug, "--user", "ada")
    return Run.objects.get(title=title)


@pytest.fixture
def foreign(people: People, tmp_path: Path) -> Run:
    return recorded(tmp_path / "run", people)


def read(client: Client, address: str) -> str:
    """The text of a page with one space for all white space, and without scripts and addresses."""
    response = client.get(address)
    assert response.status_code == 200, address
    return " ".join(NOT_READ.sub(" ", response.content.decode()).split())


def puzzles(text: str) -> list[str]:
    return re.findall(r".{0,40}puzzle.{0,40}", text, re.IGNORECASE)


def evaluated(run: Run, iteration: int = 4) -> Trajectory:
    return Trajectory.objects.filter(run=run, split="eval", iteration=iteration).order_by("pk")[0]


def test_no_page_of_the_run_has_the_word(foreign: Run, people: People, who: Visitors) -> None:
    played = evaluated(foreign)
    link = do_share_trajectory(played, people.owner)
    base = f"/runs/{foreign.slug}"
    for address in (
        *(f"{base}/{tab}" for tab in ("", "trajectories", "curves", "evaluation", "configuration", "log")),
        f"/t/{played.slug}",
        f"/t/{played.slug}/prompt",
        f"/t/{played.slug}/embed",
        f"/t/{played.slug}/export/txt",
        f"/s/{link.token}",
        f"/embed/{link.token}",
        f"/compare?runs={foreign.slug}",
        f"/team/{people.team.slug}",
    ):
        assert (address, puzzles(read(who.owner, address))) == (address, [])


def test_the_result_counts_tasks(foreign: Run, who: Visitors) -> None:
    page = read(who.owner, f"/runs/{foreign.slug}/")
    assert "Success in W, 3 tasks × 3, at iteration 0 and after iteration 4. The same tasks: Newcombe" in page
    assert 'aria-label="Task 1: never solved"' in page
    assert "Skip the tasks" in page


def test_a_run_without_evaluations_does_not_claim_other_tasks(people: People, tmp_path: Path, who: Visitors) -> None:
    run = echoscope.init("Trained only", folder=tmp_path / "run", config={"lr": 1e-6})
    for iteration in (1, 2):
        run.log({"reward/mean": iteration / 2, "success/rate": iteration / 4}, iteration=iteration)
    run.finish()
    call_command("import_journal", str(tmp_path / "run"), "--team", people.team.slug)
    page = read(who.owner, f"/runs/{Run.objects.get(title='Trained only').slug}/")
    assert "No evaluation was recorded: success in training" in page
    assert "Iterations may have other tasks, so this is no fair comparison" in page
    assert puzzles(page) == []


def test_evaluations_of_iteration_0_do_not_claim_to_come_before_training(foreign: Run, who: Visitors) -> None:
    for address in (f"/runs/{foreign.slug}/evaluation", f"/compare?runs={foreign.slug}", f"/runs/{foreign.slug}/"):
        assert "before training" not in read(who.owner, address)
    assert "evaluation at iteration 0" in read(who.owner, f"/t/{evaluated(foreign, 0).slug}/export/txt")
    messages = LogLine.objects.filter(run=foreign, message__startswith="Evaluation").order_by("seq")
    assert [message.split(":")[0] for message in messages.values_list("message", flat=True)] == [
        "Evaluation of W at iteration 0",
        "Evaluation of W after iteration 4",
    ]
    assert "of 3 tasks solved" in messages[0].message


def test_measures_have_the_value_of_the_recorded_attempts_or_none(foreign: Run, who: Visitors) -> None:
    row = read(who.owner, f"/runs/{foreign.slug}/evaluation").partition("<tbody>")[2].partition("</tr>")[0]
    cells = [cell.partition("</td>")[0].partition(">")[2].strip() for cell in row.split("<td")[1:]]
    assert cells[-4:-2] == ["1.00", "–"], "each attempt has one turn, and none recorded actions"


def test_the_film_names_the_task(foreign: Run, who: Visitors) -> None:
    played = evaluated(foreign)
    assert "Same task at 2 iterations · first solved at iteration 4" in read(who.owner, f"/t/{played.slug}/prompt")


def test_highlights_name_the_task(foreign: Run, who: Visitors) -> None:
    sent = who.owner.get(f"/runs/{foreign.slug}/highlights.json?iteration=4").json()["highlights"]
    assert [highlight["caption"] for highlight in sent] == [
        "First success on this task, after 3 failed attempts",
    ] + [caption for caption in [highlight["caption"] for highlight in sent][1:] if "puzzle" not in caption]


def test_a_comparison_uses_the_word_that_its_runs_share(
    foreign: Run, run: Run, people: People, tmp_path: Path, who: Visitors
) -> None:
    other = recorded(tmp_path / "other", people, "PPO on Wordle")
    write_story(run)
    measured = {"success": 0.5, "success_low": 0.1, "success_high": 0.9, "mean_reward": 1, "mean_turns": 2}
    run.evaluations.create(iteration=4, suite="fixed", prompts=3, mean_actions=4, time=timezone.now(), **measured)
    own = read(who.owner, f"/compare?runs={run.slug}")
    assert "Same puzzle, every run" in own
    assert 'aria-label="Next puzzle"' in own
    for slugs in (f"{foreign.slug},{other.slug}", f"{run.slug},{foreign.slug}"):
        page = read(who.owner, f"/compare?runs={slugs}&puzzle=1")
        assert "Same task, every run" in page
        assert "Task, 1 to " in page
        assert 'aria-label="Next task"' in page
        assert puzzles(page) == []


def test_no_result_of_another_trainer_is_called_one_from_before_training(
    foreign: Run, run: Run, people: People
) -> None:
    foreign.evaluations.filter(iteration=4).delete()
    run.evaluations.all().delete()
    assert unequal_text(sides([foreign, run])) == ""


def test_a_report_counts_tasks(foreign: Run, people: People, who: Visitors) -> None:
    played = evaluated(foreign)
    body = f"/runs/{foreign.slug}/evaluation\n/t/{played.slug}/prompt"
    response = who.owner.post("/reports/new", {"title": "New", "body": body, "visibility": "team"})
    page = read(who.owner, response["Location"])
    assert "3 tasks of W" in page
    assert 'alt="The same task through training, W' in page
    assert puzzles(page) == []


def test_mentions_and_public_links_name_the_task(foreign: Run, people: People, who: Visitors) -> None:
    played = evaluated(foreign)
    do_comment(played, people.owner, "Look, @grace", turn=None)
    assert "mentioned you on task 1 · attempt 1, iteration 4" in read(who.viewer, "/inbox?show=mentions")
    do_share_trajectory(played, people.owner)
    assert "GRPO on Wordle, iteration 4, task 1, attempt 1" in read(who.owner, f"/team/{people.team.slug}")


def test_the_first_line_of_a_run_with_planned_groups_names_the_task(foreign: Run, run: Run) -> None:
    for shown, noun in ((run, "puzzle"), (foreign, "task")):
        shown.iterations, shown.config = 8, shown.config | {"rollout": {"group_size": 4}}
        assert f"each row is one {noun} tried 4 times" in intro(shown)


@pytest.fixture
def chats(people: People, tmp_path: Path) -> Run:
    """Two imported chats: no iteration, no metrics, no evaluation, no boards."""
    file = tmp_path / "chats.jsonl"
    chat = [{"role": "user", "content": "How many moons has Tavi?"}, {"role": "assistant", "content": "Two."}]
    file.write_text(json.dumps({"messages": chat, "task": "Moons"}) + "\n")
    import_files([file], tmp_path / "chats")
    call_command("import_journal", str(tmp_path / "chats"), "--team", people.team.slug)
    return Run.objects.get(environment="Moons")


def test_imported_chats_have_no_panels_of_what_they_have_not(chats: Run, who: Visitors) -> None:
    page = read(who.owner, f"/runs/{chats.slug}/")
    assert "A language model works on Moons." in page
    assert [name for name in CHARTS if f'data-chart="{name}" hidden' not in page] == []
    assert "The bar is its reward" not in page
    assert "Neither evaluations nor rewards of iterations were recorded." in page
    assert "Training attempts" not in page
    assert "No evaluation</h2>" in read(who.owner, f"/runs/{chats.slug}/evaluation")
    assert "has recorded no metrics" in read(who.owner, f"/runs/{chats.slug}/curves")


def test_charts_of_what_was_recorded_stay(foreign: Run, who: Visitors) -> None:
    page = read(who.owner, f"/runs/{foreign.slug}/")
    assert [name for name in CHARTS if f'data-chart="{name}" hidden' in page] == ["entropy", "imitation", "gradient"]
    assert "A language model was trained on W." in page
    Run.objects.filter(pk=foreign.pk).update(state=Run.State.RUNNING, ended_at=None)
    page = read(who.owner, f"/runs/{foreign.slug}/")
    assert [name for name in CHARTS if f'data-chart="{name}" hidden' in page] == ["imitation"]


def test_the_initial_state_is_the_first_one_that_was_recorded(foreign: Run, chats: Run, who: Visitors) -> None:
    for run, state in ((foreign, "_____"), (chats, "How many moons has Tavi?")):
        slug = run.trajectories.order_by("pk")[0].slug
        response = who.owner.get(f"/t/{slug}/prompt")
        assert response.context["board"] == {"kind": "text", "text": state}
    chats.trajectories.get().turns.update(event={"state": " ", "actions": []})
    page = read(who.owner, f"/t/{chats.trajectories.get().slug}/prompt")
    assert "data-start" not in page
    assert "<details open> <summary>Prompt" in page


def test_other_groups_of_a_task_are_found_by_the_trainers_seed_or_by_the_prompt(
    people: People, tmp_path: Path, who: Visitors
) -> None:
    run = echoscope.init("Seeds", folder=tmp_path / "run", environment="W")
    for iteration, prompt, seed in ((1, "a", None), (2, "a", None), (3, "b", None), (4, "b", 7), (5, "c", 7)):
        with run.trajectory(prompt=prompt, iteration=iteration, seed=seed) as attempt:
            attempt.turn(state="s", response="r")
            attempt.finish(success=iteration == 2)
    run.finish()
    call_command("import_journal", str(tmp_path / "run"), "--team", people.team.slug)
    played = {one.iteration: one for one in Trajectory.objects.filter(run__title="Seeds")}
    found = {number: [each.iteration for each in same_prompt(one)] for number, one in played.items()}
    assert found == {1: [1, 2], 2: [1, 2], 3: [3], 4: [4, 5], 5: [4, 5]}
    page = read(who.owner, f"/t/{played[3].slug}/prompt")
    assert "This task was recorded at iteration 3 only." in page
    assert "seed" not in page.partition("<h1>")[2].partition("</div>")[0]


def test_our_own_runs_keep_their_word(run: Run, who: Visitors) -> None:
    write_story(run)
    assert "fixed puzzles" in read(who.owner, f"/runs/{run.slug}/evaluation")
    page = read(who.owner, f"/t/{evaluated(run, 0).slug}/prompt")
    assert "Same puzzle at" in page
