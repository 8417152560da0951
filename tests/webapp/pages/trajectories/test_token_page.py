"""Page of tokens: planted faults are said, and data and sentences fit each other."""

from __future__ import annotations

import html
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.webapp.conftest import People
from tests.webapp.faulty_tokens import FAULTS, record
from tests.webapp.page_requests import Visitors, assert_private, play, who
from webapp.runs.models import Run
from webapp.trajectories.models import TokenArrays, Trajectory

__all__ = ["who"]

SENTENCES = {
    "none": "",
    "shifted mask": "The loss mask is shifted by one token to the left in every turn: it includes “<assistant>”",
    "dropped thought": "A later prompt has the response of turn 1 without its first 4 tokens, “<think> vowels",
    "second start token": "The prompt begins with the same token twice: “<s>”",
    "stop token in the loss": "1 token in the loss was not sampled by the policy: “<stop>”",
    "old weights": "Sampler and trainer disagree: their log-probabilities differ by 0.8 nats",
}


CAUSES = {
    "shifted mask": ["wrong_tokens"],
    "second start token": ["wrong_tokens"],
    "stop token in the loss": ["wrong_tokens"],
    "old weights": ["mismatch"],
}
"""Causes for which the whole run is sick."""


@pytest.mark.parametrize("fault", FAULTS)
def test_each_planted_fault_is_said_and_no_other(fault: str, people: People, who: Visitors, tmp_path: Path) -> None:
    made, difference = FAULTS[fault]
    record(tmp_path / "run", fault, made, difference=difference)
    call_command("import_journal", str(tmp_path / "run"), "--team", people.team.slug, "--user", "ada")
    trajectory = Trajectory.objects.get(run__title=fault)
    assert trajectory.mismatch == pytest.approx(difference, abs=1e-3)
    assert [found["cause"] for found in trajectory.run.faults] == CAUSES.get(fault, [])
    page = html.unescape(who.owner.get(f"/t/{trajectory.slug}/tokens").content.decode())
    assert SENTENCES[fault] in page
    assert page.count('class="wrong"') == (fault != "none")
    player = html.unescape(who.owner.get(f"/t/{trajectory.slug}").content.decode())
    assert f'href="/t/{trajectory.slug}/tokens"' in player
    assert SENTENCES[fault] in player
    reading = who.owner.get(f"/t/{trajectory.slug}/reading.json").json()
    assert reading["texts"] == [f"{word} " for word in made.words]
    marked = [flag for segment in reading["segments"] for flag in [segment["in_loss"]] * segment["tokens"]]
    assert marked == made.in_loss
    assert [segment["start"] for segment in reading["segments"] if segment["restarts"]] == made.restarts
    assert sum(value for value in reading["share"] if value) == pytest.approx(1, abs=0.01)


def test_only_responses_are_shown_of_runs_without_the_reading_order(run: Run, who: Visitors) -> None:
    play(run)
    trajectory = Trajectory.objects.filter(run=run, group__kept=True).first()
    assert trajectory is not None
    assert_private(f"/t/{trajectory.slug}/tokens", who)
    page = who.viewer.get(f"/t/{trajectory.slug}/tokens").content.decode()
    assert "only its responses are shown" in page
    reading = who.viewer.get(f"/t/{trajectory.slug}/reading.json").json()
    assert all(segment["sampled"] for segment in reading["segments"])
    TokenArrays.objects.filter(trajectory=trajectory).delete()
    assert who.viewer.get(f"/t/{trajectory.slug}/reading.json").status_code == 404
    assert "The journal has no tokens" in who.viewer.get(f"/t/{trajectory.slug}/tokens").content.decode()
