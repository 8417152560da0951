"""Measures a peer environment inside the peer's own virtual environment.

Reads lines of JSON {"measure": …, "seconds": …} and answers {"rate": …} in operations per second. Imports only the
standard library and the peer.
"""

from __future__ import annotations

import copy
import json
import os
import random
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

ROWS, ACTIONS = 128, 5
EPISODE = 100
SYMBOLS = "#_O√XP"


def counted(seconds: float, episode: Callable[[], tuple[int, float]]) -> float:
    """Operations per second, episode after episode until the time is over."""
    done, clock = 0, 0.0
    while clock < seconds:
        more, took = episode()
        done, clock = done + more, clock + took
    return done / clock


class GymSokoban:
    """gym-sokoban: single environments; 128 of them in a loop, which is how groups of it are played."""

    def __init__(self) -> None:
        import numpy as np

        if not hasattr(np, "bool8"):
            np.bool8 = np.bool_  # gym 0.26 still uses this NumPy name
        from gym_sokoban.envs import room_utils, sokoban_env

        random.seed(0)
        np.random.seed(0)
        self.numpy, self.room_utils, self.kind = np, room_utils, sokoban_env.SokobanEnv
        self.starts = {(6, 1): [self._made(6, 1) for _ in range(8)], (8, 2): [self._made(8, 2) for _ in range(2)]}

    def _made(self, size: int, boxes: int) -> Any:
        return self.kind((size, size), max_steps=10**9, num_boxes=boxes)

    def steps(self, seconds: float, size: int, boxes: int, mode: str) -> float:
        def episode() -> tuple[int, float]:
            env = copy.deepcopy(random.choice(self.starts[size, boxes]))
            actions = random.choices((1, 2, 3, 4), k=EPISODE)
            done = 0
            started = time.perf_counter()
            for action in actions:
                done += 1
                if env.step(action, observation_mode=mode)[2]:
                    break
            return done, time.perf_counter() - started

        return counted(seconds, episode)

    def turns(self, seconds: float, mode: str, rows: int) -> float:
        """Turns of 128 environments per second, with their texts, extrapolated from `rows` of them."""

        def episode() -> tuple[int, float]:
            loop = [copy.deepcopy(self.starts[6, 1][row % 8]) for row in range(rows)]
            turns = [random.choices((1, 2, 3, 4), k=ACTIONS) for _ in loop]
            started = time.perf_counter()
            for env, turn in zip(loop, turns, strict=True):
                for action in turn:
                    if env.step(action, observation_mode=mode)[2]:
                        break
            for env in loop:
                "\n".join("".join(SYMBOLS[int(cell)] for cell in row) for row in env.room_state)
            return 1, time.perf_counter() - started

        return counted(seconds, episode) * rows / ROWS

    def rooms(self, seconds: float, size: int, boxes: int) -> float:
        def episode() -> tuple[int, float]:
            started = time.perf_counter()
            while True:
                try:
                    self.room_utils.generate_room((size, size), num_steps=int(1.7 * 2 * size), num_boxes=boxes)
                    return 1, time.perf_counter() - started
                except (RuntimeError, RuntimeWarning):  # generation failed: its environment retries, too
                    continue

        return counted(seconds, episode)


class EnvPool:
    """EnvPool: its FrozenLake and its Sokoban (10×10 levels), 128 at once, no text."""

    def __init__(self) -> None:
        import envpool
        import numpy as np

        self.numpy = np
        self.worlds = {
            name: envpool.make(name, env_type="gymnasium", num_envs=ROWS) for name in ("FrozenLake-v1", "Sokoban-v0")
        }
        for world in self.worlds.values():
            world.reset()

    def batch(self, seconds: float, name: str) -> float:
        world = self.worlds[name]

        def episode() -> tuple[int, float]:
            actions = self.numpy.random.randint(4, size=(EPISODE, ROWS)).astype(self.numpy.int32)
            started = time.perf_counter()
            for now in actions:
                world.step(now)
            return EPISODE * ROWS, time.perf_counter() - started

        return counted(seconds, episode)


class Jumanji:
    """Jumanji: its Sokoban (10×10), 128 at once, compiled by JAX, no text."""

    def __init__(self) -> None:
        import jax
        import numpy as np
        from jumanji.environments import Sokoban
        from jumanji.environments.routing.sokoban.generator import SimpleSolveGenerator

        env = Sokoban(generator=SimpleSolveGenerator())
        self.numpy, self.wait, self.step = np, jax.block_until_ready, jax.jit(jax.vmap(env.step))
        self.state, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.PRNGKey(0), ROWS))
        self.wait(self.step(self.state, np.zeros(ROWS, np.int32)))

    def batch(self, seconds: float) -> float:
        def episode() -> tuple[int, float]:
            actions = self.numpy.random.randint(4, size=(EPISODE, ROWS)).astype(self.numpy.int32)
            state = self.state
            started = time.perf_counter()
            for now in actions:
                state, timestep = self.step(state, now)
            self.wait(timestep)
            return EPISODE * ROWS, time.perf_counter() - started

        return counted(seconds, episode)


PEERS = {"gym-sokoban": GymSokoban, "EnvPool": EnvPool, "Jumanji": Jumanji}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of libraries is not a result
    warnings.simplefilter("ignore")
    peer = PEERS[sys.argv[1]]()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        rate = getattr(peer, request.pop("measure"))(**request)
        print(json.dumps({"rate": rate}), file=answers, flush=True)


if __name__ == "__main__":
    main()
