"""Rollout pool of Ray actors: sessions are handed to idle actors, and those of lost ones to others."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from trainer.cluster.actor_description import ActorDescription, check_versions
from trainer.cluster.connection import Bundle, ClusterConnection, cause_of, first_line
from trainer.cluster.errors import ClusterError
from trainer.cluster.ledger import EventLedger
from trainer.cluster.ray_learner_group import RayLearnerGroup
from trainer.cluster.rollout_actor import PlayReport, RolloutActor
from trainer.cluster.transfer import PackedWeights
from trainer.config.run import RunConfig
from trainer.policy.weights import VersionedWeights
from trainer.rollout.rollout_pool import Progress, WeightSource
from trainer.rollout.runner import Interrupted, RolloutRequest, check_played
from trainer.rollout.sessions import join, split_evenly, split_sessions
from trainer.rollout.token_stream import TokenStream
from trainer.rollout.trajectory import Trajectory

_THREADS = 4
"""Of an actor: a report that waits, and short calls beside it."""
_REPORT_SECONDS = 2.0
_POLL_SECONDS = 0.2
"""How often the driver looks for a stop request while nothing happens."""
_MAX_LOSSES = 3
"""Actors that one session may cost before it counts as their cause."""
_CLOSE_SECONDS = 20.0


@dataclass(eq=False)
class _Member:
    """An actor as the driver sees it.

    Attributes:
        number: of its bundle.
        handle: of the Ray actor.
        starting: its pending description, or the version that it loads; None once it is ready.
        weights: reference to those that it has or loads; None: the policy's files.
        attempt: number of actors that were started in this place in a row, without one that was ready.
        description: None until its policy is loaded.
        session: number of the session that it plays; None: idle.
        report: its pending report while it plays.
        active_at: when anything was last heard of its session, in seconds of the monotonic clock.
    """

    number: int
    handle: Any
    starting: Any
    weights: Any = None
    attempt: int = 1
    description: ActorDescription | None = None
    session: int | None = None
    report: Any = None
    active_at: float = 0.0

    @property
    def idle(self) -> bool:
        return self.starting is None and self.session is None

    @property
    def name(self) -> str:
        name = f"rollout actor {self.number + 1}"
        return self.description.named(name) if self.description else name


@dataclass
class _Request:
    """A request that is being played.

    Attributes:
        sessions: by number.
        waiting: numbers of sessions that no actor plays.
        counts: by session: finished trajectories and sampled tokens.
        parts: trajectories of finished sessions.
        losses: by session: actors that were lost while they played it.
    """

    sessions: list[RolloutRequest]
    ledger: EventLedger
    progress: Progress
    waiting: deque[int] = field(default_factory=deque)
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    parts: dict[int, list[Trajectory]] = field(default_factory=dict)
    losses: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.waiting.extend(range(len(self.sessions)))

    def report_progress(self) -> None:
        self.progress(sum(done for done, _ in self.counts.values()), sum(n for _, n in self.counts.values()))


class RayRolloutPool:
    """See `trainer.rollout.rollout_pool.RolloutPool`.

    Args:
        config: the run's settings; `memory.max_concurrent_trajectories` limits each actor.
        files: reference to the `PolicyFiles` that the run starts from.
        connection: with `bundles` reserved from bundle number `first` on.
        bundles: resources of each actor.
        weights: newer ones than the files'; None: these are the newest.
        emit: receives events.
        stop: polled while playing; True interrupts it.
        notify: receives messages for the user.
        stream: names the watched trajectories and takes their partial responses.
    Raises:
        ClusterError: an actor does not start, or its versions differ from this process's.
        ModelError: the policy or the engine cannot be loaded by an actor.
        Interrupted: the run was asked to stop.
    """

    def __init__(
        self,
        config: RunConfig,
        files: Any,
        connection: ClusterConnection,
        bundles: list[Bundle],
        *,
        first: int = 0,
        weights: VersionedWeights | None = None,
        emit: Callable[..., None],
        stop: Callable[[], bool],
        notify: Callable[[str], None],
        stream: TokenStream,
    ) -> None:
        self.config, self.connection, self.bundles, self.first = config, connection, bundles, first
        self._emit, self._stop, self._notify, self._stream = emit, stop, notify, stream
        self._files, self._settings = files, ray.put(config)
        self._weights: Any = None if weights is None else ray.put(PackedWeights.of(weights))
        self.device = ""
        self._ready_at = time.monotonic()
        self._loading: dict[_Member, Any] = {}
        self._watched: frozenset[str] = frozenset()
        self._members = [self._start(number) for number in range(len(bundles))]
        self._await_all()
        ready = [member.description.device for member in self._members if member.description]
        self.device = ", ".join(f"{count} × {device}" for device, count in Counter(ready).items())

    # -- RolloutPool -------------------------------------------------------------------------------------------------

    def play(self, request: RolloutRequest, progress: Progress) -> list[Trajectory]:
        self._await_weights()
        groups = self.config.rollout.groups_per_session
        ready = sum(member.starting is None for member in self._members)
        sessions = split_sessions(request, groups) if groups else split_evenly(request, max(1, ready))
        play = _Request(sessions, EventLedger(self._emit, self._notify), progress)
        while len(play.parts) < len(sessions):
            if self._stop():
                self._interrupt(play)
            self._hand_out(play)
            self._receive(play, _POLL_SECONDS)
            self._replace_hanging(play)
        trajectories = join(request.plans, play.parts.values())
        check_played(trajectories)
        return trajectories

    def update_weights(self, learners: WeightSource) -> None:
        if isinstance(learners, RayLearnerGroup):  # their weights need not pass through this process
            self._weights = learners.packed_weights()
        else:
            self._weights = ray.put(PackedWeights.of(learners.weights()))
        for member in self._members:
            if member.starting is None:
                member.weights = self._weights
                self._loading[member] = member.handle.load_weights.remote(self._weights)

    def close(self) -> None:
        """End the actors, those that do not react by force."""
        closing = [member.handle.close.remote() for member in self._members if member.starting is None]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_SECONDS)
        for member in self._members:
            ray.kill(member.handle)
        self._members = []

    # -- actors ------------------------------------------------------------------------------------------------------

    def _start(self, number: int, attempt: int = 1) -> _Member:
        bundle = self.bundles[number]
        actor: Any = ray.remote(RolloutActor)
        handle = actor.options(
            num_cpus=bundle["CPU"],
            num_gpus=bundle.get("GPU", 0),
            max_concurrency=_THREADS,
            max_restarts=0,
            scheduling_strategy=self.connection.place(self.first + number),
        ).remote(self._settings)
        starting = handle.prepare.remote(self._files, self._weights)
        return _Member(number, handle, starting, self._weights, attempt)

    def _await_all(self) -> None:
        """Wait until all actors are ready."""
        deadline = time.monotonic() + self.config.cluster.start_timeout
        while starting := [member for member in self._members if member.starting is not None]:
            if self._stop():
                raise Interrupted
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{starting[0].name} was not ready within cluster.start_timeout = "
                    f"{self.config.cluster.start_timeout:g} seconds: see the logs of its node (/tmp/ray/session_latest)"
                )
            self._welcome(_POLL_SECONDS)

    def _welcome(self, timeout: float) -> None:
        """Take in the actors that have become ready."""
        starting = {member.starting: member for member in self._members if member.starting is not None}
        if not starting:
            return
        for reference in ray.wait(list(starting), num_returns=len(starting), timeout=timeout)[0]:
            member = starting[reference]
            try:
                loaded = ray.get(reference)
            except RayTaskError as error:
                raise cause_of(error) from error
            except RayActorError as error:
                self._retry(member, error)
                continue
            if isinstance(loaded, ActorDescription):
                member.description = loaded
                check_versions(f"rollout actor {member.number + 1}", loaded)
            if member.weights is self._weights:
                member.starting, member.attempt = None, 1
                member.handle.watch.remote(list(self._watched))
            else:  # there was an update meanwhile
                member.weights = self._weights
                member.starting = member.handle.load_weights.remote(self._weights)

    def _retry(self, member: _Member, error: RayActorError) -> None:
        """Start an actor again that was lost before it was ready, unless it never was or fails each time."""
        if not self.device or member.attempt == _MAX_LOSSES:
            raise ClusterError(f"{member.name} could not be started: {first_line(error)}") from error
        self._members[self._members.index(member)] = self._start(member.number, member.attempt + 1)

    def _await_weights(self) -> None:
        """Wait until every actor samples with the newest weights."""
        for member, reference in self._loading.items():
            try:
                ray.get(reference)
            except RayTaskError as error:
                raise cause_of(error) from error
            except RayActorError as error:
                self._replace(member, first_line(error))
        self._loading = {}

    def _replace(self, member: _Member, reason: str) -> None:
        """Start another actor in place of a lost one; it joins when it is ready."""
        self._notify(f"{member.name[0].upper()}{member.name[1:]} was lost and is replaced: {reason}.")
        ray.kill(member.handle)
        self._members[self._members.index(member)] = self._start(member.number)

    # -- playing -----------------------------------------------------------------------------------------------------

    def _hand_out(self, play: _Request) -> None:
        self._welcome(0.0)
        for member in self._members:
            if play.waiting and member.idle:
                member.session = play.waiting.popleft()
                member.active_at = time.monotonic()
                member.report = member.handle.begin.remote(play.sessions[member.session], _REPORT_SECONDS)

    def _receive(self, play: _Request, timeout: float) -> None:
        """Process the reports that arrive within this many seconds."""
        self._pass_on_watched()
        reporting = {member.report: member for member in self._members if member.session is not None}
        if not reporting:
            time.sleep(timeout)
            return
        ray.wait(list(reporting), num_returns=1, timeout=timeout)
        for reference in ray.wait(list(reporting), num_returns=len(reporting), timeout=0)[0]:
            member = reporting[reference]
            try:
                report: PlayReport = ray.get(reference)
            except RayTaskError as error:
                raise cause_of(error) from error
            except RayActorError as error:
                self._lose(play, member, first_line(error))
            else:
                self._process(play, member, report)

    def _process(self, play: _Request, member: _Member, report: PlayReport) -> None:
        session = member.session
        assert session is not None
        if report.events or report.final:
            member.active_at = time.monotonic()
        play.ledger.receive(report.events)
        for notice in report.notices:
            self._notify(notice)
        if report.partial is not None:
            self._stream.send(*report.partial)
        play.counts[session] = (report.done, report.tokens)
        if report.final:
            member.session = member.report = None
        else:
            member.report = member.handle.report.remote(_REPORT_SECONDS)
        if report.failure is not None and not isinstance(report.failure, Interrupted):
            raise report.failure
        if report.trajectories is not None:
            play.parts[session] = report.trajectories
        play.report_progress()

    def _lose(self, play: _Request, member: _Member, reason: str) -> None:
        """Have the session of a lost actor played again, from the same seeds."""
        session = member.session
        assert session is not None
        play.losses[session] += 1
        play.counts.pop(session, None)
        if play.losses[session] == _MAX_LOSSES:
            groups = ", ".join(str(plan.group) for plan in play.sessions[session].plans)
            raise ClusterError(
                f"{_MAX_LOSSES} rollout actors were lost while they played groups {groups} (at last {member.name}: "
                f"{reason}): the logs of their nodes say why; often the memory is used up. Checkpoints are kept"
            )
        play.waiting.appendleft(session)
        self._replace(member, reason)

    def _replace_hanging(self, play: _Request) -> None:
        limit, now = self.config.cluster.actor_timeout, time.monotonic()
        for member in list(self._members):
            if member.session is not None and now - member.active_at > limit:
                self._lose(play, member, f"it finished no turn within cluster.actor_timeout = {limit:g} seconds")
        if any(member.starting is None for member in self._members):
            self._ready_at = now
        elif now - self._ready_at > self.config.cluster.start_timeout:
            raise ClusterError(
                "all rollout actors were lost, and none could be started again within cluster.start_timeout = "
                f"{self.config.cluster.start_timeout:g} seconds. Checkpoints are kept: resume the run once the cluster "
                "has nodes"
            )

    def _interrupt(self, play: _Request) -> None:
        """Stop all actors between turns, close what they began, and raise Interrupted."""
        for member in self._members:
            if member.session is not None:
                member.handle.stop.remote()
        play.waiting.clear()
        while any(member.session is not None for member in self._members):
            self._receive(play, _POLL_SECONDS)
            self._replace_hanging(play)
        play.ledger.interrupt()
        raise Interrupted

    def _pass_on_watched(self) -> None:
        watched = self._stream.refresh()
        if watched != self._watched:
            self._watched = watched
            for member in self._members:
                if member.starting is None:
                    member.handle.watch.remote(list(watched))
