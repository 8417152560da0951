from __future__ import annotations

import math
import re
from itertools import combinations
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from envs.base import Claim
from tests.trainer.random_batches import Dialogues, dialogues
from trainer.algorithms.group_filter import keep_groups
from trainer.diagnostics import compute
from trainer.diagnostics.reasoning import reasoning_metrics
from trainer.diagnostics.signal_checks import CHECKS
from trainer.journal.events import ActionRecord, AttemptsUsed, Turn
from trainer.learner.attempts_used import use_metrics
from trainer.metrics.answer_table import ANSWERS
from trainer.metrics.reasoning_table import FAMILIES
from trainer.metrics.registry import METRICS
from trainer.metrics.statistics import wilson_interval
from trainer.metrics.trap_signals import LIMIT, PREFIX
from trainer.rollout.trajectory import Trajectory


def turn(
    actions: str = "Up",
    *,
    reward: float = -0.1,
    valid: bool = True,
    tokens: int = 4,
    entropy: float = 0.5,
    effective: bool = True,
    truncated: bool = False,
    terms: dict[str, float] | None = None,
) -> Turn:
    """One turn of the words in `actions`; `?word` is an unknown one, `-word` comes after the end."""
    records = []
    for word in actions.split():
        status = {"?": "illegal", "-": "ignored"}.get(word[0], "executed")
        name = None if status == "illegal" else word.lstrip("-")
        records.append(ActionRecord(text=word, status=status, name=name, effective=effective))  # type: ignore[arg-type]
    return Turn(
        trajectory="t",
        turn=0,
        state="",
        response="",
        thought="",
        answer=actions,
        format_valid=valid,
        actions=records,
        reward=reward,
        terms=terms or {"environment": reward},
        tokens=tokens,
        truncated=truncated,
        entropy=entropy,
        logprob=-entropy,
    )


def played(group: int, *turns: Turn, success: bool = False, thoughts: list[list[int]] | None = None) -> Trajectory:
    """A trajectory of these turns, with the thoughts' tokens one after the other."""
    trajectory = Trajectory(id=f"{group}", group=group, member=0, success=success, turns=list(turns))
    for thought in thoughts or []:
        start = len(trajectory.ids)
        trajectory.append_response(thought, [-1.0] * len(thought), [1.0] * len(thought), 0)
        trajectory.thought_spans.append((start, len(trajectory.ids)))
    return trajectory


def test_the_metrics_of_a_small_rollout_by_hand() -> None:
    rollout = [
        played(0, turn("Up Down", reward=-0.2), turn("Up", reward=10.9), success=True, thoughts=[[1, 2, 3], [1, 2, 3]]),
        played(
            0,
            turn(
                "?jump",
                valid=False,
                effective=False,
                tokens=12,
                entropy=1.5,
                truncated=True,
                terms={"environment": 0.0, "format": -0.1},
            ),
        ),
        played(1, turn("Left", effective=False)),
        played(1, turn("Left -Up")),
    ]
    found = compute.rollout_metrics(rollout)
    assert found == {
        "reward/mean": pytest.approx((10.7 - 0.1 - 0.1 - 0.1) / 4),
        "reward/std": pytest.approx(5.4),
        "reward/in_group_std": pytest.approx(10.8 / math.sqrt(2) / 2),
        "reward/zero_std_share": 0.5,
        "reward/term/environment": pytest.approx((10.7 - 0.1 - 0.1) / 4),
        "reward/term/format": pytest.approx(-0.025),
        "success/rate": 0.25,
        "format/garbled_share": 0.0,
        "format/valid_rate": 0.8,
        "entropy/mean": pytest.approx((4 * 4 * 0.5 + 12 * 1.5) / 28),
        "length/response": 5.6,
        "length/truncated_share": 0.2,
        "length/think": 3.0,
        "actions/effective_rate": 0.8,
        "turns/mean": 1.25,
        "actions/mean": 1.25,
        "diversity/think_distinct_2": 0.5,
        "diversity/actions_in_group": 1.0,
    }


def test_the_first_thoughts_of_a_group_are_compared_as_text() -> None:
    def thinking(group: int, first: str, second: str = "") -> Trajectory:
        return played(group, *(turn().model_copy(update={"thought": thought}) for thought in (first, second)))

    same = [thinking(0, "I take Dragon.", "Up."), thinking(0, " I take Dragon. ", "Down."), thinking(1, "One.")]
    assert compute.rollout_metrics(same)["diversity/thoughts_in_group"] == 0.0
    mixed = [*same, thinking(0, "I take Phoenix."), thinking(1, "Two."), played(1)]
    assert compute.rollout_metrics(mixed)["diversity/thoughts_in_group"] == pytest.approx((1 / 2 + 1) / 2)
    echo = [
        thinking(0, "I am at 1,2. Down."),
        thinking(1, "i am at  3,4. down."),
        thinking(2, "Left."),
        thinking(3, ""),
    ]
    assert compute.rollout_metrics(echo)["diversity/commonest_thought"] == pytest.approx(2 / 3)
    assert "diversity/commonest_thought" not in compute.rollout_metrics([thinking(0, " ")])
    assert "diversity/thoughts_in_group" not in compute.rollout_metrics([thinking(0, ""), thinking(0, "")])


