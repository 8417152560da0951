"""The result of a set of attempts of another trainer without evaluations: what is known of the attempts themselves."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import DjangoAssertNumQueries

import echoscope
from echoscope.importers.importing import import_files
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from webapp.explorer.run_result import of_run
from webapp.runs.models import Run

__all__ = ["who"]

NOTHING = "Neither evaluations nor rewards of iterations were recorded."


def imported(folder: Path, people: People, *attempts: dict[str, Any]) -> Run:
    """A file of attempts at iteration 0 with these fields, imported."""
    folder.mkdir()
    chat = [{"role": "user", "content": "How many moons?"}, {"role": "assistant", "content": "Two."}]
    lines = [json.dumps({"messages": chat, "task": "Moons"} | fields) for fields in attempts]
    (folder / "attempts.jsonl").write_text("\n".join(lines) + "\n")
    import_files([folder / "attempts.jsonl"], folder / "run")
    return pushed(folder / "run", people)


def pushed(folder: Path, people: People) -> Run:
    call_command("import_journal", str(folder), "--team", people.team.slug)
    return Run.objects.get()


def card(who: Visitors, run: Run) -> str:
    """The words of the headline of the result."""
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    found = re.search(r'<div class="result-headline">(.*?)</section>', page, re.S)
    assert found is not None
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", found[1])).split()).replace(" .", ".").replace(" ,", ",")


@pytest.mark.parametrize(
    "attempts, words",
    [
        (
            [{"success": True, "reward": 1}, {"success": False, "reward": 0}],
            "50.0% Mean reward +0.5. Success and mean reward of 2 attempts.",
        ),
        (
            [{"success": True}, {"success": False}, {}],
            "50.0% The success of 2 of 3 attempts is known.",
        ),
        (
            [{"success": True}, {"success": False, "reward": 0.5}, {}],
            "50.0% Mean reward +0.5. The success of 2 of 3 attempts is known, and the reward of 1.",
        ),
        ([{"success": True}], "100.0% Success of 1 attempt."),
    ],
)
def test_the_result_of_imported_attempts_is_what_is_known_of_them(
    attempts: list[dict[str, Any]], words: str, people: People, tmp_path: Path, who: Visitors
) -> None:
    run = imported(tmp_path / "files", people, *attempts)
    known = "No evaluation was recorded, so there is nothing to compare it with."
    assert card(who, run) == f"Result {words} {known}"


@pytest.mark.parametrize(
    "rewards, words",
    [
        ((0.25, 0.75), "+0.5 Mean reward of 2 attempts."),
        ((0.7, None), "+0.7 The reward of 1 of 2 attempts is known."),
    ],
)
def test_rewards_without_a_success_are_a_result(
    rewards: tuple[float | None, ...], words: str, people: People, tmp_path: Path, who: Visitors
) -> None:
    run = echoscope.init("Rewards", folder=tmp_path / "run", environment="W")
    for attempt, reward in zip(run.group(len(rewards), prompt="Go.", iteration=0), rewards, strict=True):
        attempt.turn(state="s", response="r", reward=reward)
        attempt.finish(success=None)
    run.finish()
    assert words in card(who, pushed(tmp_path / "run", people))


def test_the_result_agrees_with_the_metrics_of_the_attempts(people: People, tmp_path: Path, who: Visitors) -> None:
    run = imported(tmp_path / "files", people, {"success": True, "reward": 1}, {"success": False, "reward": 0})
    metrics = dict(run.metrics.values_list("name", "value"))
    result = of_run(run)
    assert result is not None
    assert result.attempts is not None
    assert result.attempts.success == metrics["success/rate"]
    assert result.attempts.reward == metrics["reward/mean"]
    assert NOTHING not in card(who, run)


def test_attempts_of_which_nothing_is_known_have_no_result(people: People, tmp_path: Path, who: Visitors) -> None:
    assert NOTHING in card(who, imported(tmp_path / "files", people, {}, {}))


@pytest.mark.parametrize(
    "iterations, words",
    [
        (1, "One iteration was recorded and no evaluation, so there is nothing to compare."),
        (2, "25.0% → to 50.0% No evaluation was recorded: success in training, mean of the first and the last"),
    ],
)
def test_metrics_without_attempts_are_no_contradiction(
    iterations: int, words: str, people: People, tmp_path: Path, who: Visitors
) -> None:
    run = echoscope.init("Metrics", folder=tmp_path / "run", environment="W")
    for iteration in range(1, iterations + 1):
        run.log({"success/rate": 0.25 * iteration}, iteration=iteration)
    run.finish()
    assert words in card(who, pushed(tmp_path / "run", people))


def test_a_trend_is_shown_in_place_of_the_attempts(people: People, tmp_path: Path, who: Visitors) -> None:
    run = imported(
        tmp_path / "files",
        people,
        {"success": False, "reward": 0, "iteration": 1},
        {"success": True, "reward": 1, "iteration": 2},
    )
    result = of_run(run)
    assert result is not None
    assert result.attempts is None
    assert "0.0% → to 100.0% Mean reward 0.0 to +1.0." in card(who, run)


def test_the_result_takes_five_queries(
    people: People, tmp_path: Path, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    run = imported(tmp_path / "files", people, {"success": True, "reward": 1})
    with django_assert_num_queries(5):
        of_run(run)
