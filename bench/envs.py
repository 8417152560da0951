"""Steps and resets of the environments per CPU second, compared with gym-sokoban and Gymnasium.

    python -m bench.envs --peers DIR           # gym-sokoban is installed into DIR if missing
    python -m bench.envs --peers DIR --quick   # within a minute, once it is installed
    python -m bench.envs                       # compared with Gymnasium only

"Steps" are actions in one environment, each with the text of its state. "In a rollout" they are taken as by the
trainer: turns of five actions with one text, and after every action the board and the solver's advice for the player.
Ours and the peers are measured in turn, for several rounds after an uncounted one. Figures are per second of CPU time,
so that they also mean something on a busy machine: medians of the rounds; ratios are medians of the ratios within a
round. Resets and the choice of actions are excluded, except for rooms, where they are the work.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import envs
from bench.lib.peers.env_peers import NotInstallable, gym_sokoban
from bench.lib.worker_protocol import Contender
from bench.lib.workers.env_worker import EPISODE, counted
from trainer.rollout.actions import ActionExecutor
from trainer.rollout.trajectory import Trajectory
from trainer.studies import machine

OURS, PEER = "Echoscope", "gym-sokoban"
ROUNDS, TURN = 7, 5
Measure = Callable[[float], float]
"""Function that takes seconds of CPU time and returns operations per second."""


@dataclass
class EnvironmentComparison:
    """One kind of work, measured for this project and its peers. Rates are per CPU second, one per round."""

    work: str
    ours: Measure
    peers: dict[str, Measure]
    rates: dict[str, list[float]] = field(default_factory=dict)

    def play(self, seconds: float) -> None:
        """Play one round."""
        for name, measure in {OURS: self.ours, **self.peers}.items():
            self.rates.setdefault(name, []).append(measure(seconds))

    def figure(self, name: str = OURS) -> float:
        """Return the median rate, without the first round."""
        return statistics.median(self.rates[name][1:])

    def ratio(self, name: str) -> float:
        """Return our rate over the peer's."""
        return statistics.median(
            ours / theirs for ours, theirs in zip(self.rates[OURS][1:], self.rates[name][1:], strict=True)
        )

    def rows(self) -> list[str]:
        """Return table rows, one per peer."""
        start = f"| {self.work} | {self.figure():,.0f} /s |"
        rows = [f"{start} {name} | {self.figure(name):,.0f} /s | {_times(self.ratio(name))} × |" for name in self.peers]
        return rows or [f"{start} | | |"]

    def figures(self) -> dict[str, Any]:
        """Return results for the JSON file."""
        peers = {name: {"per_second": self.figure(name), "ratio": self.ratio(name)} for name in self.peers}
        return {"work": self.work, "per_second": self.figure(), "peers": peers}


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 20 else f"{ratio:.2g}"


def single_steps(name: str) -> Measure:
    """Measure steps of one environment, each with its text; episodes start from a few initial states."""
    env = envs.make(name)
    rng = np.random.default_rng(0)

    def episode() -> tuple[int, float]:
        env.reset(seed=int(rng.integers(8)))
        actions = [env.env_spec.actions[number] for number in rng.integers(4, size=EPISODE)]
        done = 0
        started = time.process_time()
        for action in actions:
            done += 1
            if env.step(action)[2]:
                break
        return done, time.process_time() - started

    return lambda seconds: counted(seconds, episode)


def rollout_steps(name: str) -> Measure:
    """Measure actions as the trainer takes them, each episode from another initial state."""
    env = envs.make(name)
    rng = np.random.default_rng(0)
    seeds = iter(range(10**9))

    def episode() -> tuple[int, float]:
        env.reset(seed=next(seeds))
        actions = [env.env_spec.actions[number] for number in rng.integers(4, size=EPISODE)]
        trajectory = Trajectory("bench", 0, 0)
        started = time.process_time()
        executor = ActionExecutor(env, EPISODE, trajectory)
        for number, action in enumerate(actions):
            executor.execute(action, *divmod(number, TURN))
            if trajectory.ended:
                break
            if number % TURN == TURN - 1:
                env.render()
        return EPISODE - executor.remaining, time.process_time() - started

    return lambda seconds: counted(seconds, episode)


