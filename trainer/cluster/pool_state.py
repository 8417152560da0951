"""Driver's state of a rollout pool: actors and open requests."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from itertools import count
from statistics import median
from typing import Any

from trainer.cluster.actor_description import ActorDescription
from trainer.cluster.ledger import EventLedger
from trainer.cluster.rollout_actor import PlayReport
from trainer.rollout.environment_mix import renumbered
from trainer.rollout.rollout_pool import Progress
from trainer.rollout.runner import RolloutRequest, check_played
from trainer.rollout.sessions import join
from trainer.rollout.trajectory import Trajectory


@dataclass(eq=False)
class PoolMember:
    """The driver's state of an actor.

    Attributes:
        number: number of its bundle.
        handle: handle of the Ray actor.
        starting: its pending description, or the version that it loads; None once it is ready.
        weights: reference to the weights that it has or loads; None: the policy's files.
        attempt: number of consecutive actors started for this bundle that were lost before they were ready.
        description: None until its policy is loaded.
        session: request and number of the session that it plays; None: idle.
        report: its pending report while it plays.
        active_at: time of the last report on its session, in seconds of the monotonic clock.
        span: number of its open span in the timeline.
    """

    number: int
    handle: Any
    starting: Any
    weights: Any = None
    attempt: int = 1
    description: ActorDescription | None = None
    session: tuple[OpenRequest, int] | None = None
    report: Any = None
    active_at: float = 0.0
    span: int = 0

    @property
    def track(self) -> str:
        """Name of its track in the timeline, the same for an actor that replaces it."""
        return f"rollout actor {self.number + 1}"

    @property
    def idle(self) -> bool:
        return self.starting is None and self.session is None

    @property
    def name(self) -> str:
        return self.description.named(self.track) if self.description else self.track


@dataclass(eq=False)
class OpenRequest:
    """A request that is being played or waits for idle actors.

    Attributes:
        request: the driver's request.
        sessions: its parts, by number.
        progress: receives the numbers of finished trajectories and sampled tokens.
        waiting: numbers of sessions that no actor plays.
        counts: finished trajectories and sampled tokens by session.
        parts: trajectories of finished sessions.
        losses: number of actors lost while they played a session, by session.
    """

    request: RolloutRequest
    sessions: list[RolloutRequest]
    ledger: EventLedger
    progress: Progress
    waiting: deque[int] = field(default_factory=deque)
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    parts: dict[int, list[Trajectory]] = field(default_factory=dict)
    losses: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.waiting.extend(range(len(self.sessions)))

    def renumber(self, number: int) -> None:
        """Close the started groups of a session, and give them numbers that follow the last one."""
        begun = self.ledger.close_groups({plan.group for plan in self.sessions[number].plans})
        free = max(plan.group for plan in self.request.plans) + 1
        plans = {plan.group: plan for plan in self.request.plans}
        for group, fresh in zip(sorted(begun), count(free)):
            plans[group] = renumbered(plans[group], self.request.iteration, fresh)
        self.request = replace(self.request, plans=list(plans.values()))
        self.sessions[number] = replace(
            self.sessions[number], plans=[plans[plan.group] for plan in self.sessions[number].plans]
        )

    def report_progress(self) -> None:
        self.progress(sum(done for done, _ in self.counts.values()), sum(n for _, n in self.counts.values()))

    @property
    def played(self) -> bool:
        """True if all sessions are finished."""
        return len(self.parts) == len(self.sessions)

    def trajectories(self) -> list[Trajectory]:
        """Return all trajectories in the order of the plans. Raises EnvironmentsFailedError if all of them failed."""
        trajectories = join(self.request.plans, self.parts.values())
        check_played(trajectories)
        return trajectories


@dataclass
class PoolUsage:
    """Work of the actors since the last measurement.

    Attributes:
        since: start of the measurement, in seconds of the monotonic clock.
        busy: seconds in which actors played, summed over the actors.
        tokens: sampled tokens of finished sessions.
        actors: seconds and tokens of each actor's finished sessions.
    """

    since: float = field(default_factory=time.monotonic)
    busy: float = 0.0
    tokens: int = 0
    actors: dict[int, tuple[float, int]] = field(default_factory=dict)

    def add(self, report: PlayReport, actor: int) -> None:
        """Count a finished session of an actor, given by any number that identifies it."""
        self.busy += report.seconds
        self.tokens += report.tokens
        seconds, tokens = self.actors.get(actor, (0.0, 0))
        self.actors[actor] = seconds + report.seconds, tokens + report.tokens

    def metrics(self, actors: int) -> dict[str, float]:
        """Return the idle share of the actors, and the speed of busy ones; empty if nothing was played."""
        passed = actors * (time.monotonic() - self.since)
        if not self.busy or not passed:
            return {}
        speeds = sorted(tokens / seconds for seconds, tokens in self.actors.values() if seconds and tokens)
        slowest = {"cluster/slowest_actor": speeds[0] / median(speeds)} if len(speeds) > 1 else {}
        return slowest | {
            "cluster/rollout_idle_share": max(0.0, 1 - self.busy / passed),
            "cluster/tokens_per_second": self.tokens / self.busy,
        }
