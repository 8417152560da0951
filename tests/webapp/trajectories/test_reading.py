"""Reading order on the site: the text of every prompt and response, from the recorded tokens."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import tiny
from trainer.journal import reader, token_arrays
from trainer.journal.events import GroupStarted, TrajectoryTokens, Turn
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory
from webapp.pages.trajectories.policy_input import policy_input
from webapp.trajectories.reading import read
from webapp.trajectories.token_checks import token_checks


@pytest.mark.parametrize("context_turns", [0, 1])
def test_the_text_is_what_the_policy_read_and_wrote(context_turns: int, tmp_path: Path) -> None:
    config = tiny.config(tiny.save_pocket(tmp_path / "model"), iterations=1, rollout={"context_turns": context_turns})
    run_factory.run(config, tmp_path / "run", tmp_path / "cache")
    turns: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    tasks: dict[str, str] = {}
    checked = 0
    for event in reader.read(tmp_path / "run" / JOURNAL_FILE):
        if isinstance(event, GroupStarted):
            tasks |= dict.fromkeys(event.members, event.prompt)
        elif isinstance(event, Turn):
            turns[event.trajectory].append(event.model_dump(mode="json"))
        elif isinstance(event, TrajectoryTokens):
            own, task = turns[event.trajectory], tasks[event.trajectory]
            reading = read(token_arrays.unpack(event.data), own, task)
            assert not [finding for check in token_checks(reading) for finding in check.findings]
            ends = [
                start + segment.tokens
                for segment, start in zip(reading.segments, reading.starts(), strict=True)
                if segment.sampled
            ]
            for turn, end in enumerate(ends):
                expected = "".join(piece.text for piece in policy_input(task, own, turn, context_turns=context_turns))
                first = ends[turn - 1] if context_turns and turn else 0
                shown = "".join(reading.texts[first:end]).removesuffix("<|im_end|>")
                assert shown == expected + own[turn]["response"]
                checked += turn > 0
    assert checked
