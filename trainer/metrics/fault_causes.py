"""Causes for which a run is sick: names, remedies, and what follows from what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class FaultCause:
    """A cause.

    Attributes:
        title: e.g. for a heading.
        help: what to look at and to change, in a sentence or two.
        rule: what an iteration must show, for the documentation; “usual” is the median of at most twelve before it.
        metric: a metric whose curve shows it.
        explains: causes that may be its consequences.
        use: a training use whose attempts show it; empty: none.
        sort: order of the attempts in which the first ones show it best; empty: none.
    """

    title: str
    help: str
    rule: str
    metric: str
    explains: tuple[str, ...] = ()
    use: str = ""
    sort: str = ""


CAUSES: dict[str, FaultCause] = {
    "clock_jump": FaultCause(
        "The clock jumped",
        "Times of the journal and of leases are wrong around it. Let the machine synchronise its clock gradually.",
        "set by a minute or more between two iterations",
        "system/clock_jump_seconds",
    ),
    "low_disk": FaultCause(
        "The disk is nearly full",
        "A checkpoint may not fit. Free space, or lower checkpoint.keep.",
        "less than 1 GiB free",
        "system/disk_free_bytes",
    ),
    "low_memory": FaultCause(
        "Memory is nearly used up",
        "The system may end the run. Lower optimizer.micro_batch_tokens, rollout.groups or evaluation.prompts, or end "
        "other programs.",
        "less than 256 MiB available",
        "system/memory_available_bytes",
        ("slow_rollout",),
    ),
    "repeated_puzzles": FaultCause(
        "Puzzles repeat",
        "The same initial states were played a few iterations ago: look at how seeds or rows of the data are drawn.",
        "half of the initial states were played in the same iteration or the eight before it",
        "rollout/repeated_groups",
        ("no_signal",),
    ),
    "environment_timeouts": FaultCause(
        "Environments time out",
        "They look like a slow or a bad policy. Open such an attempt for the call that hung, and mend the environment "
        "or raise its time limit.",
        "3% of the attempts",
        "attempts/timeout",
        ("slow_rollout", "no_signal", "environment_errors"),
        use="timeout",
    ),
    "environment_errors": FaultCause(
        "Environments fail",
        "Their attempts are excluded from training. Open one for the error.",
        "5% of the attempts, and at least two",
        "attempts/environment_error",
        ("no_signal",),
        use="environment_error",
    ),
    "tool_failures": FaultCause(
        "Tools fail",
        "Calls that worked before return errors: look at the service behind the tool.",
        "half of the calls, and 25 points more than usual",
        "tools/failed_share",
        ("no_signal",),
    ),
    "slow_actor": FaultCause(
        "A rollout actor is slower than its siblings",
        "All others wait for it. Look at the load and the GPU of its node.",
        "below 0.4 times the median, twice in a row",
        "cluster/slowest_actor",
        ("slow_rollout",),
    ),
    "slow_rollout": FaultCause(
        "Sampling has become slow",
        "Look at what else runs on the machine, at the length of responses, and at the environment's time per step.",
        "tokens per second below a quarter of the usual, twice in a row",
        "throughput/tokens_per_second",
    ),
    "wrong_tokens": FaultCause(
        "The loss or the prompts have wrong tokens",
        "The loss contains tokens that the policy did not sample, or a prompt begins with the same token twice. The "
        "token page of an attempt shows which: look at the loss mask and the chat template.",
        "in one of twenty attempts, where another trainer sends its tokens",
        "mismatch/wrong_tokens",
        ("mismatch", "no_gradient", "garbled_text"),
    ),
    "stale_weights": FaultCause(
        "The sampler plays with old weights",
        "New weights did not reach it, so that the policy does not play what it learnt. Look at the log of the engine.",
        "older than rollout.max_staleness allows",
        "rollout/staleness_max",
        ("mismatch", "clipped", "no_signal"),
    ),
    "mismatch": FaultCause(
        "Sampler and trainer disagree about probabilities",
        "The sampler plays another policy than the one that is trained: other weights, precision, temperature or "
        "tokens. The token page of an attempt compares both and checks what was read. Set algorithm.tis_cap meanwhile.",
        "k3 of 0.1 nats a token; or of 0.01 and ten times the usual; with rollouts ahead, 0.5",
        "mismatch/k3",
        ("clipped", "garbled_text", "broken_gradient"),
        sort="-mismatch",
    ),
    "no_learning_rate": FaultCause(
        "The learning rate is zero",
        "Nothing is learnt any more: check optimizer.policy_lr and the schedule.",
        "twice in a row",
        "policy/learning_rate",
    ),
    "broken_gradient": FaultCause(
        "Gradients are not finite",
        "Steps are left out. Look for infinite rewards or log-probabilities; a lower optimizer.policy_lr or another "
        "policy.dtype may help.",
        "a step that was left out, or a loss that is not finite",
        "update/skipped",
        ("garbled_text", "no_signal"),
    ),
    "no_gradient": FaultCause(
        "The gradient is zero",
        "The update had attempts to learn from and changed nothing: look at masks, at frozen weights and adapters.",
        "twice in a row, although attempts were trained on",
        "policy/grad_norm",
    ),
    "clipped": FaultCause(
        "Whole attempts are clipped",
        "The policy that is trained is far from the one that played: fewer algorithm.updates_per_rollout or a lower "
        "optimizer.policy_lr.",
        "half of the attempts with an advantage, and at least two",
        "attempts/clipped",
        use="clipped",
    ),
    "garbled_text": FaultCause(
        "Responses are garbled",
        "They contain characters that no text has: look at the tokenizer, and whether the weights are damaged.",
        "10% of the responses and 10 points more than usual, or half of them three times in a row",
        "format/garbled_share",
        ("no_valid_answer", "truncation", "no_signal"),
    ),
    "repeated_text": FaultCause(
        "Thoughts repeat themselves",
        "The policy writes loops: lower optimizer.policy_lr, or continue from an earlier checkpoint.",
        "half of a thought's pieces, and 25 points more than usual",
        "diversity/think_repetition",
        ("truncation", "no_valid_answer", "no_signal"),
    ),
    "truncation": FaultCause(
        "Responses are cut off",
        "They reach rollout.max_response_tokens before the answer: raise it, or end responses at the answer with "
        "another rollout.format_line than placeholders.",
        "30% of the responses and 25 points more than usual, or 90% three times in a row",
        "length/truncated_share",
        ("no_valid_answer", "no_signal"),
    ),
    "no_valid_answer": FaultCause(
        "No answer can be read",
        "The form of the answer is unknown to the policy, or the template changes it: read a response, and begin with "
        "demonstrations (sft.warmup_steps).",
        "at most 2% of the turns have a valid format, three times in a row",
        "format/valid_rate",
        ("no_signal",),
    ),
    "no_signal": FaultCause(
        "Groups have no spread",
        "Attempts of the same puzzle get the same reward, so that the time spent on them teaches nothing: easier or "
        "harder puzzles, a higher temperature, or larger groups.",
        "90% of the groups three times in a row, unless 90% of the attempts succeed",
        "reward/zero_std_share",
        use="equal_rewards",
    ),
}
"""In the order of causes before their consequences, which is the order of faults that begin in the same iteration."""


class HasCause(Protocol):
    """A fault: its cause, and the iteration in which it began."""

    cause: str
    since: int


def consequences(present: Iterable[HasCause]) -> Mapping[str, str]:
    """Map each present cause that another one explains to that one: the earliest that began no later."""
    faults = {fault.cause: fault.since for fault in present if fault.cause in CAUSES}
    ordered = sorted(faults, key=lambda cause: (faults[cause], list(CAUSES).index(cause)))
    explained: dict[str, str] = {}
    for number, cause in enumerate(ordered):
        for other in ordered[number + 1 :]:
            if other in CAUSES[cause].explains:
                explained.setdefault(other, explained.get(cause, cause))
    return explained
