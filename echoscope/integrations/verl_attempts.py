"""Records attempts of a step of verl: what the policy read and wrote, its tokens, and what the update learnt from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Any

from echoscope.integrations.sampled_groups import Sample, record_samples
from echoscope.integrations.token_pieces import TokenPieces
from echoscope.integrations.verl_rows import Outcome, SampledSequence
from echoscope.recording.content_blocks import ConversationError
from echoscope.recording.conversation import POLICY_ROLES, read_conversation
from echoscope.recording.json_values import as_json, as_text
from echoscope.recording.recorder import Recorder
from echoscope.recording.trajectory import Trajectory

TRAINED = ""
_ROUNDING = 0.01
"""Advantages up to this may be rounding errors of equal rewards, divided by a standard deviation of about 0."""
_NOT_KEPT = {"raw_prompt", "data_source", "uid", "reward_model", "extra_info"}
"""Facts that are recorded elsewhere, or taken apart."""
_KEPT_TYPES = (str, int, float, bool)


@dataclass(frozen=True)
class PlayedAttempt:
    """One attempt of a step.

    Attributes:
        parts: its contexts in order; most have one.
        facts: what the data set and the reward function say about it.
        left_out: why the update never read it, a reason of Recorder.used; empty: it did.
    """

    outcome: Outcome
    parts: Sequence[SampledSequence]
    facts: Mapping[str, Any] = field(default_factory=dict)
    left_out: str = ""


@dataclass(frozen=True)
class StepFacts:
    """What is the same for all attempts of a step.

    Attributes:
        longest: maximum number of tokens of a response; 0 if unknown.
        updates: False if there is no update of the policy, as while only the critic is trained.
    """

    iteration: int
    longest: int = 0
    updates: bool = True


def record_step(run: Recorder, attempts: Sequence[PlayedAttempt], step: StepFacts, pieces: TokenPieces) -> None:
    """Record the attempts as groups of the same prompt, their tokens, and what the update learnt from."""
    recorded: list[Trajectory] = []
    played: list[PlayedAttempt] = []
    for environment, members in groupby(sorted(attempts, key=_environment), key=_environment):
        block = list(members)
        samples = [_sample(attempt, step, pieces) for attempt in block]
        recorded += record_samples(run, samples, iteration=step.iteration, environment=environment)
        played += block
    for trajectory, attempt in zip(recorded, played, strict=True):
        send_tokens(trajectory, attempt.parts, pieces)
    uses: dict[str, list[Trajectory]] = {}
    for trajectory, use in zip(recorded, training_uses(played, updates=step.updates), strict=True):
        uses.setdefault(use, []).append(trajectory)
    run.used(uses.pop(TRAINED, []), iteration=step.iteration, **uses)


def training_uses(attempts: Sequence[PlayedAttempt], *, updates: bool = True) -> list[str]:
    """Return for each attempt why the update learnt nothing from it, a reason of Recorder.used, or TRAINED.

    Whether all tokens were clipped is not known: that is decided in the processes of the actor.
    """
    rewards: dict[str, set[float | None]] = {}
    sizes: dict[str, int] = {}
    for attempt in attempts:
        rewards.setdefault(attempt.outcome.group, set()).add(attempt.outcome.reward)
        sizes[attempt.outcome.group] = sizes.get(attempt.outcome.group, 0) + 1
    equal = {group for group, found in rewards.items() if len(found) == 1 and sizes[group] > 1}
    return [_use(attempt, attempt.outcome.group in equal, updates) for attempt in attempts]


def _use(attempt: PlayedAttempt, equal: bool, updates: bool) -> str:
    if attempt.left_out:
        return attempt.left_out
    advantages = _advantages(attempt.parts)
    if equal and advantages is not None and all(abs(value) <= _ROUNDING for value in advantages):
        return "equal_rewards"
    if not any(any(part.sampled) for part in attempt.parts):
        return "empty"
    if advantages is not None and not any(advantages):
        return "zero_advantage"
    if not updates:
        return "critic_warmup"
    return TRAINED if any(any(part.in_loss) for part in attempt.parts) else "other"


def _advantages(parts: Sequence[SampledSequence]) -> list[float] | None:
    """Return the advantages of sampled tokens; None if they are not known."""
    if any(part.advantages is None for part in parts):
        return None
    return [
        value for part in parts for value, sampled in zip(part.advantages or [], part.sampled, strict=True) if sampled
    ]


def send_tokens(trajectory: Trajectory, parts: Sequence[SampledSequence], pieces: TokenPieces) -> None:
    """Record the tokens of an attempt; nothing if none was sampled."""
    if not any(any(part.sampled) for part in parts):
        return
    ids = [token for part in parts for token in (*part.prompt, *part.response)]
    lengths = [len(part.prompt) + len(part.response) for part in parts]

    def whole(values: Callable[[SampledSequence], Sequence[Any] | None]) -> list[Any] | None:
        columns = [(len(part.prompt), values(part)) for part in parts]
        if any(column is None for _, column in columns):
            return None
        return [value for before, column in columns for value in (*[0] * before, *(column or ()))]

    trajectory.tokens(
        ids,
        sampled=whole(lambda part: part.sampled) or [],
        texts=pieces.texts(ids),
        in_loss=whole(lambda part: part.in_loss),
        logprobs=whole(lambda part: part.logprobs),
        trainer_logprobs=whole(lambda part: part.trainer_logprobs),
        advantages=whole(lambda part: part.advantages),
        entropies=whole(lambda part: part.entropies),
        restarts=[0, *accumulate(lengths[:-1])],
    )


def _environment(attempt: PlayedAttempt) -> str:
    return as_text(attempt.facts.get("data_source") or "")


def _sample(attempt: PlayedAttempt, step: StepFacts, pieces: TokenPieces) -> Sample:
    outcome, last = attempt.outcome, attempt.parts[-1]
    score, reward = outcome.score, outcome.reward
    terms: dict[str, float] = {} if score is None else {"score": score}
    if score is not None and reward is not None and reward != score:
        terms["divergence"] = reward - score
    return Sample(
        prompt=_prompt(attempt, pieces),
        completion=list(_messages(attempt.parts, pieces)),
        terms=terms,
        success=outcome.success,
        group=outcome.group,
        tokens=sum(sum(part.sampled) for part in attempt.parts),
        truncated=0 < step.longest <= len(last.response),
        extra=_extra(attempt.facts),
    )


def _prompt(attempt: PlayedAttempt, pieces: TokenPieces) -> Any:
    """Return the messages of the data set, or else the text of the prompt, as verl writes it to files."""
    given: Any = attempt.facts.get("raw_prompt")
    messages = given.tolist() if hasattr(given, "tolist") else given
    text = pieces.text(attempt.parts[0].prompt)
    if not messages or not isinstance(messages, list | tuple):
        return text
    try:
        read_conversation(messages)
    except ConversationError:
        return text
    replies = any(message.get("role", message.get("from")) in POLICY_ROLES for message in messages)
    return text if replies else list(messages)


def _messages(parts: Sequence[SampledSequence], pieces: TokenPieces) -> Iterator[dict[str, str]]:
    """Yield what the policy sampled and, between, what it read: answers of tools, or the prompt of another context."""
    for number, part in enumerate(parts):
        if number:
            yield {"role": "user", "content": pieces.text(part.prompt)}
        for sampled, tokens in groupby(zip(part.sampled, part.response, strict=True), key=lambda token: token[0]):
            text = pieces.text([token for _, token in tokens])
            yield {"role": "assistant" if sampled else "user", "content": text}


def _extra(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the truth of the data set and plain values, for example what the reward function returned."""
    kept = {name: as_json(value) for name, value in facts.items() if name not in _NOT_KEPT}
    extra = {name.strip("_"): value for name, value in kept.items() if isinstance(value, _KEPT_TYPES)}
    judged = facts.get("reward_model")
    truth = judged.get("ground_truth") if isinstance(judged, Mapping) else None
    return extra if truth is None else {"ground_truth": as_json(truth), **extra}
