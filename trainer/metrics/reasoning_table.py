"""Table of the metrics of thoughts and their prompts, in first turns (`reasoning/`) and any (`reasoning_turns/`)."""

from __future__ import annotations

from collections.abc import Iterator

from trainer.metrics.spec import MetricSpec, positive, spec

FAMILIES = FIRST_TURN, ANY_TURN = "reasoning", "reasoning_turns"
RETRIEVED = (2, 4, 8)
"""k of retrieval_accuracy@k, as in RAGEN-2; k = 1 is retrieval_accuracy."""


def _rows(family: str, suffix: str, sample: str) -> Iterator[MetricSpec]:
    yield spec(
        f"{family}/mutual_information",
        f"Thoughts depend on the state{suffix}",
        "exploration",
        "Mutual information of state and thought, at most log N of the N prompts compared; low = template collapse."
        + sample,
        "nats",
        "up",
    )
    yield positive(
        spec(
            f"{family}/conditional_entropy",
            f"Uncertainty of a thought{suffix}",
            "exploration",
            "Mean negative log-probability of a whole thought given its state." + sample,
            "nats",
            decimals=1,
        )
    )
    yield spec(
        f"{family}/retrieval_accuracy",
        f"State recognised from its thought{suffix}",
        "exploration",
        "Share of thoughts that are likelier after their own state than after any other; chance is 1/N." + sample,
        "share",
        "up",
    )
    for k in RETRIEVED:
        yield spec(
            f"{family}/retrieval_accuracy@{k}",
            f"State among the likeliest {k}{suffix}",
            "exploration",
            f"Share of thoughts whose own state is among the {k} after which they are likeliest; chance is {k}/N."
            + sample,
            "share",
            "up",
        )
    for name, title, meaning in _Z_SCORES:
        yield spec(f"{family}/{name}", f"{title}{suffix}", "exploration", meaning + sample, better="up")


_Z_SCORES = (
    (
        "mi_zscore",
        "Dependence on the state, per token, standardised",
        "Mutual information per token over the standard deviation of log p(thought) in the mixture of prompts + 0.001.",
    ),
    (
        "mi_zscore_ema",
        "The same over a moving average",
        "mi_zscore with a moving average (decay 0.9) of the standard deviation.",
    ),
    (
        "mi_zscore_seq",
        "Dependence on the state, whole thoughts, standardised",
        "Mutual information of whole thoughts over the standard deviation of their log p in the mixture + 0.001.",
    ),
    (
        "mi_zscore_ema_seq",
        "The same of whole thoughts over a moving average",
        "mi_zscore_seq with a moving average (decay 0.9) of the standard deviation.",
    ),
)

REASONING: tuple[MetricSpec, ...] = (
    *_rows(FIRST_TURN, "", ""),
    *_rows(ANY_TURN, ", any turn", " Of 8 thoughts of any turn, in the first and every fifth iteration."),
)
