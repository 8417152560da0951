"""The attempt that the screen on the wall shows."""

from __future__ import annotations

from webapp.explorer.highlights import Attempt, Highlight
from webapp.explorer.team_tv import TvMoment, most_telling
from webapp.runs.models import Run


def moment(slug: str, kind: str) -> TvMoment:
    attempt = Attempt(slug, slug, 0, 0, 1, "train", 1, success=True, reward=1.0)
    return TvMoment(Run(), Highlight(kind, "", attempt))


def test_the_most_telling_one_comes_first_and_none_again_before_the_others() -> None:
    moments = [moment("a", "surprise"), moment("b", "first_success"), moment("c", "only_success")]
    shown: list[str] = []
    for _ in range(5):
        found = most_telling(moments, shown)
        assert found is not None
        slug = found.highlight.attempt.slug
        shown = [*(other for other in shown if other != slug), slug]
    assert shown == ["a", "b", "c"], "after all three, again from the first"
    assert most_telling([], shown) is None
