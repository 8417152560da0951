"""Groups of sampled completions, as trainers pass them: parallel lists of prompts, completions and rewards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

from echoscope.recording.conversation import Conversation, read_conversation
from echoscope.recording.message_images import without_embedded
from echoscope.recording.recorder import Recorder
from echoscope.recording.reward_metrics import mean, reward_metrics
from echoscope.recording.splits import Split
from echoscope.recording.task_seed import task_seed
from echoscope.recording.trajectory import Trajectory


@dataclass(frozen=True)
class Sample:
    """One completion of a prompt, each a text or a list of messages, with the parts of its reward.

    Attributes:
        terms: empty if the completion has no reward.
        success: None if unknown; success rates leave it out.
        group: the same for completions of the same prompt; empty: grouped by the text of the prompt.
    """

    prompt: Any
    completion: Any
    terms: Mapping[str, float]
    success: bool | None
    group: str = ""
    tokens: int = 0
    truncated: bool = False
    error: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reward(self) -> float | None:
        """Sum of the terms; None if there are none or it is not finite."""
        total = float(sum(self.terms.values())) if self.terms else math.nan
        return total if math.isfinite(total) else None

    @property
    def prompt_id(self) -> str:
        """Key that is the same for completions of the same prompt."""
        return self.group or self.conversation.opening

    @cached_property
    def conversation(self) -> Conversation:
        """Return the conversation. Raises ConversationError."""
        return read_conversation([*_messages(self.prompt, "user"), *_messages(self.completion, "assistant")])


def record_samples(
    run: Recorder,
    samples: Sequence[Sample],
    *,
    iteration: int,
    environment: str = "",
    split: Split = "train",
    suite: str = "",
) -> list[Trajectory]:
    """Record the samples of an iteration as groups of the same prompt. Returns an attempt for each sample, in order.

    Raises:
        ConversationError: a prompt or completion is neither a text nor a list of messages.
    """
    groups: dict[str, list[tuple[int, Sample, Conversation]]] = {}
    for at, sample in enumerate(samples):
        conversation = sample.conversation
        groups.setdefault(sample.group or conversation.opening, []).append((at, sample, conversation))
    recorded: dict[int, Trajectory] = {}
    for members in groups.values():
        trajectories = run.group(
            len(members),
            prompt=members[0][2].prompt,
            iteration=iteration,
            environment=environment,
            split=split,
            suite=suite,
            seed=task_seed(environment, members[0][2].opening),
        )
        for (at, sample, conversation), trajectory in zip(members, trajectories, strict=True):
            recorded[at] = trajectory
            reward = sample.reward
            for number, turn in enumerate(conversation.turns):
                last = number == len(conversation.turns) - 1
                trajectory.turn(
                    state=turn.state,
                    images=turn.images,
                    response=turn.response,
                    thought=turn.thought,
                    answer=turn.answer,
                    actions=turn.actions,
                    reward=reward if last else None,
                    terms=sample.terms if last and sample.terms else None,
                    tokens=sample.tokens if last else 0,
                    truncated=sample.truncated and last,
                    **turn.extra,
                )
            cut = sample.truncated or bool(sample.error) or not conversation.turns
            trajectory.finish(
                success=sample.success,
                end="truncated" if cut else "terminated",
                total_reward=reward,
                error=sample.error or None,
                **({"record": without_embedded(sample.extra)} if sample.extra else {}),
            )
    return [recorded[at] for at in range(len(samples))]


def sample_metrics(samples: Sequence[Sample]) -> dict[str, float]:
    """Return reward/mean, reward/in_group_std and success/rate of an iteration's samples, except unknown values."""
    rewards = [(sample.prompt_id, sample.reward) for sample in samples]
    metrics = reward_metrics((prompt, reward) for prompt, reward in rewards if reward is not None)
    known = [sample.success for sample in samples if sample.success is not None]
    return metrics | ({"success/rate": fmean(known)} if known else {})


def record_evaluation(run: Recorder, samples: Sequence[Sample], *, iteration: int, suite: str) -> None:
    """Record the result of an evaluation over the samples with known success; nothing if there are none."""
    known = [sample for sample in samples if sample.success is not None]
    rewards = [sample.reward for sample in known if sample.reward is not None]
    if known:
        run.evaluation(
            suite,
            iteration=iteration,
            prompts=len({sample.prompt_id for sample in known}),
            trajectories=len(known),
            successes=sum(sample.success is True for sample in known),
            mean_reward=mean(rewards),
            mean_turns=fmean(len(sample.conversation.turns) for sample in known),
        )


def _messages(value: Any, role: str) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return list(value) if isinstance(value, list | tuple) else [value]
