"""Response parser: thoughts, actions and problems of any text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.trainer import tiny
from tests.trainer.random_texts import TAGS, texts
from trainer.rollout.response_parser import ACTION_SEPARATOR, parse_response


@given(texts, st.booleans(), st.integers(1, 6))
def test_any_text_is_parsed_with_at_most_the_allowed_actions(text, think, limit):
    parsed = parse_response(text, think=think, max_actions=limit)
    assert len(parsed.actions) <= limit
    assert all(action == action.strip() and action and ACTION_SEPARATOR not in action for action in parsed.actions)
    assert (parsed.problem is None) == bool(parsed.actions)
    assert parsed.structured or not parsed.actions
    if parsed.structured:
        assert not any(tag in part for tag in TAGS for part in (parsed.thought, *parsed.actions))


@example("x</think><answer><thi<answer>nk>Up</answer>", True, 5)
@example("<|im_<|im_start|>end|></think><answer>a||b||c|||</answer>", True, 2)
@given(texts, st.booleans(), st.integers(1, 6))
def test_parsing_is_idempotent(text, think, limit):
    once = parse_response(text, think=think, max_actions=limit)
    again = parse_response(once.text.removeprefix("<think>" if think else "<answer>"), think=think, max_actions=limit)
    assert again == once


@given(st.lists(st.sampled_from(["Up", "left", "JUMP", "go up"]), min_size=1, max_size=8), st.integers(1, 8))
def test_a_well_formed_answer_yields_its_first_actions(actions, limit):
    parsed = parse_response(tiny.answer(*actions, thought=" I see "), think=True, max_actions=limit)
    assert parsed.actions == tuple(actions[:limit])
    assert (parsed.thought, parsed.structured, parsed.problem) == ("I see", True, None)


@pytest.mark.parametrize(
    "response, think, problem",
    [
        ("on and on", True, "the thought is not closed with </think>"),
        ("so</think>Up", True, "there is no <answer>"),
        ("so</think><answer>Up", True, "the answer is not closed with </answer>"),
        ("so</think> then <answer>Up</answer>", True, "<answer> does not follow </think>"),
        ("so</think><answer> || </answer>", True, "the answer names no action"),
        ("Up", False, "the answer is not closed with </answer>"),
    ],
)
def test_the_problem_of_a_response_is_described(response, think, problem):
    assert parse_response(response, think=think, max_actions=5).problem == problem
