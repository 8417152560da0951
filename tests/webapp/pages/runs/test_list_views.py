"""List of runs: visibility, filters and order, refresh of changing rows, link to the comparison."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tests.webapp import recorded_journal
from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, play, who
from trainer.config.run import RunConfig
from trainer.journal.writer import Journal
from webapp.explorer.compare import MAX_RUNS
from webapp.ingest.tailer import JournalTailer
from webapp.runs import summaries
from webapp.runs.models import Evaluation, MetricPoint, Run
from webapp.runs.run_colours import get_colour
from webapp.teams.actions import do_set_role
from webapp.teams.models import Membership
from webapp.trajectories.models import Group, Trajectory
from webapp.trajectories.render.mini_board import mini_board

__all__ = ["who"]


def make(people: People, title: str, **fields: Any) -> Run:
    config = RunConfig.model_validate(fields.pop("config", {})).model_dump(mode="json")
    given = {"environment": config["environment"]["name"], "author": people.owner, "tags": config["tags"]} | fields
    return Run.objects.create(team=people.team, title=title, config=config, iterations=4, **given)


def add_evaluation(run: Run, iteration: int, success: float, suite: str = "") -> Evaluation:
    return Evaluation.objects.create(
        run=run,
        iteration=iteration,
        suite=suite or run.environment,
        prompts=256,
        success=success,
        success_low=success - 0.05,
        success_high=success + 0.05,
        mean_reward=1,
        mean_turns=1,
        mean_actions=1,
        time=timezone.now(),
    )


def titles(client: Client, query: str = "") -> list[str]:
    page = client.get(f"/?flat=1&{query}").content.decode()
    return re.findall(r'<a id="run-[^"]+"[^>]*>([^<]+)</a>', page)


@pytest.mark.parametrize("count", [1, 4])
def test_the_query_count_of_the_runs_page_is_constant(
    count: int, people: People, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(count):
        made = make(people, f"Run {number}", config={"tags": [f"tag{number}"]})
        MetricPoint.objects.create(run=made, name="success/rate", iteration=1, value=0.5, tokens=1, seconds=1)
        add_evaluation(made, 1, 0.5)
        play(made)
    with django_assert_max_num_queries(17):  # five of them for the queue
        who.owner.get("/")
    with django_assert_max_num_queries(11):
        who.owner.get("/", headers={"HX-Request": "true"})


def test_the_list_shows_only_runs_of_the_team(run: Run, who: Visitors) -> None:
    assert titles(who.owner) == titles(who.viewer) == ["Trial"]
    assert titles(who.outsider) == []
    assert who.anonymous.get("/")["Location"] == "/login?next=/"


def test_a_private_run_appears_only_for_its_author(people: People, run: Run, who: Visitors) -> None:
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.PRIVATE)
    assert titles(who.owner) == ["Trial"]
    assert titles(who.viewer) == []


def test_an_empty_list_explains_how_to_start(who: Visitors) -> None:
    assert "Launch the first run" in who.owner.get("/").content.decode()
    assert "Launch the first run" not in who.viewer.get("/").content.decode()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("text=tri", True),
        ("text=ada", True),
        ("text=nothing", False),
        ("state=queued", True),
        ("state=failed", False),
        ("state=active", True),
        ("environment=Sokoban", True),
        ("environment=Bandit", False),
        ("page=99", True),
        ("page=x", True),
        ("author=ada", True),
        ("author=grace", False),
        ("algorithm=starpo", True),
        ("algorithm=starpo_s", False),
        ("algorithm=gae", True),
        ("algorithm=grpo", False),
        ("algorithm=sft", False),
        ("algorithm=nonsense", True),
        ("mine=1", True),
        ("tag=none", False),
        ("sort=nonsense", True),
        ("sort=-title", True),
        ("archived=1", False),
    ],
)
def test_the_list_is_filtered(query: str, found: bool, run: Run, who: Visitors) -> None:
    assert titles(who.owner, query) == (["Trial"] if found else [])


def test_mine_selects_runs_of_the_reader(run: Run, who: Visitors) -> None:
    assert titles(who.viewer, "mine=1") == []


def test_a_run_of_several_environments_is_listed_under_each_of_them(people: People, who: Visitors) -> None:
    mix = [{"name": "FrozenLake", "share": 0.25}]
    make(people, "Mixed", config={"environment": {"name": "Sokoban", "mix": mix}})
    make(people, "Plain")
    assert titles(who.owner, "environment=FrozenLake") == ["Mixed"]
    assert sorted(titles(who.owner, "environment=Sokoban")) == ["Mixed", "Plain"]
    page = who.owner.get("/").content.decode()
    assert "Sokoban + FrozenLake" in page
    assert contains(page, "<option>FrozenLake</option>")


def test_tags_and_authors_of_the_team_are_offered(people: People, who: Visitors) -> None:
    make(people, "One", config={"tags": ["baseline"]})
    make(people, "Two", author=people.viewer)
    page = who.owner.get("/").content.decode()
    assert contains(page, "<option>baseline</option>")
    assert contains(page, "<option>grace</option>")
    assert titles(who.owner, "tag=baseline") == ["One"]
    assert titles(who.owner, "author=grace") == ["Two"]
    assert "baseline" not in who.outsider.get("/").content.decode()


def test_the_order_can_be_selected(people: People, who: Visitors) -> None:
    low, high, none = make(people, "Low"), make(people, "High"), make(people, "None")
    add_evaluation(low, 1, 0.9)
    add_evaluation(low, 2, 0.3)
    add_evaluation(high, 2, 0.6)
    MetricPoint.objects.create(run=low, name="reward/mean", iteration=1, value=5, tokens=1, seconds=1)
    assert titles(who.owner) == ["None", "High", "Low"]
    assert titles(who.owner, "sort=oldest") == ["Low", "High", "None"]
    assert titles(who.owner, "sort=success") == ["High", "Low", "None"], "by the newest result, those without one last"
    assert titles(who.owner, "sort=reward")[0] == "Low"
    assert titles(who.owner, "sort=title") == ["High", "Low", "None"]
    Run.objects.filter(pk=none.pk).update(iteration=3)
    assert titles(who.owner, "sort=progress")[0] == "None"


def test_a_row_shows_the_latest_result_with_its_interval(people: People, who: Visitors) -> None:
    run = make(people, "One")
    add_evaluation(run, 1, 0.2)
    add_evaluation(run, 5, 0.5)
    add_evaluation(run, 5, 0.9, suite="FrozenLake")
    page = who.owner.get("/").content.decode()
    assert contains(page, "<b>50.0%</b>")
    assert contains(page, "45.0% to 55.0%")
    assert contains(page, 'title="Percentage points since the first evaluation">+30.0</span>')
    assert contains(page, '<polyline class="success" points="0,24.')


def test_many_evaluations_become_a_short_curve_from_the_first_to_the_last(people: People) -> None:
    run = make(people, "Long")
    for iteration in range(150):
        add_evaluation(run, iteration, 0.3 + iteration / 1000)
    (card,) = summaries.cards([run])
    assert card.result is not None
    assert 38 <= len(card.result.values) <= 52
    assert (card.result.values[0], card.result.success) == (0.3, pytest.approx(0.449))
    assert card.result.gain == pytest.approx(0.149)


def test_a_row_does_not_repeat_its_title(people: People) -> None:
    run = make(people, "Sokoban · StarPO · pocket policy")
    other = make(people, "Baseline")
    one, two = summaries.cards([run, other])
    assert one.details == "PPO with GAE"
    assert two.details == "Sokoban · StarPO · PPO with GAE · pocket policy"


def test_long_curves_are_averaged_and_end_with_the_latest_value(people: People) -> None:
    run = make(people, "Long")
    Run.objects.filter(pk=run.pk).update(iterations=600)
    MetricPoint.objects.bulk_create(
        MetricPoint(run=run, name="success/rate", iteration=number, value=number / 600, tokens=1, seconds=1)
        for number in range(1, 601)
    )
    (card,) = summaries.cards([Run.objects.get(pk=run.pk)])
    assert 55 <= len(card.success) <= 61
    assert card.success == sorted(card.success)
    assert card.success_last == 1.0


def test_selected_runs_are_compared_without_javascript(people: People, who: Visitors) -> None:
    one, two = make(people, "One"), make(people, "Two")
    answer = who.owner.get(f"/?compare={one.slug}&compare={two.slug}&compare=nothing&compare_now=1")
    assert answer["Location"] == f"/compare?runs={one.slug},{two.slug}"


def test_a_refresh_gets_the_rows_only(run: Run, who: Visitors) -> None:
    page = who.owner.get("/", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in page
    assert 'id="runs"' in page
    assert "every 3s" in page


def test_an_idle_list_polls_slowly(run: Run, who: Visitors) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    assert "every 20s" in who.owner.get("/").content.decode()


@pytest.mark.parametrize("query", ["", "?sort=reward&environment=Sokoban"])
def test_an_open_list_equals_a_reloaded_one(
    query: str, run: Run, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows updated while the journal of a run grows equal a reloaded page at every step."""
    monkeypatch.setattr(summaries, "age", lambda moment: "a while")
    config = RunConfig.model_validate(run.config)
    Run.objects.filter(pk=run.pk).update(state=Run.State.STARTING)
    events = [
        recorded_journal.started(config),
        recorded_journal.evaluated(0, 0.35),
        *recorded_journal.iteration(config, 1, 0.5),
        recorded_journal.evaluated(1, 0.4),
        *recorded_journal.iteration(config, 2, 0.7),
        *recorded_journal.iteration(config, 3, 0.7),
    ]
    log = Journal(run.folder)
    shown = loaded(who.viewer, query)
    swaps = 0
    for at in range(0, len(events), max(1, len(events) // 12)):
        log.write(*events[at : at + max(1, len(events) // 12)])
        run.refresh_from_db()
        JournalTailer(run).drain()
        for _ in range(2):  # the second time there is no news
            seen = re.search(r'"X-Seen": "(\w+)"', shown)
            assert seen is not None
            answer = who.viewer.get(f"/{query}", headers={"HX-Request": "true", "X-Seen": seen[1]})
            swaps += answer.status_code == 200
            shown = answer.content.decode().strip() if answer.status_code == 200 else shown
        assert answer.status_code == 204
        assert shown == loaded(who.viewer, query)
    assert swaps > 3


def loaded(client: Client, query: str) -> str:
    page = client.get(f"/{query}").content.decode()
    return page[page.index('<div id="runs"') : page.rindex("</form>")].strip()


def test_a_played_run_shows_its_results(run: Run, who: Visitors) -> None:
    play(run, finished=3)
    page = who.owner.get("/").content.decode()
    assert contains(page, 'class="success" points="')
    assert "3 of 4" in page
    assert "CPU, 2 threads" in page


def test_archived_runs_are_listed_apart(run: Run, who: Visitors) -> None:
    Run.objects.filter(pk=run.pk).update(archived_at=timezone.now())
    assert titles(who.owner) == []
    assert titles(who.owner, "archived=1") == ["Trial"]


def test_a_header_sorts_and_a_second_click_reverses(people: People, who: Visitors) -> None:
    for title, success in (("A", 0.2), ("B", 0.6), ("C", None)):
        made = make(people, title)
        if success is not None:
            add_evaluation(made, 1, success)
            MetricPoint.objects.create(run=made, name="success/rate", iteration=1, value=success, tokens=1, seconds=1)
    assert titles(who.owner, "sort=title") == ["A", "B", "C"]
    assert titles(who.owner, "sort=-title") == ["C", "B", "A"]
    assert titles(who.owner, "sort=success") == titles(who.owner, "sort=training") == ["B", "A", "C"]
    assert titles(who.owner, "sort=-success") == ["A", "B", "C"], "runs without a result come last"
    assert titles(who.owner, "sort=-newest") == titles(who.owner, "sort=oldest") == ["A", "B", "C"]
    for key in ("author", "device", "state", "reward", "progress"):
        assert len(titles(who.owner, f"sort={key}")) == len(titles(who.owner, f"sort=-{key}")) == 3
    page = who.owner.get("/?sort=title&text=a").content.decode()
    assert contains(page, '<th class="col-title" aria-sort="ascending">')
    assert "sort=-title" in page
    assert "text=a" in page


def test_groups_of_one_name_in_two_teams_are_compared_apart(people: People, who: Visitors) -> None:
    elsewhere = people.outsider.memberships.get().team
    do_set_role(elsewhere, people.owner, Membership.Role.MEMBER)
    ours = [make(people, f"Ours {number}", group="Seeds") for number in range(MAX_RUNS + 2)]
    theirs = [make(people, f"Theirs {number}", group="Seeds") for number in range(2)]
    Run.objects.filter(pk__in=[run.pk for run in theirs]).update(team=elsewhere)

    def compared(query: str) -> list[str]:
        page = who.owner.get(f"/?{query}").content.decode()
        return re.findall(r'class="button small" href="/compare\?runs=([\w,]+)', page)

    assert compared("group=Seeds") == [",".join(run.slug for run in theirs)], "the team that launched last"
    assert compared(f"group=Seeds&team={people.team.slug}") == [",".join(run.slug for run in ours[:MAX_RUNS])]
    assert titles(who.owner, f"group=Seeds&team={elsewhere.slug}") == ["Theirs 1", "Theirs 0"]
    context = who.owner.get(f"/?group=Seeds&team={people.team.slug}").context
    assert context["group_label"] == f"Compare the first {MAX_RUNS} of {MAX_RUNS + 2} runs"
    assert f"team={people.team.slug}" in context["view_query"]


def boards(client: Client, query: str = "") -> list[tuple[str, str]]:
    """Words and drawing of each board of the list."""
    page = client.get(f"/{query}").content.decode()
    found = re.findall(r'<span role="img"\s+aria-label="([^"]*)" title="[^"]*">(.*?)</span></a>', page, re.DOTALL)
    return [(words, drawing.removesuffix("</span>")) for words, drawing in found]


def test_a_run_that_is_trained_shows_the_latest_state_of_the_attempt_in_progress(run: Run, who: Visitors) -> None:
    play(run, finished=1, playing_rounds=1)
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING)
    played = Trajectory.objects.filter(run=run, status="playing").order_by("-last_seq")[0]
    actions = [action for turn in played.turns.order_by("number") for action in turn.event["actions"]]
    latest = [action["board"] for action in actions if action.get("board")][-1:] or [played.group.board]
    assert boards(who.owner) == [(f"Sokoban, iteration {played.iteration}: attempt in progress", mini_board(latest[0]))]
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    ended = Trajectory.objects.filter(run=run, finished_seq__isnull=False).order_by("-finished_seq")[0]
    outcome = "solved" if ended.success else "not solved"
    assert [words for words, _ in boards(who.owner)] == [f"Sokoban, iteration {ended.iteration}: attempt {outcome}"]


def test_a_finished_run_shows_the_end_of_an_attempt_of_its_last_evaluation(run: Run, who: Visitors) -> None:
    play(run, finished=2)
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    Evaluation.objects.filter(run=run).delete()
    add_evaluation(run, 1, 0.2)
    add_evaluation(run, 2, 0.4)
    attempt = Trajectory.objects.filter(run=run, finished_seq__isnull=False, iteration=2).order_by("pk")[0]
    Trajectory.objects.filter(pk=attempt.pk).update(split="eval", status="success", iteration=2)
    assert [words for words, _ in boards(who.owner)] == ["Sokoban, evaluation after iteration 2: attempt solved"]


def test_the_board_is_a_column_that_can_be_switched_off_and_does_not_sort(run: Run, who: Visitors) -> None:
    play(run)
    page = who.owner.get("/").content.decode()
    assert contains(page, '<input type="checkbox" data-column="board" checked>')
    assert "sort=board" not in page
    assert boards(who.owner)
    assert boards(who.owner, "?hide=board") == []
    assert boards(who.outsider) == []


def test_boards_without_a_grid_are_not_drawn(people: People, who: Visitors) -> None:
    made = make(people, "Numbers", config={"environment": {"name": "Countdown"}})
    group = Group.objects.create(
        run=made,
        attempt=1,
        iteration=1,
        split="train",
        number=0,
        environment="Countdown",
        seed=1,
        prompt="",
        board={"kind": "text", "text": "Target < 22"},
    )
    Trajectory.objects.create(
        run=made, group=group, attempt=1, key="a", member=0, iteration=1, split="train", status="failed", finished_seq=1
    )
    assert boards(who.owner) == [], "its text would be too small to read"


def folded_rows(page: str) -> list[str]:
    """Text of each folded row, without runs of white space."""
    rows = re.findall(r'<tr data-run-row="\w+" class="fold">(.*?)</tr>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in rows]


def make_seeds(people: People, kl_coef: float, successes: list[float], group: str = "") -> list[Run]:
    runs = []
    for seed, success in enumerate(successes):
        config = {"seed": seed, "algorithm": {"kl_coef": kl_coef}}
        runs.append(make(people, f"KL {kl_coef}, seed {seed}", config=config, group=group))
        add_evaluation(runs[-1], 0, 0.99)
        add_evaluation(runs[-1], 4, success)
    return runs


def test_seeds_of_a_configuration_are_one_row_with_their_mean_that_unfolds(people: People, who: Visitors) -> None:
    runs = make_seeds(people, 0.1, [0.5, 0.6, 0.7])
    make(people, "Another", config={"algorithm": {"kl_coef": 0.5}})
    page = who.owner.get("/").content.decode()
    (row,) = folded_rows(page)
    assert row.startswith("KL 0.1 3 runs 3 queued 60.0% ± 10.0%")
    assert f'value="{",".join(run.slug for run in reversed(runs))}"' in page, "a selection takes all of them"
    assert page.count("data-run-row") == 2
    (key,) = re.findall(r'id="fold-(\w+)"', page)
    unfolded = who.owner.get(f"/?open={key}").content.decode()
    assert all(f'id="run-{run.slug}"' in unfolded for run in runs)
    assert 'aria-expanded="true"' in unfolded


def test_a_folded_row_names_repetitions_with_different_titles(people: People, who: Visitors) -> None:
    make(people, "Long, seed 0", config={"seed": 0})
    make(people, "Longer", config={"seed": 1})
    (row,) = folded_rows(who.owner.get("/").content.decode())
    assert row.startswith("Longer, Long 2 runs")
    make(people, "Longest", config={"seed": 2})
    (row,) = folded_rows(who.owner.get("/").content.decode())
    assert row.startswith("Longest and 2 more 3 runs")


def test_a_group_is_one_row_with_the_best_of_its_configurations(people: People, who: Visitors) -> None:
    make_seeds(people, 0.1, [0.5, 0.7], group="KL on Sokoban")
    worse = make_seeds(people, 0.2, [0.1, 0.2], group="KL on Sokoban")
    page = who.owner.get("/").content.decode()
    (row,) = folded_rows(page)
    assert row.startswith("KL on Sokoban 4 runs of 2 configurations 4 queued 60.0% ± 14.1%")
    assert "Mean ± standard deviation over 2 runs, best of 2 configurations" in page
    assert len(folded_rows(who.owner.get("/?group=KL on Sokoban").content.decode())) == 2, "each configuration"
    Run.objects.filter(pk=worse[0].pk).update(environment="Bandit")
    (row,) = folded_rows(who.owner.get("/").content.decode())
    assert "%" not in row, "success in different environments is not compared"


def test_results_from_before_the_training_are_no_results_of_a_folded_row(people: People, who: Visitors) -> None:
    for run in make_seeds(people, 0.1, [0.5, 0.6]):
        run.evaluations.filter(iteration=4).delete()
    (row,) = folded_rows(who.owner.get("/").content.decode())
    assert "%" not in row


def test_runs_of_other_trainers_without_settings_are_not_taken_for_repetitions(people: People, who: Visitors) -> None:
    for number in range(2):
        run = make(people, f"Theirs {number}")
        Run.objects.filter(pk=run.pk).update(config={"recorded": {}})
    assert folded_rows(who.owner.get("/").content.decode()) == []


def test_a_run_without_an_environment_is_no_choice_of_the_filter(people: People, who: Visitors) -> None:
    run = make(people, "Chats", environment="")
    page = who.owner.get("/").content.decode()
    options = page.split('<select name="environment">')[1].split("</select>")[0]
    assert re.findall(r"<option[^>]*>([^<]*)", options) == ["Any environment"]
    assert f'<i class="run-colour run-{get_colour(run.pk)}" aria-hidden="true"></i>' in page
