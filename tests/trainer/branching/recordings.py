"""Recorded runs to branch from: evaluations of a pocket policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.trainer import tiny
from trainer.branching.asking import Asker
from trainer.branching.local_player import LocalPlayer
from trainer.branching.player import Weights
from trainer.branching.questions import answer
from trainer.journal import reader
from trainer.journal.branches import Answer, Branches, Played, PlayOn
from trainer.journal.events import Event, GroupStarted
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory
from trainer.paths import POCKET_CHECKPOINT


def record(folder: Path, *, temperature: float = 0.0, prompts: int = 2, **sections: Any) -> Path:
    """An evaluation with a recording of each puzzle, in an environment with its usual budgets (default: Sokoban)."""
    config = tiny.config(
        POCKET_CHECKPOINT,
        kind="evaluate",
        rollout={"max_response_tokens": 48, "max_turns": 4, "max_actions": 10} | sections.pop("rollout", {}),
        evaluation={"prompts": prompts, "temperature": temperature},
        **sections,
    )
    assert run_factory.run(config, folder, folder / "cache").reason == "completed"
    return folder


def load(folder: Path) -> LocalPlayer:
    """A player with the policy that played the recordings."""
    return LocalPlayer.load(Weights.newest(folder), threads=1)


def attempts(folder: Path) -> list[str]:
    """Ids of the recorded attempts."""
    events = reader.read(folder / JOURNAL_FILE)
    return [name for event in events if isinstance(event, GroupStarted) for name in event.members]


def play_on(player: LocalPlayer, stop: Callable[[], bool] = lambda: False, **question: Any) -> Asked:
    """Ask for branches."""
    answers: list[Answer] = []
    asked = PlayOn.model_validate({"id": "q", **question})
    result = answer(asked, player, Asker(answers.append, stop))
    return Asked(answers, result)


def edit_journal(folder: Path, copy: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Path:
    """A copy of a run whose journal has other lines; `change` gets each event and returns what replaces it."""
    copy.mkdir()
    lines = [json.loads(line) for line in (folder / JOURNAL_FILE).read_text().splitlines()]
    kept = [event for event in map(change, lines) if event is not None]
    texts = [json.dumps(event | {"seq": number}, separators=(",", ":")) for number, event in enumerate(kept, 1)]
    (copy / JOURNAL_FILE).write_text("\n".join(texts) + "\n")
    return copy


class Asked:
    """All answers to a question for branches.

    Attributes:
        answers: in order, without the result.
        result: the last answer.
    """

    def __init__(self, answers: list[Answer], result: Any) -> None:
        assert isinstance(result, Branches)
        self.answers, self.result = answers, result

    def events(self, kind: type[Event], branch: int = 0) -> list[Any]:
        """The events of one kind of a branch."""
        return [
            message.event
            for message in self.answers
            if isinstance(message, Played) and message.branch == branch and isinstance(message.event, kind)
        ]