def test_claims_are_counted_over_turns_whose_thoughts_were_compared() -> None:
    true, false = Claim(start=0, end=1, true=True), Claim(start=1, end=2, true=False)
    stated = [[true, false, true], [], None, [false]]
    turns = [turn().model_copy(update={"claims": claims}) for claims in stated]
    found = compute.turn_metrics(turns)
    assert (found["claims/true_share"], found["claims/per_turn"]) == (0.5, pytest.approx(4 / 3))
    assert "claims/true_share" not in compute.turn_metrics(turns[1:3])
    assert "claims/per_turn" not in compute.turn_metrics(turns[2:3])


def test_a_rollout_without_trajectories_has_no_metrics() -> None:
    assert compute.rollout_metrics([]) == {}


def test_uncomputable_metrics_are_absent() -> None:
    found = compute.rollout_metrics([played(0)])
    assert set(found) == {
        "reward/mean",
        "reward/in_group_std",
        "reward/zero_std_share",
        "success/rate",
        "turns/mean",
        "actions/mean",
    }


TRAINER = Path(compute.__file__).parents[1]
REWARD = st.floats(-20, 20)


@given(st.lists(st.tuples(REWARD, st.integers(0, 3)), max_size=12))
def test_reward_metrics_are_finite_for_any_rollout(played: list[tuple[float, int]]) -> None:
    found = compute.reward_metrics([reward for reward, _ in played], [group for _, group in played])
    assert all(math.isfinite(value) for value in found.values())
    assert bool(found) == bool(played)


def test_rewards_without_their_groups_are_an_error() -> None:
    with pytest.raises(ValueError, match="group ids"):
        compute.reward_metrics([1.0], [])


def test_filter_metrics_are_the_filters_statistics() -> None:
    found = compute.filter_metrics(keep_groups([[0.0, 2.0], [1.0, 1.0]], "std", 0.5, True))
    assert found == {"filter/kept_share": 0.5, "filter/kept_std": pytest.approx(math.sqrt(2))}


def test_templates_lower_distinct_bigrams_and_stutter_raises_repetition() -> None:
    assert compute.distinct([[1, 2, 3], [4, 5, 6]], 2) == 1.0
    assert compute.distinct([[1, 2, 3]] * 4, 2) == 0.25
    assert compute.repetition([1, 2, 3, 4, 5, 6]) == 0.0
    assert compute.repetition([1] * 9) == pytest.approx(5 / 6)


def test_a_thought_too_short_for_an_n_gram_has_no_metric() -> None:
    assert compute.repetition([1, 2, 3]) is None
    assert compute.distinct([[1], []], 2) is None


@given(st.lists(st.integers(0, 3), max_size=30))
def test_repetition_is_a_share(thought: list[int]) -> None:
    found = compute.repetition(thought)
    assert found is None or 0.0 <= found < 1.0


def test_a_group_with_identical_answers_has_no_diversity() -> None:
    assert compute.distinct_in_group([0, 0, 0], ["a", "a", "a"]) == 0.0
    assert compute.distinct_in_group([0, 0, 0], ["a", "b", "c"]) == 1.0
    assert compute.distinct_in_group([0, 0, 0, 1, 1], ["a", "b", "b", "c", "c"]) == 0.25
    assert compute.distinct_in_group([0, 1], ["a", "b"]) is None


def test_missing_engine_entropy_is_estimated_from_sampled_tokens() -> None:
    reported, unreported = (
        turn(entropy=0.5, tokens=4),
        turn(entropy=1.5, tokens=12).model_copy(update={"entropy": None}),
    )
    assert compute.turn_metrics([reported, unreported])["entropy/mean"] == pytest.approx((4 * 0.5 + 12 * 1.5) / 16)
    unknown = unreported.model_copy(update={"logprob": None})
    assert compute.turn_metrics([reported, unknown])["entropy/mean"] == pytest.approx(0.5)


@given(d=dialogues())
def test_sampler_and_trainer_that_agree_have_no_mismatch(d: Dialogues) -> None:
    logprobs = -d.numbers().abs()
    found = compute.mismatch_metrics(logprobs, d.rubbish(logprobs, float("nan")), d.mask)
    if d.mask.any():
        assert found == dict.fromkeys(("mismatch/mean", "mismatch/p99", "mismatch/k3", "mismatch/chi2"), 0.0) | {
            "mismatch/ess": 1.0
        }
    else:
        assert found == {}