def rooms(**settings: object) -> Measure:
    """Measure resets of one environment, each to a new room, with its text."""
    env = envs.make("Sokoban", settings)
    seeds = iter(range(10**9))

    def room() -> tuple[int, float]:
        started = time.process_time()
        env.reset(seed=next(seeds))
        return 1, time.process_time() - started

    return lambda seconds: counted(seconds, room)


def gymnasium_lake() -> Measure:
    """Measure steps of Gymnasium's FrozenLake without its wrappers, each with its text."""
    env = gymnasium.make("FrozenLake-v1", render_mode="ansi").unwrapped
    rng = np.random.default_rng(0)

    def episode() -> tuple[int, float]:
        env.reset(seed=int(rng.integers(8)))
        actions = rng.integers(4, size=EPISODE).tolist()
        done = 0
        started = time.process_time()
        for action in actions:
            done += 1
            over = env.step(action)[2]
            env.render()
            if over:
                break
        return done, time.process_time() - started

    return lambda seconds: counted(seconds, episode)


def comparisons(peer: Contender | None) -> list[EnvironmentComparison]:
    """Return all comparisons; without gym-sokoban, Sokoban has no peer."""
    small, large = {"size": 6, "boxes": 1}, {"size": 8, "boxes": 2}

    def theirs(work: str, **arguments: Any) -> Measure:
        assert peer is not None
        return lambda seconds: float(peer.ask(work, seconds=seconds, **arguments)["rate"])

    def steps(size: dict[str, int]) -> dict[str, Measure]:
        modes = {"RGB (its default)": "rgb_array", "tiny RGB": "tiny_rgb_array"}
        return {f"{PEER}, {words}": theirs("steps", **size, mode=mode) for words, mode in modes.items()} if peer else {}

    def resets(size: dict[str, int]) -> dict[str, Measure]:
        return {PEER: theirs("rooms", **size)} if peer else {}

    lake = {"Gymnasium, with text": gymnasium_lake()}
    return [
        EnvironmentComparison("Sokoban 6×6, 1 box: steps", single_steps("Sokoban"), steps(small)),
        EnvironmentComparison("Sokoban 6×6, 1 box: in a rollout", rollout_steps("Sokoban"), steps(small)),
        EnvironmentComparison("Sokoban 8×8, 2 boxes: steps", single_steps("LargeSokoban"), steps(large)),
        EnvironmentComparison("Sokoban 8×8, 2 boxes: in a rollout", rollout_steps("LargeSokoban"), steps(large)),
        EnvironmentComparison("FrozenLake 4×4: steps", single_steps("FrozenLake"), lake),
        EnvironmentComparison("FrozenLake 4×4: in a rollout", rollout_steps("FrozenLake"), lake),
        EnvironmentComparison("Sokoban 6×6, 1 box: rooms", rooms(), resets(small)),
        EnvironmentComparison("Sokoban 8×8, 2 boxes: rooms", rooms(**large), resets(large)),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed of the environments compared with peers.")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="folder of gym-sokoban; installed if missing")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    seconds, rounds = (0.05, 5) if options.quick else (0.5, ROUNDS)
    host = machine.describe()
    with ExitStack() as stack:
        peer, missing = None, ""
        try:
            if options.peers is None:
                raise NotInstallable("not requested (give --peers DIR)")
            peer = stack.enter_context(closing(gym_sokoban(options.peers)))
        except NotInstallable as reason:
            missing = str(reason)
        work = comparisons(peer)
        for _ in range(rounds + 1):
            for comparison in work:
                comparison.play(seconds)
        versions = {"gymnasium": gymnasium.__version__} | (peer.ready["versions"] if peer else {})
    print(
        f"{host}\n{', '.join(map(' '.join, versions.items()))}\nPer second of CPU time; medians of {rounds} rounds.\n"
    )
    print("| work | ours | peer | theirs | ratio |\n| --- | ---: | --- | ---: | ---: |")
    print("\n".join(row for comparison in work for row in comparison.rows()))
    if missing:
        print(f"| – | – | {PEER} | {missing} | |")
    if options.json:
        figures = {"machine": host, "versions": versions, "rounds": rounds, "missing": missing}
        figures["work"] = [comparison.figures() for comparison in work]
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
