"""Demonstrations as lines of JSON, for readers and for other trainers.

Line n depends only on the arguments, and its seeds reproduce its episode: `env.reset(seed=initial_state_seed,
options={"dynamics_seed": dynamics_seed})`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from trainer.config.run import POCKET, RunConfig
from trainer.imitation.demonstrations import Demonstration, demonstrate
from trainer.policy import pocket
from trainer.policy.chat_format import ChatFormat
from trainer.seeds import Purpose, derive

_UNLIMITED_CONTEXT = 10**9  # tokens
_MAX_ATTEMPTS = 100


class NoSolverError(ValueError):
    """The hints of an environment never name an action. The message suggests a remedy."""


def demonstration_records(
    config: RunConfig, seed: int, *, noise: float, mistake_rate: float
) -> Iterator[dict[str, Any]]:
    """Yield endless demonstrations of the configuration's environment as plain data.

    Raises:
        NoSolverError: the solver has no advice in any of the first hundred initial states.
    """
    config = config.with_prompts(pocket=config.policy.model == POCKET)
    # any lossless tokenizer works here
    chat = ChatFormat(pocket.build_tokenizer([]), think=config.rollout.think, system=config.rollout.system)
    yielded = 0
    for number in count():
        demonstration_seed = derive(seed, Purpose.DEMONSTRATION, number)
        demonstration = demonstrate(
            config, chat, demonstration_seed, noise=noise, mistake_rate=mistake_rate, context=_UNLIMITED_CONTEXT
        )
        if demonstration.trajectory.turns:
            yielded += 1
            yield {
                "environment": config.environment.name,
                "number": number,
                **_record(demonstration, demonstration_seed, chat),
            }
        elif not yielded and number + 1 == _MAX_ATTEMPTS:
            raise NoSolverError(
                f"{config.environment.name} cannot be demonstrated: its hint() named no action in the initial states "
                f"of {_MAX_ATTEMPTS} seeds"
            )


def _record(demonstration: Demonstration, seed: int, chat: ChatFormat) -> dict[str, Any]:
    trajectory = demonstration.trajectory
    messages = chat.system_messages()
    for turn in trajectory.turns:
        opening = demonstration.task if turn.turn == 0 else ""
        messages.append({"role": "user", "content": opening + turn.state})
        messages.append({"role": "assistant", "content": chat.forced + turn.response})
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


def write_demonstrations(
    path: Path, config: RunConfig, seed: int, *, number: int, noise: float, mistake_rate: float
) -> int:
    """Write this many demonstrations, one per line. Returns the number of successful ones."""
    successes = 0
    with path.open("w", encoding="utf-8", errors="replace") as file:
        for record in islice(demonstration_records(config, seed, noise=noise, mistake_rate=mistake_rate), number):
            successes += record["success"]
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return successes
