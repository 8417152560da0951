"""Rollout runner: plays groups of episodes with a sampler and emits events as they occur."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from envs.base import TextBoard, TextEnv
from envs.pool import EnvironmentPool, Start, as_failure
from envs.sandbox.client import EnvironmentFailure
from trainer import timeouts
from trainer.config.run import RunConfig
from trainer.engines.sampler import Sampler, SamplingParams, TokenListener
from trainer.engines.stop_text import StopText
from trainer.journal.events import Event, GroupStarted
from trainer.policy.chat_format import ANSWER_END, ChatFormat
from trainer.rollout.episode import Episode
from trainer.rollout.positions import Position
from trainer.rollout.trajectory import Trajectory

ListenerFactory = Callable[[Sequence[str], Callable[[int], int]], TokenListener]
"""Creates the token listener of a session from its trajectories' ids by row, and the current turn of a row."""


class Interrupted(Exception):
    """A stop was requested; raised between turns."""


class EnvironmentsFailedError(RuntimeError):
    """The environment failed in every trajectory. The message names the most frequent error."""

    def __init__(self, message: str, trajectories: Sequence[Trajectory]) -> None:
        super().__init__(message)
        self.trajectories = list(trajectories)


def check_played(trajectories: Sequence[Trajectory]) -> None:
    """Raise EnvironmentsFailedError if the environment failed in all of the trajectories."""
    if trajectories and all(trajectory.failed for trajectory in trajectories):
        reasons = Counter(trajectory.error for trajectory in trajectories)
        (reason, times), total = reasons.most_common(1)[0], len(trajectories)
        message = f"no trajectory could be played to its end: {reason} ({times} of {total})"
        raise EnvironmentsFailedError(message, trajectories)


@dataclass(frozen=True)
class GroupPlan:
    """An initial state and the trajectories to play from it.

    Attributes:
        group: number of the group.
        seed: seed of the initial state.
        members: ids of the trajectories.
        dynamics_seeds, sampling_seeds: seeds by member.
        environment: number of the environment, recorded in its trajectories.
        config: settings of the group's environment, if they differ from the runner's.
        position: position of a recorded episode from which all trajectories are played on; None: the initial state.
    """

    group: int
    seed: int
    members: tuple[str, ...]
    dynamics_seeds: tuple[int, ...]
    sampling_seeds: tuple[int, ...]
    environment: int = 0
    config: RunConfig | None = None
    position: Position | None = None


@dataclass(frozen=True)
class RolloutRequest:
    """Groups to play, and their context.

    Attributes:
        suite: name of the evaluation suite, if any.
        turns: sampled turns after which a trajectory is interrupted; None: it is played to its end.
    """

    plans: Sequence[GroupPlan]
    iteration: int
    split: Literal["train", "eval"]
    temperature: float
    suite: str | None = None
    turns: int | None = None


