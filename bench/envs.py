"""Speed of the environments: single steps, batches of 128 with text, turns of five actions, generation of rooms.

    python -m bench.envs --peers DIR           # beside gym-sokoban, EnvPool and Jumanji, installed into DIR if missing
    python -m bench.envs --peers DIR --quick   # within a minute, once the peers are installed
    python -m bench.envs                       # beside Gymnasium alone

Everything is measured in turn, ours and then each peer, for several rounds after an uncounted one. Figures are medians
of the rounds, ratios medians of the ratios within a round. Resets and the choice of actions are excluded, except for
rooms, where they are the work. Ours always renders its text.
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
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import envs
from bench.lib.peers.env_peers import PACKAGES, NotInstallable, Peer
from bench.lib.workers.env_worker import ACTIONS, EPISODE, ROWS, counted
from envs.vector import make_batch
from trainer.studies import machine

OURS = "Echoscope"
ROUNDS = 7
TURNS = 3
"""Turns of a batch between resets: few enough for most rows to play all of them."""
Measure = Callable[[float], float]
"""Takes seconds of clock time; returns operations per second."""


@dataclass
class EnvironmentComparison:
    """One kind of work, measured for this project and for peers. Rates are per second, one per round."""

    work: str
    ours: Measure
    peers: dict[str, Measure]
    aims: dict[str, float] = field(default_factory=dict)
    """Target ratio of our rate to the peer's."""
    most_milliseconds: float | None = None
    """Time limit of ours; the table then lists times instead of rates."""
    rates: dict[str, list[float]] = field(default_factory=dict)

    def play(self, seconds: float) -> None:
        """One round."""
        for name, measure in {OURS: self.ours, **self.peers}.items():
            self.rates.setdefault(name, []).append(measure(seconds))

    def figure(self, name: str = OURS) -> float:
        """The median rate, without the first round."""
        return statistics.median(self.rates[name][1:])

    def ratio(self, name: str) -> float:
        """Our rate over the peer's."""
        return statistics.median(
            ours / theirs for ours, theirs in zip(self.rates[OURS][1:], self.rates[name][1:], strict=True)
        )

    def shown(self, name: str = OURS) -> str:
        """A figure with its unit."""
        rate = self.figure(name)
        return f"{rate:,.0f} /s" if self.most_milliseconds is None else f"{1000 / rate:,.2f} ms"

    def rows(self) -> list[str]:
        """Table rows, one per peer."""
        rows = []
        if self.most_milliseconds is not None:
            met = 1000 / self.figure() <= self.most_milliseconds
            rows.append(f"| {self.work} | {self.shown()} | | | | ≤ {self.most_milliseconds:.0f} ms {_mark(met)} |")
        for name in self.peers:
            ratio, aim = self.ratio(name), self.aims.get(name)
            target = "" if aim is None else f"≥ {aim:.0f} × {_mark(ratio >= aim)}"
            rows.append(
                f"| {self.work} | {self.shown()} | {name} | {self.shown(name)} | {_times(ratio)} × | {target} |"
            )
        return rows or [f"| {self.work} | {self.shown()} | | | | |"]

    def figures(self) -> dict[str, Any]:
        """Results for the JSON file."""
        peers = {name: {"per_second": self.figure(name), "ratio": self.ratio(name)} for name in self.peers}
        return {"work": self.work, "per_second": self.figure(), "peers": peers, "aims": self.aims}


def _mark(met: bool) -> str:
    return "✓" if met else "missed"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 20 else f"{ratio:.2g}"


def single_steps(name: str) -> Measure:
    """Steps of one environment, with its text; episodes start from a few initial states."""
    env = envs.make(name)
    rng = np.random.default_rng(0)

    def episode() -> tuple[int, float]:
        env.reset(seed=int(rng.integers(8)))
        actions = [env.env_spec.actions[number] for number in rng.integers(4, size=EPISODE)]
        done = 0
        started = time.perf_counter()
        for action in actions:
            done += 1
            if env.step(action)[2]:
                break
        return done, time.perf_counter() - started

    return lambda seconds: counted(seconds, episode)


