"""Measures gym-sokoban inside its virtual environment.

`python -m bench.lib.workers.env_worker` waits for commands (worker_protocol.py) and answers {"rate": …} in operations
per second of CPU time. Imports only the standard library and gym-sokoban.
"""

from __future__ import annotations

import copy
import random
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from bench.lib.worker_protocol import WorkerConnection

EPISODE = 100
"""Most steps between two resets."""


def counted(seconds: float, episode: Callable[[], tuple[int, float]]) -> float:
    """Return operations per second of CPU time, episode after episode until the time is over."""
    done, clock = 0, 0.0
    while clock < seconds:
        more, took = episode()
        done, clock = done + more, clock + took
    return done / clock


class GymSokoban:
    """Single environments of gym-sokoban."""

    def __init__(self) -> None:
        import numpy as np

        if not hasattr(np, "bool8"):
            np.bool8 = np.bool_  # gym 0.26 still uses this NumPy name
        from gym_sokoban.envs import room_utils, sokoban_env

        random.seed(0)
        np.random.seed(0)
        self.room_utils, self.kind = room_utils, sokoban_env.SokobanEnv
        self.starts = {(6, 1): [self._made(6, 1) for _ in range(8)], (8, 2): [self._made(8, 2) for _ in range(2)]}

    def _made(self, size: int, boxes: int) -> Any:
        return self.kind((size, size), max_steps=10**9, num_boxes=boxes)

    def steps(self, seconds: float, size: int, boxes: int, mode: str) -> float:
        def episode() -> tuple[int, float]:
            env = copy.deepcopy(random.choice(self.starts[size, boxes]))
            actions = random.choices((1, 2, 3, 4), k=EPISODE)
            done = 0
            started = time.process_time()
            for action in actions:
                done += 1
                if env.step(action, observation_mode=mode)[2]:
                    break
            return done, time.process_time() - started

        return counted(seconds, episode)

    def rooms(self, seconds: float, size: int, boxes: int) -> float:
        def episode() -> tuple[int, float]:
            started = time.process_time()
            while True:
                try:
                    self.room_utils.generate_room((size, size), num_steps=int(1.7 * 2 * size), num_boxes=boxes)
                    return 1, time.process_time() - started
                except (RuntimeError, RuntimeWarning):  # generation failed: gym-sokoban's environment retries, too
                    continue

        return counted(seconds, episode)


def main() -> None:
    connection = WorkerConnection()
    warnings.simplefilter("ignore")
    peer = GymSokoban()
    connection.answer(versions={name: version(name) for name in ("gym", "gym-sokoban")})
    while True:
        request = connection.next()
        connection.answer(rate=getattr(peer, request.pop("do"))(**request))


if __name__ == "__main__":
    main()
