"""Memory, multi-process and cluster sections of RunConfig."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import field_validator

from envs.text_roles import TextRole
from trainer.config.base import Section, setting

RAY_ADDRESS_VARIABLE = "ECHOSCOPE_RAY_ADDRESS"
"""Environment variable with the address of a Ray cluster, used if the setting `address` is empty."""


@dataclass(frozen=True)
class ActorRequest:
    """Ray actors of one kind that a run needs at once.

    Attributes:
        count: number of actors, above 0.
        cpus: CPUs of each.
        gpus: GPUs of each; None: one, where the cluster has any.
    """

    count: int
    cpus: float
    gpus: float | None


class MemoryConfig(Section):
    """Check that a run fits its device's memory."""

    preflight: Literal["refuse", "warn", "none"] = setting(
        "refuse",
        "If the memory estimate exceeds the device: refuse the run, warn, or skip the check (none).",
        formerly="guard",
    )
    max_concurrent_trajectories: int = setting(
        0,
        "Maximum number of trajectories that the transformers engine plays at once; 0 = as many as fit. The others "
        "follow in further chunks.",
        unit="trajectories",
        formerly="rows",
        ge=0,
        le=65_536,
    )


class ParallelConfig(Section):
    """Several learners of one run: Ray actors, or processes started by `python -m torch.distributed.run`."""

    sharding: Literal["none", "full"] = setting(
        "none",
        "none: every process holds all weights and only gradients are exchanged; full: weights, gradients and moments "
        "are sharded over the processes (FSDP2), for models that do not fit otherwise.",
    )
    timeout: float = setting(
        1800.0, "Maximum wait of the processes for each other within an update.", unit="seconds", gt=0, le=86_400
    )


class ClusterConfig(Section):
    """Ray actors that play and learn for a run, on this machine or a cluster; see docs/cluster.md."""

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
    rollout_cpus: float = setting(1.0, "CPUs reserved for each rollout actor.", unit="CPUs", added=True, gt=0, le=1024)
    rollout_gpus: float | None = setting(
        None,
        "GPUs reserved for each rollout actor; empty = one where the cluster has GPUs and policy.device is not cpu.",
        unit="GPUs",
        added=True,
        ge=0,
        le=64,
    )
    learner_cpus: float = setting(1.0, "CPUs reserved for each learner.", unit="CPUs", added=True, gt=0, le=1024)
    learner_gpus: float | None = setting(
        None,
        "GPUs reserved for each learner; empty = one where the cluster has GPUs and policy.device is not cpu.",
        unit="GPUs",
        added=True,
        ge=0,
        le=64,
    )
    address: Annotated[str, TextRole.OPERATOR] = setting(
        "",
        f"Address of a Ray cluster, as in 10.0.0.5:6379, or auto; empty = the one that {RAY_ADDRESS_VARIABLE} names, "
        "else one of its own on this machine for as long as the run. On a site, always empty.",
        added=True,
    )
    start_timeout: float = setting(
        600.0,
        "How long a run waits for the cluster's resources and for its actors to load.",
        unit="seconds",
        added=True,
        gt=0,
        le=604_800,
    )
    actor_timeout: float = setting(
        1800.0,
        "Time after which an actor counts as hanging: a rollout actor without any turn, whose groups others then play, "
        "or learners without any progress, which then start again from the newest checkpoint.",
        unit="seconds",
        added=True,
        gt=0,
        le=86_400,
    )

    @field_validator("address")
    @classmethod
    def check_address(cls, value: str) -> str:
        """An address without spaces and credentials."""
        address = value.strip()
        if any(character.isspace() or character == "@" for character in address):
            raise ValueError(f"must be an address such as 10.0.0.5:6379 or auto, not {address!r}")
        return address

    @property
    def uses_ray(self) -> bool:
        """Whether any part of the run is a Ray actor."""
        return self.rollout_actors > 0 or self.learners > 0

    def ranks(self, kind: str) -> int:
        """Number of learners of a run of that kind; one that only evaluates has none."""
        return 0 if kind == "evaluate" else self.learners

    def driver_computes(self, kind: str) -> bool:
        """Whether the trainer's own process of a run of that kind samples or learns."""
        learns_elsewhere = kind == "evaluate" or self.learners > 0
        return not (self.rollout_actors and learns_elsewhere)

    def actors(self, kind: str, device: str) -> tuple[ActorRequest, ...]:
        """Actors of a run of that kind: its learners, then its rollout actors. Empty without any.

        Args:
            device: the setting policy.device.
        """
        kinds = (
            (self.ranks(kind), self.learner_cpus, self.learner_gpus),
            (self.rollout_actors, self.rollout_cpus, self.rollout_gpus),
        )
        return tuple(
            ActorRequest(count, cpus, 0.0 if gpus is None and device == "cpu" else gpus)
            for count, cpus, gpus in kinds
            if count
        )
