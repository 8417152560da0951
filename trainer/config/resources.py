"""Memory, multi-process and cluster sections of RunConfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import field_validator, model_validator

from envs.text_roles import TextRole
from trainer.config.base import Section, setting
from trainer.config.conditions import (
    EVALUATES,
    HOSTED_ANSWERS,
    NOTHING_TRAINED,
    NoEffect,
    is_none_of,
    is_zero,
)

RAY_ADDRESS_VARIABLE = "ECHOSCOPE_RAY_ADDRESS"
"""Environment variable with the address of a Ray cluster, as in 10.0.0.5:6379, or auto; without it a run starts one."""
_MOST = {"rollout_cpus": 1024, "rollout_gpus": 64, "learner_cpus": 1024, "learner_gpus": 64}
"""Names of `cluster.resources`, with the largest amounts."""


@dataclass(frozen=True)
class ActorRequest:
    """Ray actors of one kind that a run needs at the same time.

    Attributes:
        count: number of actors, above 0.
        cpus: CPUs of each actor.
        gpus: GPUs of each actor; None: one, if the cluster has any.
    """

    count: int
    cpus: float
    gpus: float | None


class Reservation(NamedTuple):
    """CPUs and GPUs of an actor; GPUs None: one, if the cluster has any."""

    cpus: float
    gpus: float | None


HALVES: Mapping[str, float] = {"learner_gpus": 0.5, "rollout_gpus": 0.5}
"""Reservations with which each learner shares its GPU with a rollout actor."""


class MemoryConfig(Section):
    """Check that a run fits its device's memory."""

    preflight: Literal["refuse", "warn", "none"] = setting(
        "refuse",
        "If the memory estimate exceeds the device: refuse the run, warn, or skip the check (none).",
    )


class ParallelConfig(Section):
    """Several learners of one run."""

    no_effect = (NoEffect((EVALUATES,), NOTHING_TRAINED),)

    sharding: Literal["none", "full"] = setting(
        "none",
        "none: every learner holds all weights and only gradients are exchanged; full: weights, gradients and moments "
        "are sharded over the learners (FSDP2), for models that do not fit otherwise.",
    )


class ClusterConfig(Section):
    """Ray actors that play and learn for a run, on this machine or the cluster that ECHOSCOPE_RAY_ADDRESS names."""

    no_effect = (
        NoEffect((EVALUATES,), NOTHING_TRAINED, ("learners",)),
        HOSTED_ANSWERS,
        NoEffect(
            (is_zero("cluster.rollout_actors"), is_zero("cluster.learners"), is_none_of("engine.name", ("vllm",))),
            "the trainer's own process plays and learns",
            ("resources",),
        ),
    )

    rollout_actors: int = setting(
        0,
        "Ray actors that play, each with its own engine and environments; 0 = the trainer's own process plays, without "
        "Ray.",
        unit="actors",
        added=True,
        ge=0,
        le=1024,
    )
    learners: int = setting(
        0,
        "Ray actors that learn together, each a rank of one process group; 0 = the trainer's own process learns. "
        "parallel.sharding shards their weights.",
        unit="actors",
        added=True,
        ge=0,
        le=1024,
    )
    resources: Annotated[dict[str, float], TextRole.PLAIN] = setting(
        {},
        "CPUs and GPUs reserved for each actor: rollout_cpus, rollout_gpus, learner_cpus and learner_gpus, as in "
        "rollout_cpus=2, rollout_gpus=0.5. Left out: one CPU, and one GPU where the cluster has GPUs and policy.device "
        "is not cpu. With rollout_gpus=0.5, learner_gpus=0.5 each learner shares its GPU with a rollout actor; there "
        "must be as many of both. A vLLM engine is split over several rollout_gpus (tensor parallelism), for more "
        "speed and a larger KV cache, also in the trainer's own process.",
        added=True,
    )

    @field_validator("resources")
    @classmethod
    def check_resources(cls, value: dict[str, float]) -> dict[str, float]:
        """Require CPUs above 0 and GPUs of at least 0, up to the limit of a node."""
        for name, amount in value.items():
            if name not in _MOST:
                raise ValueError(f"may name {', '.join(_MOST)}, not {name!r}")
            if not (0 < amount <= _MOST[name] or (amount == 0 and name.endswith("gpus"))):
                least = "above" if name.endswith("cpus") else "at least"
                raise ValueError(f"{name} must be {least} 0 and at most {_MOST[name]}")
        return value

    @model_validator(mode="after")
    def check_pairs(self) -> Self:
        """Require as many rollout actors as learners that share their GPUs."""
        if self.shares_gpus and self.learners != self.rollout_actors:
            raise ValueError(
                "resources give learners and rollout actors half a GPU each: set rollout_actors and learners to the "
                "number of GPUs, or other rollout_gpus and learner_gpus"
            )
        return self

    def with_processes(self, count: int, *, plays: bool) -> Self:
        """Return the same settings with this number of learners on GPUs that they share with rollout actors.

        Args:
            count: number of learners, at least 1.
            plays: whether rollout actors sample; False: another server samples.
        """
        actors = {"learners": count, "rollout_actors": count} if plays else {"learners": count, "rollout_actors": 0}
        others = {name: amount for name, amount in self.resources.items() if not name.endswith("gpus")}
        resources = {**others, **HALVES} if plays else self.resources
        return self.model_validate(self.model_dump() | actors | {"resources": resources})

    @property
    def shares_gpus(self) -> bool:
        """True if each learner shares its GPU with a rollout actor."""
        return HALVES.items() <= self.resources.items()

    @property
    def rollout_reservation(self) -> Reservation:
        """Resources reserved for a rollout actor."""
        return self._reservation("rollout")

    @property
    def learner_reservation(self) -> Reservation:
        """Resources reserved for a learner."""
        return self._reservation("learner")

    def _reservation(self, role: str) -> Reservation:
        gpus = None if self.shares_gpus else self.resources.get(f"{role}_gpus")
        return Reservation(self.resources.get(f"{role}_cpus", 1.0), gpus)

    @property
    def uses_ray(self) -> bool:
        """True if any part of the run is a Ray actor."""
        return self.rollout_actors > 0 or self.learners > 0

    def ranks(self, kind: str) -> int:
        """Return the number of learners of a run of that kind; a run that only evaluates has none."""
        return 0 if kind == "evaluate" else self.learners

    def pairs(self, kind: str) -> int:
        """Return the number of pairs of a learner and a rollout actor that share a GPU, in a run of that kind."""
        return self.ranks(kind) if self.shares_gpus else 0

    def driver_computes(self, kind: str) -> bool:
        """True if the trainer's own process samples or learns in a run of that kind."""
        learns_elsewhere = kind == "evaluate" or self.learners > 0
        return not (self.rollout_actors and learns_elsewhere)

    def actors(self, kind: str, device: str) -> tuple[ActorRequest, ...]:
        """Return the actors of a run of that kind: learners, then rollout actors, or pairs of both. Empty without any.

        Args:
            device: the setting policy.device.
        """
        if self.pairs(kind):
            gpus = 0.0 if device == "cpu" else None
            cpus = self.learner_reservation.cpus + self.rollout_reservation.cpus
            return (ActorRequest(self.learners, cpus, gpus),)
        kinds = (
            (self.ranks(kind), *self.learner_reservation),
            (self.rollout_actors, *self.rollout_reservation),
        )
        return tuple(
            ActorRequest(count, cpus, 0.0 if gpus is None and device == "cpu" else gpus)
            for count, cpus, gpus in kinds
            if count
        )
