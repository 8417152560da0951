"""The table of metrics: every name with its title, unit, range and meaning. Curves, documents and alarms read it.

How a metric is computed stands in `diagnostics` and beside the losses; nothing is computed here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from trainer.signs import SIGNS

Section = Literal[
    "reward", "policy", "critic", "exploration", "length", "throughput", "evaluation", "hosted", "mismatch", "echo trap"
]
Better = Literal["up", "down", "none"]
Unit = Literal[
    "", "share", "nats", "tokens", "turns", "actions", "seconds", "tokens/s", "steps", "groups", "trajectories",
    "requests",
]
SECTIONS: tuple[Section, ...] = get_args(Section)
"""In the order in which pages show them."""


@dataclass(frozen=True)
class MetricSpec:
    """What a reader must know about a metric. `low` and `high` bound its values; None = unbounded."""

    name: str
    title: str
    section: Section
    meaning: str
    unit: Unit = ""
    low: float | None = None
    high: float | None = None
    better: Better = "none"
    decimals: int = 3

    def text(self, value: float) -> str:
        """The value for people: shares as per cent, other units behind the number."""
        if self.unit == "share":
            return f"{100 * value:.{max(self.decimals - 2, 0)}f} %"
        number = f"{value:,.{self.decimals}f}"
        return f"{number} {self.unit}" if self.unit else number


def _spec(
    name: str, title: str, section: Section, meaning: str, unit: Unit = "", better: Better = "none", decimals: int = 3
) -> MetricSpec:
    """A row of the table whose range follows from its unit: shares lie in [0, 1], counts and times are not negative."""
    low = None if unit in ("", "nats") else 0.0
    high = 1.0 if unit == "share" else None
    return MetricSpec(name, title, section, meaning, unit, low, high, better, decimals)


def _positive(spec: MetricSpec, high: float | None = None) -> MetricSpec:
    return replace(spec, low=0.0, high=high)


_TABLE: tuple[MetricSpec, ...] = (
    _spec("reward/mean", "Mean reward", "reward", "Mean of R(τ) over the iteration's trajectories.", better="up"),
    _positive(_spec("reward/std", "Reward spread", "reward", "Standard deviation of R(τ) over the iteration.")),
    _positive(
        _spec(
            "reward/in_group_std",
            "Reward spread within groups",
            "reward",
            "Standard deviation of R(τ) among trajectories from the same state, averaged over groups. "
            "It falls first when a run collapses.",
            better="up",
        )
    ),
    _spec(
        "reward/zero_std_share",
        "Groups without a signal",
        "reward",
        "Share of groups whose rewards are all equal: nothing can be learned from comparing them.",
        "share",
        "down",
    ),
    _spec("success/rate", "Success while training", "reward", "Share of trajectories that succeeded.", "share", "up"),
    _spec(
        "rollout/failed_environments",
        "Broken off by the environment",
        "reward",
        "Trajectories whose environment hung, crashed or raised: nothing else here counts them, and nothing is learned "
        "from them.",
        "trajectories",
        "down",
        decimals=0,
    ),
    _spec("format/valid_rate", "Valid format", "reward", "Share of turns that keep the format.", "share", "up"),
    _spec("filter/kept_share", "Groups kept", "reward", "Share of groups the uncertainty filter kept.", "share"),
    _positive(
        _spec("filter/kept_std", "Reward spread of kept groups", "reward", "Mean in-group std of the groups kept.")
    ),
    _spec("policy/loss", "Policy loss", "policy", "The clipped objective, negated; not comparable across runs."),
    _positive(
        _spec("policy/grad_norm", "Policy gradient norm", "policy", "Before clipping, mean over the optimiser's steps.")
    ),
    _spec(
        "policy/clip_fraction_low",
        "Clipped below",
        "policy",
        "Share of policy tokens whose ratio fell below 1 − ε_low and was cut off.",
        "share",
    ),
    _spec(
        "policy/clip_fraction_high",
        "Clipped above",
        "policy",
        "Share of policy tokens whose ratio rose above 1 + ε_high and was cut off.",
        "share",
    ),
    _spec(
        "policy/clip_fraction_dual",
        "Cut by the dual clip",
        "policy",
        "Share of policy tokens with a negative advantage whose ratio rose above the dual clip.",
        "share",
    ),
    _positive(
        _spec(
            "policy/kl_to_rollout",
            "KL to the rollout's policy",
            "policy",
            "How far the updates moved the policy from the one that played (k3, mean per token).",
            "nats",
            decimals=5,
        )
    ),
    _spec(
        "policy/kl_to_initial",
        "KL to the initial policy",
        "policy",
        "How far training has moved the policy from where it began (mean per token).",
        "nats",
        decimals=4,
    ),
    _positive(_spec("policy/learning_rate", "Learning rate", "policy", "Of the policy's optimiser.", decimals=8)),
    _positive(
        _spec(
            "gradient/task",
            "Gradient of the task",
            "policy",
            "Norm of the clipped objective's gradient on the iteration's first update batch.",
        )
    ),
    _positive(
        _spec("gradient/entropy", "Gradient of the entropy bonus", "policy", "Norm on the same batch, weight included.")
    ),
    _positive(_spec("gradient/kl", "Gradient of the KL loss", "policy", "Norm on the same batch, weight included.")),
    *(
        replace(
            _spec(
                f"gradient/cosine_{one}_{other}",
                f"Direction of {one} and {other}",
                "policy",
                "Cosine between the two gradients: 1 = they pull the same way, −1 = against each other.",
            ),
            low=-1.0,
            high=1.0,
        )
        for one, other in (("task", "entropy"), ("task", "kl"), ("entropy", "kl"))
    ),
    _positive(
        _spec(
            "sft/loss",
            "Imitation loss",
            "policy",
            "Cross-entropy of the demonstrated responses, mean per token.",
            "nats",
            "down",
        )
    ),
    _positive(
        _spec(
            "sft/heldout_loss",
            "Imitation loss, held out",
            "policy",
            "The same on demonstrations that nothing is learned from.",
            "nats",
            "down",
        )
    ),
    _spec(
        "sft/heldout_accuracy",
        "Demonstrated tokens guessed",
        "policy",
        "Share of the tokens of held-out demonstrations that the policy finds likeliest.",
        "share",
        "up",
    ),
    _positive(_spec("sft/grad_norm", "Imitation gradient norm", "policy", "Before clipping.")),
    _positive(_spec("sft/learning_rate", "Imitation learning rate", "policy", "Of the optimiser.", decimals=8)),
    _positive(
        _spec("sft/epoch", "Passes over the demonstrations", "policy", "How often each was learned from.", decimals=2)
    ),
    _spec("update/steps", "Optimiser steps", "policy", "Steps taken in this iteration.", "steps", decimals=0),
    _spec(
        "update/skipped",
        "Steps skipped",
        "policy",
        "Steps not taken because the loss or the gradient was not a finite number, or no group had a signal.",
        "steps",
        "down",
        decimals=0,
    ),
    _positive(_spec("value/loss", "Critic loss", "critic", "Half the squared error of the critic.", better="down")),
    replace(
        _spec(
            "value/explained_variance",
            "Explained variance",
            "critic",
            "1 = the critic predicts the returns, 0 = no better than their mean, below 0 = worse.",
            better="up",
        ),
        high=1.0,
    ),
    _spec("value/clip_fraction", "Critic clipped", "critic", "Share of predictions held back by the clip.", "share"),
    _positive(
        _spec("value/grad_norm", "Critic gradient norm", "critic", "Before clipping, mean over the optimiser's steps.")
    ),
    _positive(
        _spec(
            "entropy/mean",
            "Entropy",
            "exploration",
            "Mean entropy of the policy on its sampled tokens; through vLLM an estimate, their mean −log p. A steady "
            "decay is normal, a sudden change is not.",
            "nats",
        )
    ),
    _spec(
        "diversity/think_distinct_2",
        "Distinct pairs in thoughts",
        "exploration",
        "Distinct among all pairs of neighbouring tokens in the iteration's thoughts; low = one template.",
        "share",
        "up",
    ),
    _spec(
        "diversity/think_repetition",
        "Repetition in a thought",
        "exploration",
        "1 − unique / total 4-grams inside a thought, averaged over thoughts.",
        "share",
        "down",
    ),
    _spec(
        "diversity/actions_in_group",
        "Different first answers",
        "exploration",
        "How differently a group answers the same first state: 0 = all alike, 1 = all different.",
        "share",
    ),
    _spec(
        "reasoning/mutual_information",
        "Thoughts depend on the state",
        "exploration",
        "Mutual information of state and thought, at most log N of the N prompts compared; low = template collapse.",
        "nats",
        "up",
    ),
    _positive(
        _spec(
            "reasoning/conditional_entropy",
            "Uncertainty of a thought",
            "exploration",
            "Mean negative log-probability of a whole thought given its state.",
            "nats",
            decimals=1,
        )
    ),
    _spec(
        "reasoning/retrieval_accuracy",
        "State recognised from its thought",
        "exploration",
        "Share of thoughts that are likelier after their own state than after any other; chance is 1/N.",
        "share",
        "up",
    ),
    _spec("length/response", "Response length", "length", "Mean sampled tokens per turn.", "tokens", decimals=1),
    _spec("length/think", "Thought length", "length", "Mean tokens of a thought.", "tokens", decimals=1),
    _spec(
        "length/truncated_share", "Responses cut off", "length", "Share that hit the longest response.", "share", "down"
    ),
    _spec("turns/mean", "Turns", "length", "Mean turns per trajectory.", "turns", decimals=2),
    _spec("actions/mean", "Actions", "length", "Mean executed actions per trajectory.", "actions", decimals=2),
    _spec(
        "actions/effective_rate",
        "Effective actions",
        "length",
        "Share of executed actions that changed the state.",
        "share",
        "up",
    ),
    _positive(
        _spec(
            "mismatch/k3",
            "Trainer against sampler",
            "mismatch",
            "KL between the sampler's and the trainer's log-probabilities of the same tokens (k3); should be near 0.",
            "nats",
            "down",
            decimals=6,
        )
    ),
    replace(
        _spec(
            "mismatch/chi2",
            "χ² trainer against sampler",
            "mismatch",
            "Mean squared ratio minus 1: sensitive to single tokens the two disagree about.",
            better="down",
            decimals=6,
        ),
        low=-1.0,
    ),
    _spec(
        "mismatch/capped_share",
        "Corrections cut off",
        "mismatch",
        "Share of tokens whose importance weight, trainer over sampler, reached its cap.",
        "share",
        "down",
    ),
    _spec(
        "mismatch/ess",
        "Effective sample size",
        "mismatch",
        "Share of the sampled tokens that would carry the same weight of evidence without a mismatch.",
        "share",
        "up",
        decimals=4,
    ),
    _spec(
        "throughput/tokens_per_second",
        "Sampling speed",
        "throughput",
        "Sampled tokens per second of rollout.",
        "tokens/s",
        "up",
        decimals=0,
    ),
    _spec("time/rollout", "Rollout", "throughput", "Seconds of playing in this iteration.", "seconds", "down", 1),
    _spec("time/update", "Update", "throughput", "Seconds of learning in this iteration.", "seconds", "down", 1),
    _spec("time/evaluate", "Evaluation", "throughput", "Seconds of the last evaluation.", "seconds", "down", 1),
    _spec(
        "time/checkpoint",
        "Checkpoint",
        "throughput",
        "Seconds of writing checkpoints since the previous iteration's metrics; part of the rest.",
        "seconds",
        "down",
        1,
    ),
    _spec(
        "time/rest",
        "Rest",
        "throughput",
        "Seconds since the previous iteration's metrics that were neither rollout nor update nor evaluation.",
        "seconds",
        "down",
        2,
    ),
    _spec(
        "hosted/requests",
        "Requests answered",
        "hosted",
        "Answers of the hosted model in the run so far, all attempts.",
        "requests",
        decimals=0,
    ),
    _spec(
        "hosted/retries",
        "Requests made again",
        "hosted",
        "Tries that failed before an answer came: the endpoint was busy, slow or away.",
        "requests",
        "down",
        decimals=0,
    ),
    _spec(
        "hosted/prompt_tokens",
        "Prompt tokens",
        "hosted",
        "Tokens the hosted model read, as the endpoint counts them.",
        "tokens",
        decimals=0,
    ),
    _spec(
        "hosted/cached_tokens",
        "Prompt tokens from a cache",
        "hosted",
        "Those of them that the endpoint had read before, as it says; 0 where it does not.",
        "tokens",
        decimals=0,
    ),
    _spec(
        "hosted/completion_tokens",
        "Completion tokens",
        "hosted",
        "Tokens the hosted model wrote, as the endpoint counts them, unseen reasoning included.",
        "tokens",
        decimals=0,
    ),
    _positive(
        _spec(
            "hosted/cost",
            "Cost",
            "hosted",
            "Prompt and completion tokens at hosted.price_in and hosted.price_out, cached ones in full; in the unit of "
            "the prices.",
            better="down",
            decimals=4,
        )
    ),
    _spec(
        "hosted/latency",
        "Time of an answer",
        "hosted",
        "Mean seconds from a request to its answer, failed tries and waits not counted.",
        "seconds",
        "down",
        2,
    ),
)

_WATCH: tuple[MetricSpec, ...] = tuple(
    _spec(name, title, "echo trap", meaning, decimals=2)
    for sign in SIGNS
    for name, title, meaning in (
        (sign.name, sign.title, sign.meaning),
        (sign.limit, f"{sign.title}: limit", sign.rule),
    )
)

METRICS: dict[str, MetricSpec] = {spec.name: spec for spec in (*_TABLE, *_WATCH)}
"""All metrics with a fixed name. Families with a free part in the name are resolved by `spec_of`."""

_EVALUATION: dict[str, MetricSpec] = {
    spec.name: spec
    for spec in (
        _spec("success", "success", "evaluation", "Share of the fixed prompts that succeeded.", "share", "up"),
        _spec("success_low", "success, low", "evaluation", "Lower end of the 95 % Wilson interval.", "share", "up"),
        _spec("success_high", "success, high", "evaluation", "Upper end of the 95 % Wilson interval.", "share", "up"),
        _spec("reward", "reward", "evaluation", "Mean R(τ) on the fixed prompts.", better="up"),
        _spec("turns", "turns", "evaluation", "Mean turns per trajectory.", "turns", decimals=2),
        _spec("actions", "actions", "evaluation", "Mean executed actions per trajectory.", "actions", decimals=2),
        _spec("response", "response length", "evaluation", "Mean sampled tokens per turn.", "tokens", decimals=1),
    )
}
TERM_PREFIX = "reward/term/"
SUCCESS_PREFIX = "success/"
_PASS_AT = re.compile(r"pass@[1-9][0-9]*")


def spec_of(name: str) -> MetricSpec:
    """The row for a metric's name; families are eval/<suite>/<what>, eval/<suite>/pass@k, reward/term/<term> and, in
    runs of several environments, success/<environment>.

    Raises:
        KeyError: nobody has described a metric of this name.
    """
    if name in METRICS:
        return METRICS[name]
    if name.startswith(TERM_PREFIX) and (term := name.removeprefix(TERM_PREFIX)):
        meaning = f"Mean over trajectories of the sum of the reward term '{term}'."
        return MetricSpec(name, f"Reward: {term}", "reward", meaning)
    if name.startswith(SUCCESS_PREFIX) and (environment := name.removeprefix(SUCCESS_PREFIX)):
        meaning = f"Share of the iteration's trajectories in {environment} that succeeded."
        return replace(METRICS["success/rate"], name=name, title=f"{environment}: success", meaning=meaning)
    match name.split("/"):
        case ["eval", suite, what] if suite and what in _EVALUATION:
            spec = _EVALUATION[what]
            return replace(spec, name=name, title=f"{suite}: {spec.title}")
        case ["eval", suite, what] if suite and _PASS_AT.fullmatch(what):
            k = int(what.removeprefix("pass@"))
            meaning = f"Chance that at least one of {k} trajectories from a prompt succeeds (unbiased estimate)."
            return replace(_EVALUATION["success"], name=name, title=f"{suite}: pass@{k}", meaning=meaning)
    raise KeyError(f"no metric is called {name!r}: add it to the table in trainer/metrics.py")


def finite(values: Mapping[str, float | None]) -> dict[str, float]:
    """The values that are numbers, as floats. What could not be computed (None, NaN, infinite) is left out.

    Raises:
        KeyError: a name that is not in the table.
    """
    found = {}
    for name, value in values.items():
        spec_of(name)
        if value is not None and math.isfinite(value):
            found[name] = float(value)
    return found
