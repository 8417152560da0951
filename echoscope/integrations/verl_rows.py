"""Rows of a training batch of verl, without padding: of a DataProto, or of what the TransferQueue returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from echoscope.importers.attempts import SUCCESS_FIELDS, stated_success
from echoscope.recording.json_values import as_json


@dataclass(frozen=True)
class Member:
    """An attempt of a batch: its group, and the rows of its contexts in order."""

    group: str
    rows: Sequence[int]


class BatchRows(Protocol):
    """Rows of a batch, each of which is what the policy read and wrote in one context."""

    def ids(self, row: int) -> tuple[list[int], list[int]]:
        """Return the tokens of the prompt, and of everything after it."""

    def column(self, name: str, row: int) -> list[Any] | None:
        """Return a value for each token after the prompt; None if the batch lacks the column."""

    def total(self, name: str, row: int) -> float | None:
        """Return the sum of a column; None if the batch lacks it."""

    def facts(self, row: int) -> dict[str, Any]:
        """Return what the data set and the reward function say about the row."""


class PaddedRows:
    """Rows of a DataProto, whose prompts are padded on the left and whose responses are padded on the right."""

    def __init__(self, batch: Any) -> None:
        self._tensors, self._facts = batch.batch, batch.non_tensor_batch
        self._width = int(self._tensors["responses"].shape[-1])

    def members(self) -> list[Member]:
        """Return the attempts of the batch, each of which has one row; those at one prompt have the same uid."""
        count = len(self._tensors["responses"])
        uids = self._facts.get("uid")
        return [Member(str(row if uids is None else uids[row]), [row]) for row in range(count)]

    def ids(self, row: int) -> tuple[list[int], list[int]]:
        real = self._tensors["attention_mask"][row].tolist()
        before, after = real[: -self._width], real[-self._width :]
        return _kept(self._tensors["prompts"][row], before), _kept(self._tensors["responses"][row], after)

    def column(self, name: str, row: int) -> list[Any] | None:
        if name not in self._tensors.keys():  # noqa: SIM118 - a TensorDict is no dict
            return None
        real = self._tensors["attention_mask"][row].tolist()[-self._width :]
        return _kept(self._tensors[name][row][-self._width :], real)

    def total(self, name: str, row: int) -> float | None:
        return float(self._tensors[name][row].sum()) if name in self._tensors.keys() else None  # noqa: SIM118

    def facts(self, row: int) -> dict[str, Any]:
        return {str(name): values[row] for name, values in self._facts.items()}


class QueueRows:
    """Rows of a TensorDict of the TransferQueue, whose sequences have no padding.

    Args:
        rows: numbers of the rows in the batch from which the data was selected.
    """

    def __init__(self, data: Any, rows: Sequence[int]) -> None:
        self._data = data
        self._at = {row: at for at, row in enumerate(rows)}
        self._values: dict[str, list[Any] | None] = {}

    def _value(self, name: str, row: int) -> Any:
        if name not in self._values:  # a column is divided once: its rows have different lengths
            known = name in self._data.keys()  # noqa: SIM118
            self._values[name] = list(self._data[name]) if known else None
        values = self._values[name]
        return None if values is None else values[self._at[row]]

    def ids(self, row: int) -> tuple[list[int], list[int]]:
        return self._value("prompts", row).tolist(), self._value("responses", row).tolist()

    def column(self, name: str, row: int) -> list[Any] | None:
        values = self._value(name, row)
        return None if values is None else list(values.tolist())

    def total(self, name: str, row: int) -> float | None:
        values = self._value(name, row)
        return None if values is None else float(values.sum())

    def facts(self, row: int) -> dict[str, Any]:
        found = {name: self._value(name, row) for name in QUEUE_FACTS}
        further = found.pop("extra_fields")
        judged = further.get("reward_extra_info") if isinstance(further, Mapping) else None
        return {**found, **judged} if isinstance(judged, Mapping) else found


QUEUE_FACTS = ("raw_prompt", "data_source", "reward_model", "extra_info", "num_turns", "extra_fields")
QUEUE_OUTCOMES = ("rm_scores", "token_level_rewards", "extra_fields")
QUEUE_FIELDS = (
    "prompts",
    "responses",
    "response_mask",
    "loss_mask",
    "rollout_log_probs",
    "old_log_probs",
    "entropy",
    "advantages",
    "rm_scores",
    "token_level_rewards",
    *QUEUE_FACTS,
)
"""Fields of the TransferQueue that are read; it leaves out those that it does not have."""


@dataclass(frozen=True)
class SampledSequence:
    """What the policy read and wrote in one context, and what the trainer made of it.

    Attributes:
        prompt, response: ids of tokens. The response contains what tools and environments answered.
        sampled, in_loss: for each token of the response: the policy sampled it; the loss of the update contained it.
        logprobs, trainer_logprobs, entropies, advantages: for each token of the response; None if they are not known.
    """

    prompt: list[int]
    response: list[int]
    sampled: list[bool]
    in_loss: list[bool]
    logprobs: list[float] | None = None
    trainer_logprobs: list[float] | None = None
    entropies: list[float] | None = None
    advantages: list[float] | None = None


@dataclass(frozen=True)
class Outcome:
    """Result of an attempt.

    Attributes:
        score: what the reward function returned; None if it is not known.
        reward: the score with the penalty for divergence, if the trainer has one.
        success: None if it is not known.
    """

    group: str
    score: float | None
    reward: float | None
    success: bool | None


def read_sequence(rows: BatchRows, row: int, *, updates: bool = True, recomputed: bool = True) -> SampledSequence:
    """Return the sequence of a row.

    Args:
        updates: False if there is no update of the policy, as while only the critic is trained.
        recomputed: False if old_log_probs are copies of the sampler's.
    """
    prompt, response = rows.ids(row)

    def numbers(name: str) -> list[float] | None:
        found = rows.column(name, row)
        return found if found is not None and len(found) == len(response) else None

    learnt = numbers("response_mask") or [1] * len(response)
    return SampledSequence(
        prompt,
        response,
        sampled=_sampled(learnt, numbers("loss_mask"), numbers("rollout_log_probs")),
        in_loss=[bool(flag) and updates for flag in learnt],
        logprobs=numbers("rollout_log_probs"),
        trainer_logprobs=numbers("old_log_probs") if recomputed else None,
        entropies=numbers("entropy"),
        advantages=numbers("advantages"),
    )


def _sampled(learnt: Sequence[float], before: Sequence[float] | None, logprobs: Sequence[float] | None) -> list[bool]:
    """Return which tokens the policy sampled.

    Rollout correction takes tokens out of response_mask. The TransferQueue has the mask `before`. Otherwise sampled
    tokens have a log-probability, which is exactly 0 for the tokens of tools.
    """
    other = before or logprobs or learnt
    return [bool(flag) or bool(value) for flag, value in zip(learnt, other, strict=True)]


def read_outcome(rows: BatchRows, row: int, group: str, success_at: float) -> Outcome:
    """Return the result of a row.

    Args:
        success_at: score from which an attempt counts as a success, unless the reward function states it.
    """
    score = rows.total("token_level_scores", row)
    score = rows.total("rm_scores", row) if score is None else score
    reward = rows.total("token_level_rewards", row)
    stated = stated_success({name: as_json(value) for name, value in rows.facts(row).items() if name in SUCCESS_FIELDS})
    judged = None if score is None else score >= success_at
    return Outcome(group, score, score if reward is None else reward, judged if stated is None else stated)


def members_of_keys(keys: Sequence[str]) -> list[Member]:
    """Return the attempts of keys of the TransferQueue, which are uid, session, and number of the context."""
    found: dict[str, list[tuple[int, int]]] = {}
    for row, key in enumerate(keys):
        session, _, number = key.rpartition("_")
        found.setdefault(session or key, []).append((int(number) if number.isdigit() else 0, row))
    return [Member(session.partition("_")[0], [row for _, row in sorted(rows)]) for session, rows in found.items()]


def choose_groups(groups: Iterable[str], limit: int) -> set[str]:
    """Return groups that together have at most `limit` attempts, and at least one.

    uids are random, so that their order is independent of lengths and rewards, unlike the order of a balanced batch.
    """
    chosen: set[str] = set()
    total = 0
    for group, size in sorted(Counter(groups).items()):
        if chosen and total + size > limit:
            break
        chosen.add(group)
        total += size
    return chosen


def _kept(values: Any, real: Sequence[Any]) -> list[Any]:
    return [value for value, is_real in zip(values.tolist(), real, strict=True) if is_real]
