"""Tokens of a trajectory: permissions, equality with the journal, explanation where missing."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.webapp.page_requests import Visitors, play, who
from webapp.runs.models import Run
from webapp.trajectories.actions import do_revoke_share, do_share_trajectory
from webapp.trajectories.models import TokenArrays, Trajectory

__all__ = ["who"]


@pytest.fixture(scope="module")
def played(module_run: Run) -> None:
    play(module_run)


@pytest.fixture
def trajectory(played: None, run: Run) -> Trajectory:
    """A trajectory used by the update."""
    found = Trajectory.objects.filter(run=run, group__kept=True).order_by("-turn_count").first()
    assert found is not None
    return found


def test_tokens_split_the_responses_with_their_values(trajectory: Trajectory, who: Visitors) -> None:
    found = who.viewer.get(f"/t/{trajectory.slug}/tokens.json").json()
    assert found["note"] == ""
    responses = {turn.number: turn.event["response"] for turn in trajectory.turns.all()}
    assert {turn["turn"]: "".join(token["text"] for token in turn["tokens"]) for turn in found["turns"]} == responses
    for token in (token for turn in found["turns"] for token in turn["tokens"]):
        assert 0 < token["p"] <= 1
        assert token["logprob"] <= 0 <= token["entropy"]
        assert isinstance(token["advantage"], float)
        assert isinstance(token["id"], int)


def test_a_share_link_shows_tokens_until_it_is_revoked(trajectory: Trajectory, who: Visitors) -> None:
    link = do_share_trajectory(trajectory, trajectory.run.author)  # type: ignore[arg-type]
    address = f"/s/{link.token}/tokens.json"
    response = who.anonymous.get(address)
    assert response.json() == who.owner.get(f"/t/{trajectory.slug}/tokens.json").json()
    assert "noindex" in response["X-Robots-Tag"]
    assert f'data-tokens="{address}"' in who.anonymous.get(f"/s/{link.token}").content.decode()
    assert f'data-tokens="{address}"' in who.anonymous.get(f"/embed/{link.token}").content.decode()
    do_revoke_share(link)
    assert who.anonymous.get(address).status_code == who.owner.get(address).status_code == 404


def test_tokens_after_the_answer_are_counted(trajectory: Trajectory, who: Visitors) -> None:
    turn = trajectory.turns.get(number=0)
    length = len(turn.event["response"])
    shown = "t</think><answer>Up</answer>"
    turn.event |= {"thought": "t", "answer": "Up", "format_valid": True}
    turn.event["response"] = response = shown + "x" * (length - len(shown))
    turn.save(update_fields=["event"])
    tokens = who.viewer.get(f"/t/{trajectory.slug}/tokens.json").json()["turns"][0]["tokens"]
    ends = list(accumulate(len(token["text"]) for token in tokens))
    after = sum(token["text"] != "" and end > len(shown) for token, end in zip(tokens, ends, strict=True))
    assert ends[-1] == len(response) > len(shown)
    data = who.viewer.get(f"/t/{trajectory.slug}.json").json()
    assert data["turns"][0]["folded_tokens"] == [after]
    link = do_share_trajectory(trajectory, trajectory.run.author)  # type: ignore[arg-type]
    for page in (who.viewer.get(f"/t/{trajectory.slug}"), who.anonymous.get(f"/s/{link.token}")):
        assert f"<summary>… {after} more tokens after the answer</summary>" in page.content.decode()
    TokenArrays.objects.all().delete()
    page = who.viewer.get(f"/t/{trajectory.slug}").content.decode()
    assert f"<summary>… {length - len(shown)} more characters after the answer</summary>" in page
    transcript = who.viewer.get(f"/t/{trajectory.slug}/export/txt").content.decode()
    assert f"Text after the answer:\n    {'x' * (length - len(shown))}\n" in transcript


def test_filtered_trajectories_have_tokens_without_advantages(trajectory: Trajectory, who: Visitors) -> None:
    dropped = Trajectory.objects.filter(run=trajectory.run, group__kept=False).first()
    assert dropped is not None
    found = who.owner.get(f"/t/{dropped.slug}/tokens.json").json()
    assert "the filter dropped this group" in found["note"]
    assert {token["advantage"] for turn in found["turns"] for token in turn["tokens"]} == {None}


@pytest.mark.parametrize(
    ("config", "fields", "kept", "note"),
    [
        ({}, {}, True, "a version that stored no tokens"),
        ({"journal": {"tokens": "none"}}, {}, True, "journal.tokens is none"),
        ({"journal": {"tokens": "kept"}}, {}, False, "the filter dropped this group"),
        ({"journal": {"tokens": "all"}}, {"finished_seq": None}, None, "when the attempt has ended"),
        ({"journal": {"tokens": "all"}}, {}, None, "when this iteration's update is done"),
        ({"journal": {"tokens": "all"}}, {}, True, "interrupted, or its update never finished"),
    ],
)
def test_missing_tokens_are_explained(
    trajectory: Trajectory,
    who: Visitors,
    config: dict[str, Any],
    fields: dict[str, Any],
    kept: bool | None,
    note: str,
) -> None:
    TokenArrays.objects.all().delete()
    Run.objects.update(config=config)
    Trajectory.objects.filter(pk=trajectory.pk).update(**fields)
    type(trajectory.group).objects.filter(pk=trajectory.group_id).update(kept=kept)
    found = who.owner.get(f"/t/{trajectory.slug}/tokens.json").json()
    assert found["turns"] == []
    assert note in found["note"]


def test_damaged_arrays_are_reported_without_failing(trajectory: Trajectory, who: Visitors) -> None:
    TokenArrays.objects.update(data=b"not packed")
    found = who.owner.get(f"/t/{trajectory.slug}/tokens.json").json()
    assert found["turns"] == []
    assert "cannot be read: the token arrays are not zlib data." in found["note"]


def test_the_token_view_takes_few_queries(
    trajectory: Trajectory, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(5):
        who.owner.get(f"/t/{trajectory.slug}/tokens.json")
