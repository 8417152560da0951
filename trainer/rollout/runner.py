"""Plays groups of episodes through a sampler, turn after turn, and tells what happens in the order in which it does.

What happens inside one episode is episode.py's; learning, filtering, statistics and how tokens are drawn are elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from envs.base import TextBoard, TextEnv
from envs.pool import EnvironmentPool, Start, failure_message
from envs.sandbox.client import EnvironmentFailure
from trainer.config.run import RunConfig
from trainer.engines.base import Sampler, SamplingParams, TokenListener
from trainer.journal.events import Event, GroupStarted
from trainer.policy.chat_format import ChatFormat, opening_message
from trainer.rollout.episode import Episode
from trainer.rollout.trajectory import Trajectory


class Interrupted(Exception):
    """The run was asked to stop; raised between turns, never inside one."""


@dataclass(frozen=True)
class GroupPlan:
    """An initial state and the trajectories to play from it.

    `config` says in which environment and with which budgets, where they are not the player's own; `environment` is the
    number that its trajectories bear for it.
    """

    group: int
    seed: int
    members: tuple[str, ...]
    dynamics_seeds: tuple[int, ...]
    sampling_seeds: tuple[int, ...]
    environment: int = 0
    config: RunConfig | None = None


class EnvironmentsFailedError(RuntimeError):
    """The environment broke down in every single trajectory. The message says what most of them ended with."""

    def __init__(self, message: str, trajectories: Sequence[Trajectory]) -> None:
        super().__init__(message)
        self.trajectories = list(trajectories)


@dataclass
class RolloutRunner:
    """Plays turns until every trajectory of the given groups has ended.

    `tell` receives events in the order in which things happen; `stop` is asked between turns. `close` ends what plays
    beside this process.
    """

    config: RunConfig
    chat: ChatFormat
    sampler: Sampler
    context: int
    tell: Callable[..., None]
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[int, int], None] = lambda done, tokens: None

    def __post_init__(self) -> None:
        self._pools: dict[str, EnvironmentPool] = {}

    def close(self) -> None:
        """End the processes of guarded environments and what the sampler started; nothing can be played afterwards."""
        for pool in self._pools.values():
            pool.close()
        self.sampler.close()

    def play(
        self,
        plans: Sequence[GroupPlan],
        *,
        iteration: int,
        split: Literal["train", "eval"],
        temperature: float,
        suite: str | None = None,
        listener: Callable[[Sequence[str], Callable[[int], int]], TokenListener] | None = None,
    ) -> list[Trajectory]:
        """Play all groups; gives their trajectories in the order of the plans.

        Raises:
            Interrupted: the run was asked to stop.
            WorldsFailedError: the environment broke down in all of them.
        """
        table = _Rows()
        try:
            for plan, worlds in self._opened(plans):
                self.tell(*self._start(plan, worlds, table, iteration, split, suite))
                self._stop_if_asked(table.episodes)
            rollout = self.config.rollout
            params = SamplingParams(
                temperature=temperature,
                top_p=rollout.top_p if split == "train" else 1.0,
                top_k=rollout.top_k if split == "train" else 0,
                min_p=rollout.min_p if split == "train" else 0.0,
                max_tokens=rollout.max_response_tokens,
            )
            self._turns(table, params, listener)
        finally:
            self.sampler.sleep()
            for episode in table.episodes:
                episode.env.close()
        trajectories = table.trajectories
        if trajectories and all(trajectory.failed for trajectory in trajectories):
            reasons = Counter(trajectory.error for trajectory in trajectories)
            (reason, times), total = reasons.most_common(1)[0], len(trajectories)
            message = f"no trajectory could be played to its end: {reason} ({times} of {total})"
            raise EnvironmentsFailedError(message, trajectories)
        return trajectories

    def _opened(self, plans: Sequence[GroupPlan]) -> Iterator[tuple[GroupPlan, Iterator[TextEnv | Exception]]]:
        """Each plan with its environments still to come, one for each member: those of one kind are opened together."""
        starts: dict[str, list[Start]] = {}
        for plan in plans:
            starts.setdefault(self._kind(plan), []).extend((plan.seed, dynamics) for dynamics in plan.dynamics_seeds)
        coming = {kind: self._pools[kind].start(of_kind) for kind, of_kind in starts.items()}
        for plan in plans:
            yield plan, coming[self._kind(plan)]

    def _kind(self, plan: GroupPlan) -> str:
        """What the plan's environments are kept under, ready to be opened."""
        environment = (plan.config or self.config).environment
        kind = environment.model_dump_json(include={"name", "settings", "step_timeout", "start_timeout"})
        if kind not in self._pools:
            self._pools[kind] = EnvironmentPool(
                environment.name,
                environment.settings,
                step_timeout=environment.step_timeout,
                start_timeout=environment.start_timeout,
            )
        return kind

    def _turns(
        self,
        table: _Rows,
        params: SamplingParams,
        listener: Callable[[Sequence[str], Callable[[int], int]], TokenListener] | None,
    ) -> None:
        """Turn after turn for everybody who is still playing; nobody waits for another unless the sampler does."""
        episodes = table.episodes
        names = [episode.trajectory.id for episode in episodes]
        watcher = listener(names, lambda row: len(episodes[row].trajectory.turns)) if listener else None
        session = self.sampler.session(table.seeds, params, watcher)
        done, tokens = len(table.trajectories) - len(episodes), 0
        for row, response in session.generate({row: episode.prompt() for row, episode in enumerate(episodes)}):
            episode = episodes[row]
            turn = episode.receive(response)
            events: list[Event] = [turn] if turn else []
            tokens += response.tokens
            if episode.ended:
                events.append(episode.finished())
                episode.env.close()
                done += 1
            self.tell(*events)
            self.progress(done, tokens)
            self._stop_if_asked(episodes)
            if not episode.ended:
                if episode.restarts:
                    session.reset_row(row)
                session.append(row, episode.prompt())
        if not all(episode.ended for episode in episodes):  # the sampler was the first to see that a stop is asked for
            self._interrupt(episodes)

    def _stop_if_asked(self, episodes: Sequence[Episode]) -> None:
        if self.stop():
            self._interrupt(episodes)

    def _interrupt(self, episodes: Sequence[Episode]) -> NoReturn:
        self.tell(*(episode.interrupt() for episode in episodes if not episode.ended))
        raise Interrupted

    def _start(
        self,
        plan: GroupPlan,
        worlds: Iterator[TextEnv | Exception],
        table: _Rows,
        iteration: int,
        split: Literal["train", "eval"],
        suite: str | None,
    ) -> list[Event]:
        """Put the group's trajectories on the table. Gives its announcement and the ends of those that cannot begin."""
        config = plan.config or self.config
        episodes: list[Episode] = []
        ends: list[Event] = []
        for member, (name, seed) in enumerate(zip(plan.members, plan.sampling_seeds, strict=True)):
            trajectory = Trajectory(id=name, group=plan.group, member=member, environment=plan.environment)
            table.trajectories.append(trajectory)
            world = next(worlds)
            try:
                if isinstance(world, Exception):
                    raise EnvironmentFailure(failure_message(world)) from world
                episodes.append(Episode(world, config, self.chat, trajectory, self.context))
            except EnvironmentFailure as error:
                trajectory.fail(str(error))
                ends.append(trajectory.finished())
                if isinstance(world, TextEnv):
                    world.close()
                continue
            table.episodes.append(episodes[-1])
            table.seeds.append(seed)
        first = episodes[0] if episodes else None
        instruction = config.environment.instruction
        started = GroupStarted(
            iteration=iteration,
            split=split,
            suite=suite,
            group=plan.group,
            environment=config.environment.name,
            seed=plan.seed,
            prompt=opening_message(first.env.world, config.rollout, instruction) if first else instruction or "",
            board=first.board if first else TextBoard(text=str(table.trajectories[-1].error)),
            hint=first.hint if first else None,
            members=list(plan.members),
        )
        return [started, *ends]


class _Rows:
    """Who plays: every trajectory in order; and of those whose environment gave a first state, episode and seed."""

    def __init__(self) -> None:
        self.trajectories: list[Trajectory] = []
        self.episodes: list[Episode] = []
        self.seeds: list[int] = []
