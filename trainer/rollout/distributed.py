"""Playing with several processes: each plays its share of the groups, the main one writes down what all of them tell.

Events of one trajectory stay in order; those of different groups come as they happen, as they always do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from trainer.distributed.control_channel import ControlChannel
from trainer.distributed.group import ProcessGroup
from trainer.distributed.torchrun import TorchrunGroup
from trainer.engines.base import TokenListener
from trainer.rollout.runner import EnvironmentsFailedError, GroupPlan, Interrupted, RolloutRunner
from trainer.rollout.trajectory import Trajectory

_WAIT = 0.05  # seconds for each of the others, once the main process has played its own share


def shard(player: RolloutRunner, team: ProcessGroup) -> RolloutRunner:
    """The player, with its groups dealt out to all processes of the run where each can play by itself."""
    elsewhere = player.config.engine.name != "transformers" or player.config.hosted.url
    return DistributedRollout.over(player, team) if isinstance(team, TorchrunGroup) and not elsewhere else player


@dataclass
class DistributedRollout(RolloutRunner):
    """The main process's player. Which process plays a group changes nothing but when."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.team: TorchrunGroup
        self.inner: RolloutRunner

    @classmethod
    def over(cls, player: RolloutRunner, team: TorchrunGroup) -> Self:
        """A player that shares what this one is asked to play."""
        made = cls(**{field.name: getattr(player, field.name) for field in fields(RolloutRunner)})
        made.team, made.inner = team, player
        return made

    def close(self) -> None:
        self.inner.close()

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
        """As `Player.play`; the main process's own share may be watched while it is written."""
        options = {"iteration": iteration, "split": split, "temperature": temperature, "suite": suite}
        shares = [list(plans[number :: self.team.size]) for number in range(self.team.size)]
        table = _RemoteProgress(self)
        for number in range(1, self.team.size):
            if shares[number]:
                self.team.order(number, "play", shares[number], options)
                table.awaited.add(number)
        self.inner.tell, self.inner.progress, self.inner.stop = self.tell, table.own, table.stop
        played: list[Trajectory] = []
        broken: EnvironmentsFailedError | None = None
        try:
            if shares[0]:
                played = self.inner.play(shares[0], listener=listener, **options)  # type: ignore[arg-type]
        except Interrupted:
            table.halt()
            raise
        except EnvironmentsFailedError as error:
            broken, played = error, error.trajectories
        table.wait()
        if table.interrupted:
            raise Interrupted
        trajectories = _in_order(plans, [played, *table.played])
        if broken and all(trajectory.failed for trajectory in trajectories):
            raise broken
        return trajectories


class _RemoteProgress:
    """What the other processes are at."""

    def __init__(self, player: DistributedRollout) -> None:
        self.player, self.team = player, player.team
        self.awaited: set[int] = set()
        self.counts: dict[int, tuple[int, int]] = {}
        self.played: list[list[Trajectory]] = []
        self.interrupted = self.halted = False

    def own(self, done: int, tokens: int) -> None:
        """Take note of the main process's own progress and tell that of all."""
        self.counts[0] = (done, tokens)
        self.player.progress(sum(n for n, _ in self.counts.values()), sum(n for _, n in self.counts.values()))

    def stop(self) -> bool:
        """Asked between turns: hear the others, and whether the run is to stop."""
        self.hear()
        return self.player.stop()

    def hear(self, seconds: float = 0.0) -> None:
        """Write down what the others have told since."""
        for number in sorted(self.awaited):
            for kind, *told in self.team.answers(number, seconds):
                match kind:
                    case "events":
                        self.player.tell(*told[0])
                        self.counts[number] = (told[1], told[2])
                        own = self.counts.get(0, (0, 0))
                        self.own(*own)
                    case "played":
                        self.played.append(told[0])
                        self.awaited.discard(number)
                    case "interrupted":
                        self.interrupted = True
                        self.awaited.discard(number)

    def wait(self) -> None:
        """Until everybody has played; a request to stop is passed on."""
        while self.awaited:
            if self.player.stop():
                self.halt()
                return
            self.hear(_WAIT)

    def halt(self) -> None:
        """Have the others break off, and hear their last words."""
        for number in sorted(self.awaited):
            self.team.order(number, "stop")
        self.interrupted = True
        while self.awaited:
            self.hear(_WAIT)


def _in_order(plans: Sequence[GroupPlan], shares: Sequence[Sequence[Trajectory]]) -> list[Trajectory]:
    """Trajectories in the order of the plans, whoever played them."""
    place = {name: number for number, name in enumerate(name for plan in plans for name in plan.members)}
    return sorted((one for share in shares for one in share), key=lambda one: place[one.id])


def rollout_shard(
    wire: ControlChannel, player: RolloutRunner, plans: Sequence[GroupPlan], options: dict[str, Any]
) -> None:
    """In another process: play some groups, and tell the main process what happens and what came of it."""
    counts = [0, 0]
    stopped = False

    def tell(*events: Any) -> None:
        wire.send(("events", events, *counts))

    def progress(done: int, tokens: int) -> None:
        counts[:] = [done, tokens]

    def stop() -> bool:
        nonlocal stopped
        while not stopped and wire.poll(0):
            stopped = wire.recv()[0] in ("stop", "end")
        return stopped

    player.tell, player.progress, player.stop = tell, progress, stop
    try:
        trajectories = player.play(plans, **options)
    except Interrupted:
        wire.send(("interrupted",))
        return
    except EnvironmentsFailedError as error:  # only the main process knows whether it is so everywhere
        trajectories = error.trajectories
    wire.send(("events", (), *counts))
    wire.send(("played", trajectories))
