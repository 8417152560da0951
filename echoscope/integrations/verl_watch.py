"""Records what a trainer of verl sampled in a step, its tokens, what the update learnt from, and phases of the step.

verl has no callbacks. Its trainers begin by constructing `Tracking`, so that the call's frame has the trainer and the
names that its loop uses. There, two names are replaced by functions that do the same and record:

* `compute_data_metrics`, which every loop with a DataProto calls with the finished batch; of trainers with a
  TransferQueue, the trainer's own `_compute_metrics`, and what their replay buffer drops;
* `marked_timer`, which times the parts of a step.

What is read there is recorded when the trainer logs the step, which then is the iteration.
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Self

from echoscope.integrations.token_pieces import TokenPieces
from echoscope.integrations.verl_attempts import PlayedAttempt, StepFacts, record_step
from echoscope.integrations.verl_rows import (
    QUEUE_FIELDS,
    QUEUE_OUTCOMES,
    BatchRows,
    Member,
    Outcome,
    PaddedRows,
    QueueRows,
    choose_groups,
    members_of_keys,
    read_outcome,
    read_sequence,
)
from echoscope.integrations.verl_timers import TIMER, StepPhases
from echoscope.recording.harmless import harmless, warn
from echoscope.recording.json_values import number_in
from echoscope.recording.recorder import Recorder
from echoscope.recording.reward_metrics import reward_metrics

BATCH_FUNCTION = "compute_data_metrics"
QUEUE_METHOD = "_compute_metrics"
EVICT, CLEAR = "_evict_terminal_groups", "_clear_groups"
"""Methods of the replay buffer. The first drops groups for a reason, and calls the second, which is also called when
there are enough groups."""
VARIABLES = {"attempts": "ECHOSCOPE_ATTEMPTS", "every": "ECHOSCOPE_EVERY", "success_at": "ECHOSCOPE_SUCCESS_AT"}
"""Environment variables of the fields of WatchLimits."""
_FRAMES = 4
"""Calls among which the trainer is looked for, from the construction of `Tracking` outwards."""


@dataclass(frozen=True)
class WatchLimits:
    """How much is recorded.

    Attributes:
        attempts: maximum number of attempts of a step, in whole groups but at least one group; 0: none. As many of
            the attempts that the trainer dropped are recorded in addition.
        every: attempts are recorded in steps whose number is a multiple of it.
        success_at: score from which an attempt counts as a success, unless the reward function states it.
    """

    attempts: int = 32
    every: int = 1
    success_at: float = 1.0

    @classmethod
    def stated_in(cls, variables: Mapping[str, str]) -> Self:
        """Return the limits that environment variables state; a value that is no number is a warning, and left out."""
        given: dict[str, float] = {}
        for name, variable in VARIABLES.items():
            if not (text := variables.get(variable, "").strip()):
                continue
            number = number_in(text)
            if number is None or not math.isfinite(number) or (name != "success_at" and number < 0):
                warn(f"{variable} is {text!r:.100}, not a number from 0 on: {getattr(cls, name)} counts. Correct it.")
            else:
                given[name] = number
        return cls(
            attempts=int(given.get("attempts", cls.attempts)),
            every=int(given.get("every", cls.every)),
            success_at=given.get("success_at", cls.success_at),
        )


class TrainerWatch:
    """What a trainer of verl did since it logged the last step.

    No failure in it reaches the trainer: it becomes a RuntimeWarning. It does not keep the trainer alive, whose end is
    the end of some runs.
    """

    def __init__(self, run: Recorder, trainer: Any, limits: WatchLimits) -> None:
        self.run, self.warnings = run, run.warnings
        self.phases = StepPhases(run)
        self._reference, self._limits = weakref.ref(trainer), limits
        self._pieces: TokenPieces | None = None
        self._begin_step()

    @property
    def _trainer(self) -> Any:
        return self._reference()

    def _begin_step(self) -> None:
        self._trained: list[PlayedAttempt] = []
        self._dropped: list[PlayedAttempt] = []
        self._outcomes: list[Outcome] = []
        self._evicted: set[str] = set()

    @harmless
    def attach(self, namespaces: Sequence[dict[str, Any]]) -> None:
        """Let the names that the trainer's loop uses record; `namespaces` belong to the modules of its class."""
        for names in namespaces:
            if callable(timer := names.get(TIMER)):
                names[TIMER] = self.phases.timed(getattr(timer, "without_echoscope", timer))
        if self._limits.attempts < 1:
            return
        loops = [names for names in namespaces if callable(names.get(BATCH_FUNCTION))]
        if callable(getattr(self._trainer, QUEUE_METHOD, None)):
            self._attach_to_queue()
        elif loops:
            for names in loops:
                names[BATCH_FUNCTION] = _reading_first(self.read_batch, names[BATCH_FUNCTION])
        elif hasattr(self._trainer, "actor_rollout_wg"):
            self.warnings.once(
                "watch",
                f"{type(self._trainer).__name__} has neither {BATCH_FUNCTION} nor {QUEUE_METHOD} here: metrics are "
                "recorded, attempts are not. Import the files of trainer.rollout_data_dir (docs/other-trainers.md).",
            )

    def _attach_to_queue(self) -> None:
        setattr(self._trainer, QUEUE_METHOD, _reading_first(self.read_queue, getattr(self._trainer, QUEUE_METHOD)))
        buffer = getattr(self._trainer, "replay_buffer", None)
        if callable(getattr(buffer, EVICT, None)) and callable(getattr(buffer, CLEAR, None)):
            setattr(buffer, EVICT, _reading_first(self.read_evicted, getattr(buffer, EVICT)))
            setattr(buffer, CLEAR, _reading_first(self.read_cleared, getattr(buffer, CLEAR)))

    def close(self) -> None:
        """Record nothing from now on."""
        self.phases.close()
        self._limits = WatchLimits(attempts=0)
        self._begin_step()

    @harmless
    def read_batch(self, batch: Any, *_: Any, **__: Any) -> None:
        """Read a finished DataProto, before its metrics are computed."""
        if self._wanted():
            rows = PaddedRows(batch)
            self._read_trained(rows.members(), rows, lambda _: rows)

    @harmless
    def read_queue(self, batch: Any, *_: Any, **__: Any) -> None:
        """Read what a finished KVBatchMeta names, before it is removed from the TransferQueue."""
        keys = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
        if keys and self._wanted():
            everything = QueueRows(_fetch(keys, batch.partition_id, QUEUE_OUTCOMES), range(len(keys)))
            self._read_trained(members_of_keys(keys), everything, _queue_reader(keys, batch.partition_id))

    @harmless
    def read_evicted(self, global_steps: int, partition_id: str, reasons: Sequence[Any]) -> None:
        """Read groups that the replay buffer is about to drop: too old, with equal rewards, or with failures."""
        stale, alike, failed = reasons[:3]
        uses = dict.fromkeys(failed, "other") | dict.fromkeys(stale, "stale") | dict.fromkeys(alike, "resampled")
        self._evicted |= uses.keys()
        self._read_dropped(partition_id, uses)

    @harmless
    def read_cleared(self, partition_id: str, uids: Iterable[str]) -> None:
        """Read groups that the replay buffer is about to drop because it has enough."""
        self._read_dropped(partition_id, dict.fromkeys(set(uids) - self._evicted, "other"))

    @harmless
    def record(self, step: int) -> dict[str, float]:
        """Record what was read as the iteration `step`. Returns metrics of all attempts that the trainer kept."""
        trained, dropped, outcomes = self._trained, self._dropped, self._outcomes
        self._begin_step()
        if trained or dropped:
            self._pieces = self._pieces or TokenPieces(self._trainer.tokenizer)
            longest = number_in(_setting(self._trainer.config, "data", "max_response_length"))
            facts = StepFacts(step, int(longest or 0), self._updates_policy())
            record_step(self.run, [*dropped, *trained], facts, self._pieces)
        metrics = reward_metrics((found.group, found.reward) for found in outcomes if found.reward is not None)
        known = [found.success for found in outcomes if found.success is not None]
        return metrics | ({"success/rate": sum(known) / len(known)} if known else {})

    def _wanted(self) -> bool:
        return self._limits.attempts > 0 and int(self._trainer.global_steps) % max(1, self._limits.every) == 0

    def _updates_policy(self) -> bool:
        warmup = number_in(_setting(self._trainer.config, "trainer", "critic_warmup"))
        return not warmup or warmup <= int(self._trainer.global_steps)

    def _read_trained(
        self, members: Sequence[Member], everything: BatchRows, read: Callable[[Sequence[int]], BatchRows]
    ) -> None:
        success_at = self._limits.success_at
        self._outcomes += [read_outcome(everything, member.rows[-1], member.group, success_at) for member in members]
        self._trained += self._played(members, read, self._limits.attempts - len(self._trained), {})

    def _read_dropped(self, partition_id: str, uses: Mapping[str, str]) -> None:
        if partition_id == "val" or not uses or not self._wanted():
            return
        keys = [key for key in self._trainer.replay_buffer.partitions[partition_id] if key.split("_")[0] in uses]
        limit = self._limits.attempts - len(self._dropped)
        self._dropped += self._played(members_of_keys(keys), _queue_reader(keys, partition_id), limit, uses)

    def _played(
        self,
        members: Sequence[Member],
        read: Callable[[Sequence[int]], BatchRows],
        limit: int,
        uses: Mapping[str, str],
    ) -> list[PlayedAttempt]:
        """Return the attempts of some groups, at most `limit`; `uses` are reasons why groups were dropped."""
        groups = choose_groups((member.group for member in members), limit) if limit > 0 else set()
        chosen = [member for member in members if member.group in groups]
        if not chosen:
            return []
        rows = read([row for member in chosen for row in member.rows])
        bypass = _setting(self._trainer.config, "algorithm", "rollout_correction", "bypass_mode")
        updates = not uses and self._updates_policy()
        return [
            PlayedAttempt(
                read_outcome(rows, member.rows[-1], member.group, self._limits.success_at),
                [read_sequence(rows, row, updates=updates, recomputed=not bypass) for row in member.rows],
                rows.facts(member.rows[-1]),
                uses.get(member.group, ""),
            )
            for member in chosen
        ]