@given(d=dialogues(), scale=st.sampled_from([0.01, 1.0, 1e4, math.inf]))
def test_mismatch_is_finite_for_any_difference(d: Dialogues, scale: float) -> None:
    found = compute.mismatch_metrics(d.numbers(1) * scale, d.numbers(2), d.mask)
    assert all(math.isfinite(value) for value in found.values())
    if found:
        assert found["mismatch/k3"] >= 0
        assert 0 < found["mismatch/ess"] <= 1


def test_mismatch_matches_a_hand_calculation() -> None:
    ratios = torch.tensor([[0.5, 1.5, 99.0]])
    found = compute.mismatch_metrics(ratios.log(), torch.zeros(1, 3), torch.tensor([[1, 1, 0]]))
    assert found["mismatch/chi2"] == pytest.approx(0.25)
    assert found["mismatch/ess"] == pytest.approx(0.8)
    assert found["mismatch/mean"] == pytest.approx((math.log(2) + math.log(1.5)) / 2)
    assert found["mismatch/p99"] == pytest.approx(math.log(2))
    assert found["mismatch/k3"] == pytest.approx(-(math.log(0.5) + math.log(1.5)) / 2)


def test_wilson_interval_of_known_counts() -> None:
    assert wilson_interval(8, 10) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert wilson_interval(0, 256) == (0.0, pytest.approx(0.01478, abs=1e-5))
    assert wilson_interval(0, 0) == (0.0, 1.0)


@given(st.integers(1, 500), st.data())
def test_the_interval_contains_the_rate_and_stays_within_zero_and_one(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    low, high = wilson_interval(successes, trials)
    assert 0.0 <= low <= successes / trials <= high <= 1.0
    assert wilson_interval(trials - successes, trials) == (pytest.approx(1 - high), pytest.approx(1 - low))


def test_pass_at_k_is_the_exact_probability_without_replacement() -> None:
    assert compute.pass_at_k(2, 4, 1) == 0.5
    assert compute.pass_at_k(2, 4, 2) == pytest.approx(5 / 6)
    assert compute.pass_at_k(0, 4, 4) == 0.0
    assert compute.pass_at_k(1, 4, 4) == 1.0
    assert compute.pass_at_k(1, 4, 5) is None
    with pytest.raises(ValueError, match="cannot be"):
        compute.pass_at_k(5, 4, 1)


def test_an_evaluation_reports_the_rate_with_its_confidence_interval() -> None:
    found = compute.evaluation_metrics("fixed", [True, False], [10.0, -1.0], [1, 5], [3, 10])
    assert found["eval/fixed/success"] == 0.5
    assert found["eval/fixed/success_low"] < 0.5 < found["eval/fixed/success_high"]
    assert (found["eval/fixed/reward"], found["eval/fixed/turns"], found["eval/fixed/actions"]) == (4.5, 3.0, 6.5)
    assert compute.evaluation_metrics("fixed", [], [], [], []) == {}


def test_every_metric_of_the_table_is_computed_somewhere() -> None:
    tables = compute.TRAJECTORY_METRICS.keys() | compute.TURN_METRICS.keys() | compute.REWARD_METRICS.keys()
    signals = {f"{PREFIX}{key}{ending}" for key in CHECKS for ending in ("", LIMIT)}
    rooms = ("algorithms", "cluster", "diagnostics", "engines", "evaluation", "learner", "loops", "rollout")
    source = "".join(path.read_text() for room in rooms for path in (TRAINER / room).rglob("*.py"))
    literals = set(re.findall(r'"([a-z]+/[a-z0-9_]+)"', source))
    phases = {f"time/{name}" for name in re.findall(r'timer\.phase\("(\w+)"\)', source)}
    terms = ("task", "entropy", "kl")
    gradients = {f"gradient/{term}" for term in terms}
    gradients |= {f"gradient/cosine_{one}_{other}" for one, other in combinations(terms, 2)}
    scores, lengths = -torch.rand(9, 9), [1] * 9
    thoughts = {name for family in FAMILIES for name in reasoning_metrics(scores, lengths, {}, family)}
    uses = use_metrics(AttemptsUsed(iteration=1, trained=0, unused={})).keys()
    computed = tables | signals | literals | phases | gradients | thoughts | uses
    by_sites = {metric.name for metric in ANSWERS}
    assert METRICS.keys() - computed == by_sites
    assert (tables | signals) - METRICS.keys() == set()


@pytest.mark.parametrize(
    ("text", "garbled"),
    [
        ("I push Left.\n\tThen: 推す, émigré, 🙂‍↔️, ∀x ∈ ℝ", False),
        ("", False),
        ("half of a letter \ufffd", True),
        ("\ud83d", True),
        ("a\x00b", True),
        ("\x1b[0m", True),
        ("\ue000", True),
    ],
)
def test_garbled_texts_have_characters_that_no_text_has(text: str, garbled: bool) -> None:
    assert compute.is_garbled(text) is garbled
