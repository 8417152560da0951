"""Demonstrations as lines of JSON, for people to read and for other trainers to learn from.

Line n is the same for the same arguments, and its seeds give its episode back: `env.reset(seed=initial_state_seed,
options={"dynamics_seed": dynamics_seed})`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from trainer.config.run import RunConfig
from trainer.imitation.demonstrations import Demonstration, demonstrate
from trainer.policy import pocket
from trainer.policy.chat_format import SYSTEM, THINK, ChatFormat
from trainer.seeds import Purpose, derive

_ENDLESS = 10**9  # tokens: a file knows no context
_PATIENCE = 100


class NoSolverError(ValueError):
    """An environment whose hints never name an action. The message says what to do."""


def demonstration_records(config: RunConfig, seed: int, *, noise: float, slips: float) -> Iterator[dict[str, Any]]:
    """Endless demonstrations of the configuration's environment as plain data.

    Raises:
        NoSolverError: the solver has no advice in any of the first hundred starts.
    """
    chat = ChatFormat(pocket.build_tokenizer([]), think=True)  # any tokenizer that gives every text back will do
    shown = 0
    for number in count():
        own = derive(seed, Purpose.DEMONSTRATION, number)
        demonstration = demonstrate(config, chat, own, noise=noise, slip_share=slips, context=_ENDLESS)
        if demonstration.trajectory.turns:
            shown += 1
            yield {"environment": config.environment.name, "number": number, **_record(demonstration, own)}
        elif not shown and number + 1 == _PATIENCE:
            raise NoSolverError(
                f"{config.environment.name} cannot be demonstrated: its hint() named no action in {_PATIENCE} starts"
            )


def _record(demonstration: Demonstration, seed: int) -> dict[str, Any]:
    trajectory = demonstration.trajectory
    messages = [{"role": "system", "content": SYSTEM}]
    for turn in trajectory.turns:
        opening = demonstration.task if turn.turn == 0 else ""
        messages.append({"role": "user", "content": opening + turn.state})
        messages.append({"role": "assistant", "content": THINK + turn.response})
    return {
        "seed": seed,
        "initial_state_seed": derive(seed, 0),
        "dynamics_seed": derive(seed, 1),
        "success": trajectory.success,
        "total_reward": round(trajectory.total_reward, 6),
        "turns": [
            {
                "state": turn.state,
                "thought": turn.thought,
                "actions": [action.text for action in turn.actions],
                "reward": round(turn.reward, 6),
                "taught": turn.turn in demonstration.taught,
            }
            for turn in trajectory.turns
        ],
        "messages": messages,
    }


def write_demonstrations(path: Path, config: RunConfig, seed: int, *, number: int, noise: float, slips: float) -> int:
    """Write so many demonstrations, one a line. Gives how many of them reach success."""
    successes = 0
    with path.open("w", encoding="utf-8", errors="replace") as file:
        for record in islice(demonstration_records(config, seed, noise=noise, slips=slips), number):
            successes += record["success"]
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return successes