@dataclass
class RolloutRunner:
    """Plays turns until every trajectory of the requested groups has ended.

    Attributes:
        config: the run's settings.
        chat: formats prompts and decodes responses.
        sampler: samples responses.
        context: context length in tokens.
        emit: receives events as they occur.
        stop: polled between turns; True interrupts the rollout.
        progress: receives the numbers of finished trajectories and of sampled tokens.
        on_work: receives what was done between two moments of the monotonic clock: "sampling" or "environment".
    """

    config: RunConfig
    chat: ChatFormat
    sampler: Sampler
    context: int
    emit: Callable[..., None]
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[int, int], None] = lambda done, tokens: None
    on_work: Callable[[str, float, float], None] = lambda kind, began, ended: None

    def __post_init__(self) -> None:
        self._pools: dict[str, EnvironmentPool] = {}
        self._stop = StopText(ANSWER_END, self.chat.tokenizer)

    def close(self) -> None:
        """End the sandbox processes of environments and close the sampler."""
        self.close_environments()
        self.sampler.close()

    def close_environments(self) -> None:
        """End the sandbox processes of environments; the next rollout starts them again."""
        for pool in self._pools.values():
            pool.close()

    def play(self, request: RolloutRequest, listener: ListenerFactory | None = None) -> list[Trajectory]:
        """Play all groups. Returns their trajectories in the order of the plans.

        Raises:
            Interrupted: a stop was requested.
            EnvironmentsFailedError: the environment failed in every trajectory.
            PositionError: the position of a plan cannot be restored.
        """
        rows, began = _Rows(), time.monotonic()
        try:
            for plan, environments in self._open(request.plans):
                self.emit(*self._start_group(request, plan, environments, rows))
                self._check_stop(rows.episodes)
            self.on_work("environment", began, time.monotonic())
            self._play_turns(rows, request, listener)
        finally:
            self.sampler.sleep()
            for episode in rows.episodes:
                episode.env.close()
        check_played(rows.trajectories)
        return rows.trajectories

    def _sampling_params(self, request: RolloutRequest) -> SamplingParams:
        """Return the sampling parameters of a request."""
        rollout = self.config.rollout
        return SamplingParams(
            temperature=request.temperature,
            max_tokens=rollout.max_response_tokens,
            stop=self._stop if rollout.stops_at_answer else None,
        )

    def _open(self, plans: Sequence[GroupPlan]) -> Iterator[tuple[GroupPlan, Iterator[TextEnv | Exception]]]:
        """Yield each plan with an iterator over its members' environments; environments of one kind start together."""
        starts: dict[str, list[Start]] = {}
        for plan in plans:
            starts.setdefault(self._pool_key(plan), []).extend((plan.seed, seed) for seed in plan.dynamics_seeds)
        environments = {key: self._pools[key].start(of_kind) for key, of_kind in starts.items()}
        for plan in plans:
            yield plan, environments[self._pool_key(plan)]

    def _pool_key(self, plan: GroupPlan) -> str:
        """Return the key of the plan's environment pool, which is created if missing."""
        environment = (plan.config or self.config).environment
        key = environment.model_dump_json(include={"name", "settings"})
        if key not in self._pools:
            self._pools[key] = EnvironmentPool(
                environment.name,
                environment.settings,
                step_timeout=timeouts.ENVIRONMENT_STEP.seconds,
                start_timeout=timeouts.ENVIRONMENT_START.seconds,
            )
        return key

    def _play_turns(self, rows: _Rows, request: RolloutRequest, listener: ListenerFactory | None) -> None:
        """Play turns until all episodes have ended; a row's next turn starts as soon as the sampler takes it."""
        episodes, params = rows.episodes, self._sampling_params(request)
        names = [episode.trajectory.id for episode in episodes]
        token_listener = listener(names, lambda row: len(episodes[row].trajectory.turns)) if listener else None
        session = self.sampler.session(rows.seeds, params, token_listener)
        done, tokens, asked = len(rows.trajectories) - len(episodes), 0, time.monotonic()
        last = [None if request.turns is None else len(e.trajectory.turns) + request.turns for e in episodes]
        for row, response in session.generate({row: e.prompt(whole=True) for row, e in enumerate(episodes)}):
            sampled = time.monotonic()
            self.on_work("sampling", asked, sampled)
            episode = episodes[row]
            turn = episode.receive(response)
            events: list[Event] = [turn] if turn else []
            tokens += response.tokens
            if not episode.ended and len(episode.trajectory.turns) == last[row]:
                episode.interrupt()
            if episode.ended:
                events.append(episode.trajectory.finished())
                episode.env.close()
                done += 1
            self.emit(*events)
            self.progress(done, tokens)
            self._check_stop(episodes)
            if not episode.ended:
                if episode.resets_prompt:
                    session.reset_row(row)
                session.append(row, episode.prompt())
            asked = time.monotonic()
            self.on_work("environment", sampled, asked)
        self.on_work("sampling", asked, time.monotonic())
        if not all(episode.ended for episode in episodes):  # the sampler detected the stop request first
            self._interrupt(episodes)

    def _check_stop(self, episodes: Sequence[Episode]) -> None:
        if self.stop():
            self._interrupt(episodes)

    def _interrupt(self, episodes: Sequence[Episode]) -> NoReturn:
        self.emit(*(episode.interrupt() for episode in episodes if not episode.ended))
        raise Interrupted

    def _start_group(
        self,
        request: RolloutRequest,
        plan: GroupPlan,
        environments: Iterator[TextEnv | Exception],
        rows: _Rows,
    ) -> list[Event]:
        """Add the group's trajectories to the rows. Returns group_started, given turns, and ends at the start."""
        config = plan.config or self.config
        episodes: list[Episode] = []
        events: list[Event] = []
        for member, (name, seed) in enumerate(zip(plan.members, plan.sampling_seeds, strict=True)):
            trajectory = Trajectory(id=name, group=plan.group, member=member, environment=plan.environment)
            rows.trajectories.append(trajectory)
            env = next(environments)
            try:
                episode, given = self._open_episode(env, plan, trajectory)
            except EnvironmentFailure as error:
                trajectory.fail(error)
                events.append(trajectory.finished())
                continue
            episodes.append(episode)
            events += given
            if episode.ended:
                events.append(trajectory.finished())
                episode.env.close()
                continue
            rows.episodes.append(episode)
            rows.seeds.append(seed)
        first, environment = episodes[0] if episodes else None, config.environment
        task = first.task if first else environment.instruction
        started = GroupStarted(
            iteration=request.iteration,
            split=request.split,
            suite=request.suite,
            group=plan.group,
            environment=environment.name,
            seed=plan.seed,
            prompt=task or "",
            board=first.board if first else TextBoard(text=str(rows.trajectories[-1].error)),
            hint=first.hint if first else None,
            members=list(plan.members),
            tools=list(first.chat.tools) or None if first else None,
        )
        return [started, *events]

    def _open_episode(
        self, env: TextEnv | Exception, plan: GroupPlan, trajectory: Trajectory
    ) -> tuple[Episode, list[Event]]:
        """Open an episode at the plan's position. Returns it, and the turn whose response the position gives."""
        if isinstance(env, Exception):
            raise as_failure(env) from env
        try:
            episode = Episode(env, plan.config or self.config, self.chat, trajectory, self.context)
            given = plan.position.restore(episode) if plan.position else None
        except Exception:
            env.close()
            raise
        return episode, [given] if given else []


class _Rows:
    """All trajectories of a rollout; episodes and sampling seeds only if the environment has a first state."""

    def __init__(self) -> None:
        self.trajectories: list[Trajectory] = []
        self.episodes: list[Episode] = []
        self.seeds: list[int] = []
