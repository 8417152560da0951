"""Common prefixes of prompts are found completely, and no prompt gets a token of another one."""

from hypothesis import given
from hypothesis import strategies as st

from trainer.policy.packing.shared_prefix import SharedPrefix, find_shared_prefixes

PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), max_size=12)


def test_an_instruction_is_shared_by_all_and_a_start_by_each_group():
    instruction = list(range(50))
    prompts = [instruction + [1] * 10, instruction + [2] * 20, instruction + [1] * 10, instruction + [2] * 20]
    whole, groups = find_shared_prefixes(prompts, min_tokens=9)
    assert whole == [SharedPrefix((0, 1, 2, 3), 0, 50)]
    assert sorted(groups, key=lambda part: part.members) == [SharedPrefix((0, 2), 50, 59), SharedPrefix((1, 3), 50, 69)]


def test_a_too_short_prefix_is_not_shared_unless_part_of_a_longer_one():
    assert find_shared_prefixes([[1, 2, 3], [1, 2, 4]], min_tokens=3) == []
    assert find_shared_prefixes([[1, 2, 3], [1, 5, 6, 7, 8], [1, 5, 6, 7, 9]], min_tokens=4) == [
        [SharedPrefix((1, 2), 0, 4)]
    ]


def test_zero_or_one_prompts_share_nothing():
    assert find_shared_prefixes([], min_tokens=1) == find_shared_prefixes([[1, 2, 3]], min_tokens=1) == []


@given(PROMPTS, st.integers(1, 6))
def test_every_prompt_is_computed_in_order_and_keeps_its_last_token(prompts, worth):
    read = [0] * len(prompts)
    for parts in find_shared_prefixes(prompts, worth):
        members = [member for part in parts for member in part.members]
        assert len(members) == len(set(members))
        for part in parts:
            assert (part.stop - part.start) * (len(part.members) - 1) >= worth
            (start,) = {read[member] for member in part.members}
            assert start == part.start
            assert len({tuple(prompts[member][: part.stop]) for member in part.members}) == 1
            for member in part.members:
                read[member] = part.stop
                assert part.stop < len(prompts[member])


@given(PROMPTS)
def test_without_a_minimum_length_each_token_is_computed_once(prompts):
    saved = sum(
        (part.stop - part.start) * (len(part.members) - 1)
        for parts in find_shared_prefixes(prompts, 1)
        for part in parts
    )
    starts = {tuple(prompt[:end]) for prompt in prompts for end in range(1, len(prompt))}
    assert sum(len(prompt) - 1 for prompt in prompts) - saved == len(starts)
