"""The table of metrics: every name with its title, unit, range and meaning. Nothing but rows; metrics.py reads them.

How a metric is computed stands in `diagnostics` and beside the losses.
"""

from __future__ import annotations

from dataclasses import replace

from trainer.metrics.spec import MetricSpec, positive, spec
from trainer.metrics.trap_signals import SIGNALS

ITERATION: tuple[MetricSpec, ...] = (
    spec("reward/mean", "Mean reward", "reward", "Mean of R(τ) over the iteration's trajectories.", better="up"),
    positive(spec("reward/std", "Reward spread", "reward", "Standard deviation of R(τ) over the iteration.")),
    positive(
        spec(
            "reward/in_group_std",
            "Reward spread within groups",
            "reward",
            "Standard deviation of R(τ) among trajectories from the same state, averaged over groups. "
            "It falls first when a run collapses.",
            better="up",
        )
    ),
    spec(
        "reward/zero_std_share",
        "Groups without a signal",
        "reward",
        "Share of groups whose rewards are all equal: nothing can be learned from comparing them.",
        "share",
        "down",
    ),
    spec("success/rate", "Success while training", "reward", "Share of trajectories that succeeded.", "share", "up"),
    spec(
        "rollout/failed_environments",
        "Broken off by the environment",
        "reward",
        "Trajectories whose environment hung, crashed or raised: nothing else here counts them, and nothing is learned "
        "from them.",
        "trajectories",
        "down",
        decimals=0,
    ),
    spec("format/valid_rate", "Valid format", "reward", "Share of turns that keep the format.", "share", "up"),
    spec("filter/kept_share", "Groups kept", "reward", "Share of groups the uncertainty filter kept.", "share"),
    positive(
        spec("filter/kept_std", "Reward spread of kept groups", "reward", "Mean in-group std of the groups kept.")
    ),
    spec("policy/loss", "Policy loss", "policy", "The clipped objective, negated; not comparable across runs."),
    positive(
        spec("policy/grad_norm", "Policy gradient norm", "policy", "Before clipping, mean over the optimiser's steps.")
    ),
    spec(
        "policy/clip_fraction_low",
        "Clipped below",
        "policy",
        "Share of policy tokens whose ratio fell below 1 − ε_low and was cut off.",
        "share",
    ),
    spec(
        "policy/clip_fraction_high",
        "Clipped above",
        "policy",
        "Share of policy tokens whose ratio rose above 1 + ε_high and was cut off.",
        "share",
    ),
    spec(
        "policy/clip_fraction_dual",
        "Cut by the dual clip",
        "policy",
        "Share of policy tokens with a negative advantage whose ratio rose above the dual clip.",
        "share",
    ),
    positive(
        spec(
            "policy/kl_to_rollout",
            "KL to the rollout's policy",
            "policy",
            "How far the updates moved the policy from the one that played (k3, mean per token).",
            "nats",
            decimals=5,
        )
    ),
    spec(
        "policy/kl_to_initial",
        "KL to the initial policy",
        "policy",
        "How far training has moved the policy from where it began (mean per token).",
        "nats",
        decimals=4,
    ),
    positive(spec("policy/learning_rate", "Learning rate", "policy", "Of the policy's optimiser.", decimals=8)),
    positive(
        spec(
            "gradient/task",
            "Gradient of the task",
            "policy",
            "Norm of the clipped objective's gradient on the iteration's first update batch.",
        )
    ),
    positive(
        spec("gradient/entropy", "Gradient of the entropy bonus", "policy", "Norm on the same batch, weight included.")
    ),
    positive(spec("gradient/kl", "Gradient of the KL loss", "policy", "Norm on the same batch, weight included.")),
    *(
        replace(
            spec(
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
    positive(
        spec(
            "sft/loss",
            "Imitation loss",
            "policy",
            "Cross-entropy of the demonstrated responses, mean per token.",
            "nats",
            "down",
        )
    ),
    positive(
        spec(
            "sft/heldout_loss",
            "Imitation loss, held out",
            "policy",
            "The same on demonstrations that nothing is learned from.",
            "nats",
            "down",
        )
    ),
    spec(
        "sft/heldout_accuracy",
        "Demonstrated tokens guessed",
        "policy",
        "Share of the tokens of held-out demonstrations that the policy finds likeliest.",
        "share",
        "up",
    ),
    positive(spec("sft/grad_norm", "Imitation gradient norm", "policy", "Before clipping.")),
    positive(spec("sft/learning_rate", "Imitation learning rate", "policy", "Of the optimiser.", decimals=8)),
    positive(
        spec("sft/epoch", "Passes over the demonstrations", "policy", "How often each was learned from.", decimals=2)
    ),
    spec("update/steps", "Optimiser steps", "policy", "Steps taken in this iteration.", "steps", decimals=0),
    spec(
        "update/skipped",
        "Steps skipped",
        "policy",
        "Steps not taken because the loss or the gradient was not a finite number, or no group had a signal.",
        "steps",
        "down",
        decimals=0,
    ),
    positive(spec("value/loss", "Critic loss", "critic", "Half the squared error of the critic.", better="down")),
    replace(
        spec(
            "value/explained_variance",
            "Explained variance",
            "critic",
            "1 = the critic predicts the returns, 0 = no better than their mean, below 0 = worse.",
            better="up",
        ),
        high=1.0,
    ),
    spec("value/clip_fraction", "Critic clipped", "critic", "Share of predictions held back by the clip.", "share"),
    positive(
        spec("value/grad_norm", "Critic gradient norm", "critic", "Before clipping, mean over the optimiser's steps.")
    ),
    positive(
        spec(
            "entropy/mean",
            "Entropy",
            "exploration",
            "Mean entropy of the policy on its sampled tokens; through vLLM an estimate, their mean −log p. A steady "
            "decay is normal, a sudden change is not.",
            "nats",
        )
    ),
    spec(
        "diversity/think_distinct_2",
        "Distinct pairs in thoughts",
        "exploration",
        "Distinct among all pairs of neighbouring tokens in the iteration's thoughts; low = one template.",
        "share",
        "up",
    ),
    spec(
        "diversity/think_repetition",
        "Repetition in a thought",
        "exploration",
        "1 − unique / total 4-grams inside a thought, averaged over thoughts.",
        "share",
        "down",
    ),
    spec(
        "diversity/actions_in_group",
        "Different first answers",
        "exploration",
        "How differently a group answers the same first state: 0 = all alike, 1 = all different.",
        "share",
    ),
    spec(
        "reasoning/mutual_information",
        "Thoughts depend on the state",
        "exploration",
        "Mutual information of state and thought, at most log N of the N prompts compared; low = template collapse.",
        "nats",
        "up",
    ),
    positive(
        spec(
            "reasoning/conditional_entropy",
            "Uncertainty of a thought",
            "exploration",
            "Mean negative log-probability of a whole thought given its state.",
            "nats",
            decimals=1,
        )
    ),
    spec(
        "reasoning/retrieval_accuracy",
        "State recognised from its thought",
        "exploration",
        "Share of thoughts that are likelier after their own state than after any other; chance is 1/N.",
        "share",
        "up",
    ),
    spec("length/response", "Response length", "length", "Mean sampled tokens per turn.", "tokens", decimals=1),
    spec("length/think", "Thought length", "length", "Mean tokens of a thought.", "tokens", decimals=1),
    spec(
        "length/truncated_share", "Responses cut off", "length", "Share that hit the longest response.", "share", "down"
    ),
    spec("turns/mean", "Turns", "length", "Mean turns per trajectory.", "turns", decimals=2),
    spec("actions/mean", "Actions", "length", "Mean executed actions per trajectory.", "actions", decimals=2),
    spec(
        "actions/effective_rate",
        "Effective actions",
        "length",
        "Share of executed actions that changed the state.",
        "share",
        "up",
    ),
    positive(
        spec(
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
        spec(
            "mismatch/chi2",
            "χ² trainer against sampler",
            "mismatch",
            "Mean squared ratio minus 1: sensitive to single tokens the two disagree about.",
            better="down",
            decimals=6,
        ),
        low=-1.0,
    ),
    spec(
        "mismatch/clipped_fraction",
        "Importance weights clipped",
        "mismatch",
        "Share of tokens whose importance weight, trainer over sampler, reached algorithm.tis_cap.",
        "share",
        "down",
    ),
    spec(
        "mismatch/ess",
        "Effective sample size",
        "mismatch",
        "Share of the sampled tokens that would carry the same weight of evidence without a mismatch.",
        "share",
        "up",
        decimals=4,
    ),
    spec(
        "throughput/tokens_per_second",
        "Sampling speed",
        "throughput",
        "Sampled tokens per second of rollout.",
        "tokens/s",
        "up",
        decimals=0,
    ),
    spec("time/rollout", "Rollout", "throughput", "Seconds of playing in this iteration.", "seconds", "down", 1),
    spec("time/update", "Update", "throughput", "Seconds of learning in this iteration.", "seconds", "down", 1),
    spec("time/evaluate", "Evaluation", "throughput", "Seconds of the last evaluation.", "seconds", "down", 1),
    spec(
        "time/checkpoint",
        "Checkpoint",
        "throughput",
        "Seconds of writing checkpoints since the previous iteration's metrics; part of time/other.",
        "seconds",
        "down",
        1,
    ),
    spec(
        "time/other",
        "Other",
        "throughput",
        "Seconds since the previous iteration's metrics that were neither rollout nor update nor evaluation.",
        "seconds",
        "down",
        2,
    ),
    spec(
        "hosted/requests",
        "Requests answered",
        "hosted",
        "Answers of the hosted model in the run so far, all attempts.",
        "requests",
        decimals=0,
    ),
    spec(
        "hosted/retries",
        "Requests made again",
        "hosted",
        "Tries that failed before an answer came: the endpoint was busy, slow or away.",
        "requests",
        "down",
        decimals=0,
    ),
    spec(
        "hosted/prompt_tokens",
        "Prompt tokens",
        "hosted",
        "Tokens the hosted model read, as the endpoint counts them.",
        "tokens",
        decimals=0,
    ),
    spec(
        "hosted/cached_tokens",
        "Prompt tokens from a cache",
        "hosted",
        "Those of them that the endpoint had read before, as it says; 0 where it does not.",
        "tokens",
        decimals=0,
    ),
    spec(
        "hosted/completion_tokens",
        "Completion tokens",
        "hosted",
        "Tokens the hosted model wrote, as the endpoint counts them, unseen reasoning included.",
        "tokens",
        decimals=0,
    ),
    positive(
        spec(
            "hosted/cost",
            "Cost",
            "hosted",
            "Cost of prompt and completion tokens at hosted.prompt_price_per_million and "
            "hosted.completion_price_per_million, cached ones at the full price; in the unit of the prices.",
            better="down",
            decimals=4,
        )
    ),
    spec(
        "hosted/latency",
        "Time of an answer",
        "hosted",
        "Mean seconds from a request to its answer, failed tries and waits not counted.",
        "seconds",
        "down",
        2,
    ),
)

WATCH: tuple[MetricSpec, ...] = tuple(
    spec(name, title, "echo trap", meaning, decimals=2)
    for sign in SIGNALS
    for name, title, meaning in (
        (sign.name, sign.title, sign.meaning),
        (sign.limit, f"{sign.title}: limit", sign.rule),
    )
)

EVALUATION: tuple[MetricSpec, ...] = (
    spec("success", "success", "evaluation", "Share of the fixed prompts that succeeded.", "share", "up"),
    spec("success_low", "success, low", "evaluation", "Lower end of the 95 % Wilson interval.", "share", "up"),
    spec("success_high", "success, high", "evaluation", "Upper end of the 95 % Wilson interval.", "share", "up"),
    spec("reward", "reward", "evaluation", "Mean R(τ) on the fixed prompts.", better="up"),
    spec("turns", "turns", "evaluation", "Mean turns per trajectory.", "turns", decimals=2),
    spec("actions", "actions", "evaluation", "Mean executed actions per trajectory.", "actions", decimals=2),
    spec("response", "response length", "evaluation", "Mean sampled tokens per turn.", "tokens", decimals=1),
)
"""Of each suite, by the last part of eval/<suite>/<what>."""