def watch_caller(run: Recorder, caller: FrameType | None, limits: WatchLimits) -> TrainerWatch | None:
    """Watch the trainer in one of whose methods the caller is; None if there is none. A failure becomes a warning."""
    try:
        for _ in range(_FRAMES):
            trainer = caller.f_locals.get("self") if caller else None
            if caller and hasattr(trainer, "tokenizer"):
                watch = TrainerWatch(run, trainer, limits)
                watch.attach(_namespaces(caller, type(trainer)))
                return watch
            caller = caller.f_back if caller else None
    except Exception as error:  # noqa: BLE001 - whatever the objects of the callers do
        run.warnings.failed("watch", error)
    return None


def _namespaces(caller: FrameType, kind: type) -> list[dict[str, Any]]:
    """Return the names of the calling module and of the modules of the class, each once."""
    modules = (sys.modules.get(base.__module__) for base in kind.__mro__ if base is not object)
    found = (caller.f_globals, *(vars(module) for module in modules if module))
    return list({id(names): names for names in found}.values())


def _reading_first(reader: Callable[..., Any], original: Any) -> Any:
    """Return a function that calls the reader, which never raises, and then does what the original does."""
    unwatched = getattr(original, "without_echoscope", original)

    @functools.wraps(unwatched)
    def called(*args: Any, **kwargs: Any) -> Any:
        reader(*args, **kwargs)
        return unwatched(*args, **kwargs)

    called.without_echoscope = unwatched  # type: ignore[attr-defined]
    return called


def _queue_reader(keys: Sequence[str], partition_id: str) -> Callable[[Sequence[int]], BatchRows]:
    return lambda rows: QueueRows(_fetch([keys[row] for row in rows], partition_id, QUEUE_FIELDS), rows)


def _fetch(keys: Sequence[str], partition_id: str, fields: Sequence[str]) -> Any:
    queue = importlib.import_module("transfer_queue")
    return queue.kv_batch_get(keys=list(keys), partition_id=partition_id, select_fields=list(fields))


def _setting(config: Any, *names: str) -> Any:
    """Return a setting of the trainer; None where there is none."""
    for name in names:
        config = config.get(name) if hasattr(config, "get") else None
    return config