def batch(name: str, start: str, actions: int, what: str, **settings: object) -> Measure:
    """Turns of 128 environments from 8 initial states, with the texts of all rows; `what` counts: turns or actions."""
    rows = make_batch(name, ROWS, settings)
    rng = np.random.default_rng(0)
    names = rows.single.env_spec.actions
    starts = [{start: rows.single.reset(seed=seed)[0]} for seed in range(8)]
    options = [option for option in starts for _ in range(ROWS // len(starts))]

    def episode() -> tuple[int, float]:
        rows.reset([0] * ROWS, rng.integers(2**60, size=ROWS).tolist(), options=options)
        done, took = 0, 0.0
        for numbers in rng.integers(4, size=(TURNS, ROWS, actions)).tolist():
            turns = [[names[number] for number in row] for row in numbers]
            started = time.perf_counter()
            played = rows.step(turns)
            took += time.perf_counter() - started
            done += 1 if what == "turns" else int(played.executed.sum())
        return done, took

    return lambda seconds: counted(seconds, episode)


def rooms(**settings: object) -> Measure:
    """Resets of one environment, each to a new room, with its text."""
    env = envs.make("Sokoban", settings)
    seeds = iter(range(10**9))

    def room() -> tuple[int, float]:
        started = time.perf_counter()
        env.reset(seed=next(seeds))
        return 1, time.perf_counter() - started

    return lambda seconds: counted(seconds, room)


def gymnasium_lake(*, write: Callable[[Any], object]) -> Measure:
    """Steps of Gymnasium's FrozenLake without its wrappers; `write` makes the text, or nothing."""
    env = gymnasium.make("FrozenLake-v1", render_mode="ansi").unwrapped
    rng = np.random.default_rng(0)

    def episode() -> tuple[int, float]:
        env.reset(seed=int(rng.integers(8)))
        actions = rng.integers(4, size=EPISODE).tolist()
        done = 0
        started = time.perf_counter()
        for action in actions:
            done += 1
            over = env.step(action)[2]
            write(env)
            if over:
                break
        return done, time.perf_counter() - started

    return lambda seconds: counted(seconds, episode)


def gymnasium_lakes() -> Measure:
    """Steps of 128 FrozenLakes in Gymnasium's SyncVectorEnv, with their texts."""
    env = gymnasium.make_vec("FrozenLake-v1", ROWS, vectorization_mode="sync", render_mode="ansi")
    rng = np.random.default_rng(0)
    env.reset(seed=0)

    def step() -> tuple[int, float]:
        actions = rng.integers(4, size=ROWS)
        started = time.perf_counter()
        env.step(actions)
        env.render()
        return ROWS, time.perf_counter() - started

    return lambda seconds: counted(seconds, step)


def contests(peers: dict[str, Peer], loop: int) -> list[EnvironmentComparison]:
    """All comparisons with the installed peers; of a peer's loop over 128 environments, `loop` are run."""

    def ask(peer: str, label: str, measure: str, **arguments: object) -> dict[str, Measure]:
        return {peer + label: partial(peers[peer].ask, measure, **arguments)} if peer in peers else {}

    rgb, tiny = {"mode": "rgb_array"}, {"mode": "tiny_rgb_array"}
    small, large = {"size": 6, "boxes": 1}, {"size": 8, "boxes": 2}
    default, least = "gym-sokoban, RGB (its default)", "gym-sokoban, tiny RGB"

    def paints(measure: str, **arguments: object) -> dict[str, Measure]:
        painted = ask("gym-sokoban", ", RGB (its default)", measure, **arguments, **rgb)
        return painted | ask("gym-sokoban", ", tiny RGB", measure, **arguments, **tiny)

    compiled = ask("EnvPool", ", 10×10, no text", "batch", name="Sokoban-v0")
    compiled |= ask("Jumanji", ", 10×10, no text", "batch")
    lake = {
        "Gymnasium, no text": gymnasium_lake(write=lambda env: None),
        "Gymnasium, with text": gymnasium_lake(write=lambda env: env.render()),
    }
    lakes = {"Gymnasium SyncVectorEnv, with text": gymnasium_lakes()}
    lakes |= ask("EnvPool", ", no text", "batch", name="FrozenLake-v1")
    steps = {default: 300.0, least: 10.0}
    ten = {"size": 10, "boxes": 4, "max_length": 20}
    return [
        EnvironmentComparison("Sokoban 6×6, 1 box: steps", single_steps("Sokoban"), paints("steps", **small), steps),
        EnvironmentComparison(
            "Sokoban 8×8, 2 boxes: steps", single_steps("LargeSokoban"), paints("steps", **large), steps
        ),
        EnvironmentComparison("FrozenLake 4×4: steps", single_steps("FrozenLake"), lake),
        EnvironmentComparison(
            "128 Sokobans 6×6: actions, a text after each", batch("Sokoban", "room", 1, "actions"), {}
        ),
        EnvironmentComparison(
            "128 Sokobans 10×10: actions, a text after each", batch("Sokoban", "room", 1, "actions", **ten), compiled
        ),
        EnvironmentComparison(
            "128 Sokobans 10×10: actions, a text after five",
            batch("Sokoban", "room", ACTIONS, "actions", **ten),
            compiled,
        ),
        EnvironmentComparison(
            "128 FrozenLakes 4×4: actions, a text after each", batch("FrozenLake", "map", 1, "actions"), lakes
        ),
        EnvironmentComparison(
            "128 Sokobans 6×6: a turn of 5 actions and the texts",
            batch("Sokoban", "room", ACTIONS, "turns"),
            paints("turns", rows=loop),
            most_milliseconds=5,
        ),
        EnvironmentComparison(
            "Sokoban 6×6, 1 box: rooms", rooms(), ask("gym-sokoban", "", "rooms", **small), {"gym-sokoban": 10}
        ),
        EnvironmentComparison(
            "Sokoban 8×8, 2 boxes: rooms", rooms(**large), ask("gym-sokoban", "", "rooms", **large), {"gym-sokoban": 50}
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed of the environments beside peers.")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="folder of the peers; missing ones are installed")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    seconds, rounds, loop = (0.05, 5, 8) if options.quick else (0.5, ROUNDS, ROWS)
    words = machine.describe()
    with ExitStack() as stack:
        peers, missing = {}, {}
        for name in PACKAGES:
            try:
                if options.peers is None:
                    raise NotInstallable("not requested (give --peers DIR)")
                peers[name] = stack.enter_context(closing(Peer(name, options.peers)))
            except NotInstallable as reason:
                missing[name] = str(reason)
        work = contests(peers, loop)
        for _ in range(rounds + 1):
            for contest in work:
                contest.play(seconds)
        versions = [f"gymnasium {gymnasium.__version__}", *(peer.versions for peer in peers.values())]
    print(f"{words}\n{', '.join(versions)}\nMedians of {rounds} rounds.\n")
    print("| work | ours | peer | theirs | ratio | aim |\n| --- | ---: | --- | ---: | ---: | --- |")
    print("\n".join(row for contest in work for row in contest.rows()))
    for name, reason in missing.items():
        print(f"| – | – | {name} | {reason} | | |")
    if options.json:
        figures = {"machine": words, "versions": versions, "rounds": rounds, "missing": missing}
        figures["contests"] = [contest.figures() for contest in work]
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
