"""Rollout pool of Ray actors: idle actors receive sessions, also the sessions of lost actors."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from trainer import timeouts
from trainer.cluster.actor_description import ActorDescription, check_versions
from trainer.cluster.actor_placement import Bundle
from trainer.cluster.connection import ClusterConnection, first_line, get_cause
from trainer.cluster.errors import ClusterError
from trainer.cluster.ledger import EventLedger
from trainer.cluster.pool_state import OpenRequest, PoolMember, PoolUsage
from trainer.cluster.ray_learner_group import RayLearnerGroup
from trainer.cluster.rollout_actor import PlayReport, RolloutActor
from trainer.cluster.transfer import PackedWeights
from trainer.config.run import RunConfig
from trainer.metrics.timeline import Timeline
from trainer.policy.weights import VersionedWeights
from trainer.rollout.rollout_pool import Progress, WeightSource
from trainer.rollout.runner import Interrupted, RolloutRequest
from trainer.rollout.sessions import split_evenly, split_sessions
from trainer.rollout.token_stream import TokenStream
from trainer.rollout.trajectory import Trajectory

_THREADS = 4
"""Threads of an actor: a report that waits, and short calls."""
_REPORT_SECONDS = 2.0
_POLL_SECONDS = 0.2
"""Interval at which the idle driver checks for a stop request."""
_MAX_LOSSES = 3
"""Number of actors that a session may lose before it is considered their cause of death."""
_CLOSE_SECONDS = 20.0


class RayRolloutPool:
    """See `trainer.rollout.rollout_pool`: `RolloutPool` and `RolloutsAheadPool`.

    Args:
        config: the run's settings.
        files: reference to the `PolicyFiles` that the run starts from.
        connection: connection with `bundles` reserved from bundle number `first` on.
        bundles: resources of each actor.
        rows: trajectories that an actor samples at once; None: all of them.
        weights: weights newer than the files; None: the files are the newest.
        emit: receives events.
        stop: polled while playing; True interrupts it.
        notify: receives messages for the user.
        stream: names the watched trajectories and receives their partial responses.
    Raises:
        ClusterError: an actor does not start, or its versions differ from the versions here.
        ModelError: an actor cannot load the policy or the engine.
        Interrupted: a stop was requested.
    """

    actor_class: type[RolloutActor] = RolloutActor

    def __init__(
        self,
        config: RunConfig,
        files: Any,
        connection: ClusterConnection,
        bundles: list[Bundle],
        *,
        first: int = 0,
        rows: int | None = None,
        weights: VersionedWeights | None = None,
        emit: Callable[..., None],
        stop: Callable[[], bool],
        notify: Callable[[str], None],
        stream: TokenStream,
        timeline: Timeline,
    ) -> None:
        self.config, self.connection, self.bundles, self.first = config, connection, bundles, first
        self._emit, self._stop, self._notify, self._stream = emit, stop, notify, stream
        self._timeline = timeline
        self._files, self._settings, self._rows = files, ray.put(config), rows
        self._weights: Any = None if weights is None else ray.put(PackedWeights.of(weights))
        self.device = ""
        self._ready_at = time.monotonic()
        self._loading: dict[PoolMember, Any] = {}
        self._requests: list[OpenRequest] = []
        self._usage = PoolUsage()
        self._watched: frozenset[str] = frozenset()
        self._members = [self._start(number) for number in range(len(bundles))]
        self._await_all()
        ready = [member.description.device for member in self._members if member.description]
        self.device = ", ".join(f"{count} × {device}" for device, count in Counter(ready).items())

    # -- RolloutPool -------------------------------------------------------------------------------------------------

    def play(self, request: RolloutRequest, progress: Progress) -> list[Trajectory]:
        opened = self._open(request)
        self._requests.insert(0, opened)  # before requests that are played ahead
        return self._finish(opened, progress)

    # -- RolloutsAheadPool -------------------------------------------------------------------------------------------

    def submit(self, request: RolloutRequest) -> None:
        self._requests.append(self._open(request))
        self.pump()

    def collect(self, iteration: int, progress: Progress) -> list[Trajectory]:
        opened = next(opened for opened in self._requests if opened.request.iteration == iteration)
        return self._finish(opened, progress)

    def pump(self) -> None:
        self._work(0.0)

    def abandon(self) -> None:
        for opened in self._requests:
            opened.waiting.clear()
        for member in self._members:
            if member.session is not None:
                member.handle.stop.remote()
        while any(member.session is not None for member in self._members):
            self._receive(_POLL_SECONDS)
            self._replace_hanging()
        for opened in self._requests:
            opened.ledger.interrupt()
        self._requests.clear()

    def usage(self) -> dict[str, float]:
        usage, self._usage = self._usage, PoolUsage()
        return usage.metrics(len(self._members))

    def update_weights(self, learners: WeightSource) -> None:
        if isinstance(learners, RayLearnerGroup):  # their weights need not pass through this process
            self._weights = learners.packed_weights()
        else:
            self._weights = ray.put(PackedWeights.of(learners.weights()))
        for member in self._members:
            if member.starting is None:
                member.weights = self._weights
                self._loading[member] = member.handle.load_weights.remote(self._weights)
                if member.session is None:
                    member.span = self._timeline.open(member.track, "weights")
        if not self.config.rollout.max_staleness:
            self._await_weights(timeouts.CLUSTER_ACTOR.seconds)
            for member in list(self._loading):
                self._replace(member, f"it loaded no weights within {timeouts.CLUSTER_ACTOR}")
            self._loading.clear()

    def close(self) -> None:
        """End the actors, by force if they do not react."""
        closing = [member.handle.close.remote() for member in self._members if member.starting is None]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_SECONDS)
        for member in self._members:
            ray.kill(member.handle)
        self._members = []

    # -- actors ------------------------------------------------------------------------------------------------------

    def _start(self, number: int, attempt: int = 1) -> PoolMember:
        bundle = self.bundles[number]
        actor: Any = ray.remote(self.actor_class)
        handle = actor.options(
            num_cpus=bundle["CPU"],
            num_gpus=bundle.get("GPU", 0),
            max_concurrency=_THREADS,
            max_restarts=0,
            scheduling_strategy=self.connection.placement.strategy(self.first + number),
        ).remote(self._settings, self._rows)
        starting = handle.prepare.remote(self._files, self._weights)
        return PoolMember(number, handle, starting, self._weights, attempt)

    def _await_all(self) -> None:
        """Wait until all actors are ready."""
        deadline = time.monotonic() + timeouts.CLUSTER_START.seconds
        while starting := [member for member in self._members if member.starting is not None]:
            if self._stop():
                raise Interrupted
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{starting[0].name} was not ready within {timeouts.CLUSTER_START}: "
                    "see the logs of its node (/tmp/ray/session_latest)"
                )
            self._welcome(_POLL_SECONDS)

    def _welcome(self, timeout: float) -> None:
        """Add the actors that have become ready."""
        starting = {member.starting: member for member in self._members if member.starting is not None}
        if not starting:
            return
        for reference in ray.wait(list(starting), num_returns=len(starting), timeout=timeout)[0]:
            member = starting[reference]
            try:
                loaded = ray.get(reference)
            except RayTaskError as error:
                raise get_cause(error) from error
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

    def _retry(self, member: PoolMember, error: RayActorError) -> None:
        """Restart an actor that was lost before it was ready, unless it fails each time."""
        if member.attempt == _MAX_LOSSES:
            raise ClusterError(
                f"{member.name} could not be started in {_MAX_LOSSES} attempts: {first_line(error)}. The logs of its "
                "node (/tmp/ray/session_latest) say why"
            ) from error
        self._notify(f"{member.name[0].upper()}{member.name[1:]} was lost before it was ready and is started again.")
        self._members[self._members.index(member)] = self._start(member.number, member.attempt + 1)

    def _await_weights(self, timeout: float) -> None:
        """Update the actors that have loaded the newest weights, or were lost.

        Args:
            timeout: seconds to wait for all.
        """
        loading = {reference: member for member, reference in self._loading.items()}
        if not loading:
            return
        for reference in ray.wait(list(loading), num_returns=len(loading), timeout=timeout)[0]:
            member = loading[reference]
            del self._loading[member]
            if member.session is None:
                self._timeline.close(member.span)
            try:
                ray.get(reference)
            except RayTaskError as error:
                raise get_cause(error) from error
            except RayActorError as error:
                if member in self._members and member.session is None:  # otherwise its report shows the loss
                    self._replace(member, first_line(error))

    def _replace(self, member: PoolMember, reason: str) -> None:
        """Start another actor in place of a lost one; it joins once it is ready."""
        self._notify(f"{member.name[0].upper()}{member.name[1:]} was lost and is replaced: {reason}.")
        ray.kill(member.handle)
        self._timeline.close(member.span)
        self._loading.pop(member, None)
        self._members[self._members.index(member)] = self._start(member.number)

    # -- playing -----------------------------------------------------------------------------------------------------

    def _open(self, request: RolloutRequest) -> OpenRequest:
        groups = self.config.rollout.groups_per_session
        ready = sum(member.starting is None for member in self._members)
        sessions = split_sessions(request, groups) if groups else split_evenly(request, max(1, ready))
        return OpenRequest(request, sessions, EventLedger(self._emit, self._notify), _no_progress)

    def _finish(self, opened: OpenRequest, progress: Progress) -> list[Trajectory]:
        """Work until a request has been played."""
        opened.progress = progress
        opened.report_progress()  # for sessions played ahead
        while not opened.played:
            if self._stop():
                self.abandon()
                raise Interrupted
            self._work(_POLL_SECONDS)
        self._requests.remove(opened)
        return opened.trajectories()

    def _work(self, timeout: float) -> None:
        """Hand out sessions to idle actors, and process what actors report within this many seconds."""
        self._welcome(0.0)
        self._await_weights(0.0)
        for member in self._members:
            if member.idle and member not in self._loading:
                self._hand_out(member)
        self._receive(timeout)
        self._replace_hanging()

    def _hand_out(self, member: PoolMember) -> None:
        """Give an idle actor the next waiting session, if there is one."""
        for opened in self._requests:
            if opened.waiting:
                number = opened.waiting.popleft()
                member.session, member.active_at = (opened, number), time.monotonic()
                member.span = self._timeline.open(member.track, "playing")
                member.report = member.handle.begin.remote(opened.sessions[number], _REPORT_SECONDS)
                return

    def _receive(self, timeout: float) -> None:
        """Process the reports that arrive within this many seconds."""
        self._pass_on_watched()
        reporting = {member.report: member for member in self._members if member.session is not None}
        if not reporting:
            time.sleep(timeout)
            return
        if timeout:
            ray.wait(list(reporting), num_returns=1, timeout=timeout)
        for reference in ray.wait(list(reporting), num_returns=len(reporting), timeout=0)[0]:
            member = reporting[reference]
            try:
                report: PlayReport = ray.get(reference)
            except RayTaskError as error:
                raise get_cause(error) from error
            except RayActorError as error:
                self._lose(member, first_line(error))
            else:
                self._process(member, report)

    def _process(self, member: PoolMember, report: PlayReport) -> None:
        assert member.session is not None
        opened, number = member.session
        if report.events or report.final:
            member.active_at = time.monotonic()
        opened.ledger.receive(report.events)
        for notice in report.notices:
            self._notify(notice)
        if report.partial is not None:
            self._stream.send(*report.partial)
        opened.counts[number] = (report.done, report.tokens)
        if report.final:
            member.session = member.report = None
            self._timeline.close(member.span, report.work or None)
            self._usage.add(report, id(member))
        else:
            member.report = member.handle.report.remote(_REPORT_SECONDS)
        if report.failure is not None and not isinstance(report.failure, Interrupted):
            raise report.failure
        if report.trajectories is not None:
            opened.parts[number] = report.trajectories
        opened.report_progress()

    def _lose(self, member: PoolMember, reason: str) -> None:
        """Requeue the session of a lost actor, to be played again from the same seeds.

        If weights may change between turns, a replay would take another course: groups that have begun are then closed
        and played again under new numbers.
        """
        assert member.session is not None
        self._timeline.close(member.span)
        opened, number = member.session
        opened.losses[number] += 1
        opened.counts.pop(number, None)
        if opened.losses[number] == _MAX_LOSSES:
            groups = ", ".join(str(plan.group) for plan in opened.sessions[number].plans)
            raise ClusterError(
                f"{_MAX_LOSSES} rollout actors were lost while they played groups {groups} (at last {member.name}: "
                f"{reason}): the logs of their nodes say why; often the memory is used up. Checkpoints are kept"
            )
        if self.config.rollout.max_staleness and opened.request.split == "train":
            opened.renumber(number)
        opened.waiting.appendleft(number)
        self._replace(member, reason)

    def _replace_hanging(self) -> None:
        limit, now = timeouts.CLUSTER_ACTOR.seconds, time.monotonic()
        for member in list(self._members):
            if member.session is not None and now - member.active_at > limit:
                self._lose(member, f"it finished no turn within {timeouts.CLUSTER_ACTOR}")
        if any(member.starting is None for member in self._members):
            self._ready_at = now
        elif now - self._ready_at > timeouts.CLUSTER_START.seconds:
            raise ClusterError(
                "all rollout actors were lost, and none could be started again within "
                f"{timeouts.CLUSTER_START}. Checkpoints are kept: resume the run once the cluster has nodes"
            )

    def _pass_on_watched(self) -> None:
        watched = self._stream.refresh()
        if watched != self._watched:
            self._watched = watched
            for member in self._members:
                if member.starting is None:
                    member.handle.watch.remote(list(watched))


def _no_progress(done: int, tokens: int) -> None:
    """Progress callback of a request that nothing waits for yet."""
