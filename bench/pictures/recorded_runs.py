"""Runs of other trainers for the pictures, recorded as in docs/other-trainers.md: a game of images, and tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import echoscope
import envs
from echoscope.client import Client

SIDE, CELLS = 84, 12
"""Pixels of a frame, and cells of the game in each direction."""
FALL = ((3, 0), (4, 2), (5, 4), (6, 6), (7, 8), (8, 10))
"""Column and row of the ball in each turn."""
QUESTION = "A shop sells 3 kinds of tea. How many orders of 12 packets are there, if each kind is in it at least twice?"
CALLS = (
    ("Each kind appears at least twice, so I count the splits of 12.", "python(len([for a in range(2, 9)]))"),
    (
        "The loop needs an element before “for”. I write it out.",
        "python(n = sum(1 for a in range(2, 9) for b in range(2, 9) if 2 <= 12 - a - b)\nprint(n))",
    ),
    ("There are 28 splits of 12 packets over the three kinds.", "28"),
)


def record_game(folder: Path) -> None:
    """Record the game Catch: a paddle follows a falling ball, and the policy sees frames of 84 × 84 pixels."""
    run = echoscope.init("Catch, trained elsewhere", folder=folder, environment="Catch", config={"trainer": "my loop"})
    with run.trajectory(prompt="Move the paddle under the ball.", iteration=12, seed=4) as attempt:
        paddle = 5
        for turn, (column, row) in enumerate(FALL):
            ahead = FALL[-1][0] - paddle
            action = "right" if ahead > 0 else "left" if ahead < 0 else "stay"
            where = "to the right of" if column > paddle else "to the left of" if column < paddle else "above"
            attempt.turn(
                state=f"Frame {turn + 1} of {len(FALL)}. Answer with left, stay or right.",
                images=frame(column, row, paddle),
                thought=f"The ball is {where} the paddle and drifts right by one column a frame. I go {action}.",
                answer=action,
                response=f"The ball is {where} the paddle and drifts right by one column a frame. I go {action}.",
                actions=[action],
                reward=1.0 if turn == len(FALL) - 1 else 0.0,
                tokens=31,
            )
            paddle += {"right": 1, "left": -1, "stay": 0}[action]
        attempt.finish(success=True)
    run.finish()


def frame(column: int, row: int, paddle: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a frame of Catch: height × width × 3."""
    pixels = np.full((SIDE, SIDE, 3), (22, 26, 46), np.uint8)
    size = SIDE // CELLS
    pixels[row * size : (row + 1) * size, column * size : (column + 1) * size] = (255, 196, 64)
    pixels[-size:, max(0, paddle - 1) * size : (paddle + 2) * size] = (236, 240, 248)
    return pixels


def record_calls(folder: Path) -> None:
    """Record a question that is answered with a Python interpreter, one call of which fails."""
    env = envs.make("ToolPython", {"max_calls": 5})
    env.reset(seed=1, options={"question": QUESTION, "answer": "28"})
    run = echoscope.init("Counting with tools", folder=folder, environment="ToolPython")
    with run.trajectory(prompt=QUESTION, iteration=40, seed=1, board=QUESTION) as attempt:
        for thought, action in CALLS:
            state = env.render()
            _, gained, *_, info = env.step(action)
            reward = float(gained)
            call: dict[str, Any] = {"call": info["call"]} if info.get("call") else {}
            record = {"text": action, "name": action, "reward": reward, "board": env.board().model_dump(), **call}
            attempt.turn(
                state=state,
                thought=thought,
                answer=action,
                response=f"<think>{thought}</think>{action}",
                actions=[record],
                reward=reward,
                tokens=48,
            )
        attempt.finish(success=True)
    run.finish()


def sent(folder: Path, url: str, token: str) -> str:
    """Send a recorded run. Returns the slug of its trajectory."""
    with Client(url, token) as site:
        run = site.push_journal(folder)
        return next(site.trajectories(run.slug)).slug
