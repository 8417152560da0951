from __future__ import annotations

import math

import pytest

from trainer.metrics.registry import METRICS, finite, get_spec
from trainer.metrics.spec import SECTIONS, MetricSpec

STABLE = [
    "reward/mean",
    "reward/std",
    "reward/in_group_std",
    "reward/zero_std_share",
    "success/rate",
    "format/valid_rate",
    "entropy/mean",
    "policy/loss",
    "policy/grad_norm",
    "policy/clip_fraction_low",
    "policy/clip_fraction_high",
    "policy/kl_to_initial",
    "value/loss",
    "value/explained_variance",
    "length/response",
    "length/think",
    "length/truncated_share",
    "turns/mean",
    "actions/mean",
    "actions/effective_rate",
    "claims/true_share",
    "claims/per_turn",
    "thoughts/influence",
    "thoughts/follows_false_claim",
    "corrections/won",
    "corrections/won_without",
    "diversity/think_distinct_2",
    "diversity/think_repetition",
    "diversity/actions_in_group",
    "diversity/thoughts_in_group",
    "diversity/commonest_thought",
    "reasoning/mutual_information",
    "reasoning/conditional_entropy",
    "reasoning/retrieval_accuracy",
    "filter/kept_share",
    "filter/kept_std",
    "hosted/cost",
    "mismatch/k3",
    "mismatch/chi2",
    "mismatch/ess",
    "throughput/tokens_per_second",
    "time/rollout",
    "time/update",
    "time/evaluate",
    "echo_trap/spread",
    "echo_trap/spread_limit",
    "system/cpu_percent",
    "system/memory_bytes",
    "eval/fixed/success",
    "eval/fixed/success_low",
    "eval/fixed/success_high",
    "eval/fixed/success_best_play",
    "eval/fixed/success_random_play",
    "eval/fixed/pass@8",
]


@pytest.mark.parametrize("name", STABLE)
def test_every_stable_name_has_a_title_a_section_and_a_meaning(name: str) -> None:
    spec = get_spec(name)
    assert spec.name == name
    assert spec.title
    assert spec.meaning.endswith(".")
    assert spec.section in SECTIONS


def test_every_section_has_a_metric() -> None:
    assert {get_spec(name).section for name in (*STABLE, "sft/loss", "attempts/trained", "watched/any-view")} == set(
        SECTIONS
    )


@pytest.mark.parametrize("spec", METRICS.values(), ids=list(METRICS))
def test_rows_are_one_line_and_their_ranges_are_in_order(spec: MetricSpec) -> None:
    assert "\n" not in spec.meaning + spec.title
    assert spec.low is None or spec.high is None or spec.low < spec.high
    assert spec.unit != "share" or (spec.low, spec.high) == (0.0, 1.0)


def test_metric_families_are_titled_by_their_placeholder() -> None:
    assert get_spec("eval/fixed/success").title == "fixed: success"
    assert get_spec("eval/large/pass@16").title == "large: pass@16"
    assert get_spec("reward/term/format").title == "Reward: format"


@pytest.mark.parametrize(
    "name", ["reward/men", "eval/fixed", "eval//success", "eval/fixed/luck", "eval/fixed/pass@0", "reward/term/", ""]
)
def test_an_unknown_name_is_an_error_that_names_the_table(name: str) -> None:
    with pytest.raises(KeyError, match=r"trainer/metrics/table\.py"):
        get_spec(name)


def test_non_finite_values_are_dropped() -> None:
    values = {"reward/mean": 1, "reward/std": None, "policy/loss": math.nan, "value/loss": math.inf}
    assert finite(values) == {"reward/mean": 1.0}


def test_a_value_under_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError, match="reward/men"):
        finite({"reward/men": 1.0})


def test_values_are_written_with_their_unit() -> None:
    assert get_spec("success/rate").text(0.625) == "62.5%"
    assert get_spec("length/response").text(31.25) == "31.2 tokens"
    assert get_spec("reward/mean").text(-1.1) == "-1.100"
    assert get_spec("update/steps").text(4) == "4 steps"


def test_readings_below_a_title_leave_its_unit_out_and_keep_small_values_apart_from_zero() -> None:
    assert get_spec("success/rate").reading(0.625) == "62.5%"
    assert get_spec("length/response").reading(31.25) == "31.2"
    assert get_spec("reward/mean").reading(-1.1) == "−1.100"
    assert get_spec("reward/mean").reading(-0.00002) == "−2.0e−05"
    assert get_spec("success/rate").reading(0.00001) == "0.0%"
