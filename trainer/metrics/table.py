"""Table of metrics: name, title, unit, range and meaning of each."""

from __future__ import annotations

from dataclasses import replace

from trainer.metrics.reasoning_table import REASONING
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
        "Share of groups whose rewards are all equal: comparing them gives no signal.",
        "share",
        "down",
    ),
    spec("success/rate", "Success while training", "reward", "Share of trajectories that succeeded.", "share", "up"),
    spec(
        "rollout/failed_environments",
        "Failed environments",
        "reward",
        "Trajectories whose environment hung, crashed or raised; they are excluded from all other metrics and from the "
        "update.",
        "trajectories",
        "down",
        decimals=0,
    ),
    spec("format/valid_rate", "Valid format", "reward", "Share of turns that keep the format.", "share", "up"),
    spec(
        "format/garbled_share",
        "Garbled responses",
        "reward",
        "Share of responses with control characters or parts of a letter.",
        "share",
        "down",
    ),
    spec(
        "tools/failed_share",
        "Failed tool calls",
        "reward",
        "Share of tool calls without a result: bad calls of the policy, and errors of the tool.",
        "share",
        "down",
    ),
    spec(
        "rollout/repeated_groups",
        "Repeated puzzles",
        "reward",
        "Share of initial states that were played before, in the same iteration or one of the eight before it.",
        "share",
        "down",
    ),
    spec(
        "filter/kept_share",
        "Groups kept",
        "reward",
        "Share of groups the uncertainty filter kept; with dynamic sampling, of those that differ in reward.",
        "share",
    ),
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
        "Share of policy tokens whose ratio fell below 1 − ε_low and was clipped.",
        "share",
    ),
    spec(
        "policy/clip_fraction_high",
        "Clipped above",
        "policy",
        "Share of policy tokens whose ratio rose above 1 + ε_high and was clipped.",
        "share",
    ),
    spec(
        "policy/clip_fraction_dual",
        "Dual-clipped",
        "policy",
        "Share of policy tokens with a negative advantage whose ratio rose above the dual clip.",
        "share",
    ),
    positive(
        spec(
            "policy/kl_to_rollout",
            "KL to the rollout's policy",
            "policy",
            "KL divergence of the updated policy from the one of the rollout (k3, mean per token).",
            "nats",
            decimals=5,
        )
    ),
    spec(
        "policy/kl_to_initial",
        "KL to the initial policy",
        "policy",
        "KL divergence of the policy from the initial one (mean per token).",
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
                f"gradient/cosine_{first}_{second}",
                f"Direction of {first} and {second}",
                "policy",
                "Cosine between the two gradients: 1 = same direction, −1 = opposite.",
            ),
            low=-1.0,
            high=1.0,
        )
        for first, second in (("task", "entropy"), ("task", "kl"), ("entropy", "kl"))
    ),
    positive(
        spec(
            "sft/loss",
            "Imitation loss",
            "imitation",
            "Cross-entropy of the demonstrated responses, mean per token.",
            "nats",
            "down",
        )
    ),
    positive(
        spec(
            "sft/heldout_loss",
            "Imitation loss, held out",
            "imitation",
            "The same on the validation demonstrations.",
            "nats",
            "down",
        )
    ),
    spec(
        "sft/heldout_accuracy",
        "Demonstrated tokens predicted",
        "imitation",
        "Share of the tokens of validation demonstrations that are the policy's likeliest.",
        "share",
        "up",
    ),
    positive(spec("sft/grad_norm", "Imitation gradient norm", "imitation", "Before clipping.")),
    positive(spec("sft/learning_rate", "Imitation learning rate", "imitation", "Of the optimiser.", decimals=8)),
    positive(
        spec(
            "sft/epoch",
            "Passes over the demonstrations",
            "imitation",
            "Number of times each was learned from.",
            decimals=2,
        )
    ),
    spec("update/steps", "Optimiser steps", "policy", "Steps taken in this iteration.", "steps", decimals=0),
    spec(
        "update/skipped",
        "Steps skipped",
        "policy",
        "Steps not taken because the loss or the gradient was not a finite number; 1 if the whole update was left out "
        "because no group was kept or had a signal.",
        "steps",
        "down",
        decimals=0,
    ),
    spec(
        "update/skipped_in_a_row",
        "Iterations without an update",
        "policy",
        "Iterations in a row, up to this one, whose update was left out; logged where there is one.",
        "iterations",
        "down",
        decimals=0,
    ),
    spec(
        "rollout/sampling_rounds",
        "Rounds of sampling",
        "reward",
        "Rounds of rollouts in this iteration; logged with dynamic sampling.",
        "rounds",
        "down",
        decimals=0,
    ),
    spec(
        "rollout/informative_groups",
        "Informative groups",
        "reward",
        "Groups whose rewards differ, of all rounds; logged with dynamic sampling.",
        "groups",
        "up",
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
    spec("value/clip_fraction", "Critic clipped", "critic", "Share of predictions that were clipped.", "share"),
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
        "Vocabulary variety",
        "exploration",
        "Share of distinct pairs of neighbouring tokens in the iteration's thoughts; low = one template.",
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
        "Diversity of a group's answers to the same first state: 0 = all equal, 1 = all different.",
        "share",
    ),
    spec(
        "diversity/thoughts_in_group",
        "Different first thoughts",
        "exploration",
        "Diversity of a group's thoughts on the same first state: 0 = all equal, 1 = all different.",
        "share",
    ),
    spec(
        "diversity/commonest_thought",
        "Commonest first thought",
        "exploration",
        "Share of all attempts that begin with the same thought, numbers aside: 1 = an echo.",
        "share",
        "down",
    ),
    *REASONING,
    spec(
        "claims/true_share",
        "True claims in thoughts",
        "exploration",
        "Share of true ones among the statements about the state that could be compared with it (docs/claims.md).",
        "share",
        "up",
    ),
    positive(
        spec(
            "claims/per_turn",
            "Claims in a thought",
            "exploration",
            "Statements about the state that could be compared with it, true or false, per turn.",
            decimals=2,
        )
    ),
    spec("length/response", "Response length", "length", "Mean sampled tokens per turn.", "tokens", decimals=1),
    spec("length/think", "Thought length", "length", "Mean tokens of a thought.", "tokens", decimals=1),
    spec(
        "length/truncated_share",
        "Responses cut off",
        "length",
        "Share of responses that reached rollout.max_response_tokens.",
        "share",
        "down",
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
    positive(
        spec(
            "mismatch/mean",
            "Mean difference",
            "mismatch",
            "Mean absolute difference of the trainer's and the sampler's log-probabilities; engines in bfloat16 differ "
            "by a few hundredths.",
            "nats",
            "down",
            decimals=4,
        )
    ),
    positive(
        spec(
            "mismatch/p99",
            "Difference, 99th percentile",
            "mismatch",
            "99th percentile of the absolute difference over the sampled tokens.",
            "nats",
            "down",
            decimals=4,
        )
    ),
    spec(
        "mismatch/retokenised",
        "Tokens that encode differently",
        "mismatch",
        "Share of the sampled tokens at whose place the response's text has another token when it is encoded again. A "
        "trainer that builds its batch from text would train on tokens that were not sampled; this one never does.",
        "share",
        decimals=4,
    ),
    spec(
        "mismatch/wrong_tokens",
        "Attempts with wrong tokens",
        "mismatch",
        "Share of the attempts whose loss contains a token that was not sampled, or whose prompt begins with the same "
        "token twice; from the tokens that other trainers send.",
        "share",
        "down",
    ),
    spec(
        "mismatch/loss_share",
        "Tokens in the loss",
        "mismatch",
        "Share of the tokens of the update's batch that the loss contains: the sampled ones, and no other.",
        "share",
    ),
    replace(
        spec(
            "mismatch/chi2",
            "χ² trainer against sampler",
            "mismatch",
            "Mean squared ratio minus 1: sensitive to single tokens with a large mismatch.",
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
        "Share of the sampled tokens that, without a mismatch, would give the same statistical precision.",
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
    spec("time/rollout", "Rollout", "throughput", "Seconds of rollout in this iteration.", "seconds", "down", 1),
    spec("time/update", "Update", "throughput", "Seconds of the update in this iteration.", "seconds", "down", 1),
    spec("time/warmup", "Warm-up", "throughput", "Seconds of a step on demonstrations.", "seconds", "down", 1),
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
        "Retries",
        "hosted",
        "Failed attempts of answered requests: the endpoint was busy, slow or unreachable.",
        "requests",
        "down",
        decimals=0,
    ),
    spec(
        "hosted/prompt_tokens",
        "Prompt tokens",
        "hosted",
        "Prompt tokens as counted by the endpoint.",
        "tokens",
        decimals=0,
    ),
    spec(
        "hosted/cached_tokens",
        "Cached prompt tokens",
        "hosted",
        "Prompt tokens that the endpoint reports as cached; 0 if it reports none.",
        "tokens",
        decimals=0,
    ),
    spec(
        "hosted/completion_tokens",
        "Completion tokens",
        "hosted",
        "Completion tokens as counted by the endpoint, hidden reasoning included.",
        "tokens",
        decimals=0,
    ),
    positive(
        spec(
            "hosted/cost",
            "Cost",
            "hosted",
            "Cost of prompt and completion tokens at hosted.price_per_million, cached ones at the full price; in the "
            "unit of the prices.",
            better="down",
            decimals=4,
        )
    ),
    spec(
        "hosted/latency",
        "Latency",
        "hosted",
        "Mean seconds from a request to its answer, without failed attempts and waits.",
        "seconds",
        "down",
        2,
    ),
)

WATCH: tuple[MetricSpec, ...] = tuple(
    spec(name, title, "echo trap", meaning, decimals=2)
    for signal in SIGNALS
    for name, title, meaning in (
        (signal.name, signal.title, signal.meaning),
        (signal.limit, f"{signal.title}: limit", signal.rule),
    )
)

EVALUATION: tuple[MetricSpec, ...] = (
    spec("success", "success", "evaluation", "Share of the fixed puzzles that were solved.", "share", "up"),
    spec("success_low", "success, low", "evaluation", "Lower end of the 95% Wilson interval.", "share", "up"),
    spec("success_high", "success, high", "evaluation", "Upper end of the 95% Wilson interval.", "share", "up"),
    spec(
        "success_best_play",
        "success of the best play",
        "evaluation",
        "Chance that the environment's solver solves a fixed puzzle within the same number of actions.",
        "share",
    ),
    spec(
        "success_random_play",
        "success of random play",
        "evaluation",
        "Chance that random actions solve a fixed puzzle within the same number of actions.",
        "share",
    ),
    spec("reward", "reward", "evaluation", "Mean R(τ) on the fixed puzzles.", better="up"),
    spec("turns", "turns", "evaluation", "Mean turns per trajectory.", "turns", decimals=2),
    spec("actions", "actions", "evaluation", "Mean executed actions per trajectory.", "actions", decimals=2),
    spec("valid_format", "valid format", "evaluation", "Share of turns that keep the format.", "share", "up"),
    spec("response", "response length", "evaluation", "Mean sampled tokens per turn.", "tokens", decimals=1),
)
"""Metrics of each suite, by the last part of eval/<suite>/<what>."""
