"""Spaces of actions: names, or any text."""

import pytest

from envs.spaces import ActionNames, AnyText


def test_the_text_space_contains_any_text_and_nothing_else():
    space = AnyText()
    assert all(text in space for text in ("", "2 + 2", "Ω\n\0", "x" * 10_000))
    assert all(other not in space for other in (3, None, b"text", ["text"]))
    assert space == AnyText(seed=4)


def test_text_space_samples_are_short_printable_and_seeded():
    drawn = [[space.sample() for _ in range(200)] for space in (AnyText(seed=4), AnyText(seed=4), AnyText(seed=5))]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(text.isascii() and (text.isprintable() or not text) and len(text) <= 20 for text in drawn[0])
    assert {len(text) for text in drawn[0]} == set(range(21))


@pytest.mark.parametrize("space", [AnyText(), ActionNames(["Up"])])
def test_masks_are_refused(space):
    with pytest.raises(ValueError, match="neither a mask nor probabilities"):
        space.sample(mask=[1])


def test_names_are_found_in_any_case_and_sampled_as_written():
    space = ActionNames(["Up", "Down"], seed=1)
    assert {space.sample() for _ in range(40)} == {"Up", "Down"}
    assert all(name in space for name in ("Up", " down ", "DOWN"))
    assert "Left" not in space
    assert space == ActionNames(["Up", "Down"]) != ActionNames(["Down", "Up"])
    assert not space.is_np_flattenable
    assert (repr(space), repr(AnyText())) == ("ActionNames(Up, Down)", "AnyText()")
