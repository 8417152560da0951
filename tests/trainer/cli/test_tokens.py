"""`python -m trainer tokens`: a table to read, a file for programs, and clear errors."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from pydantic import ValidationError

from envs.base import TextBoard
from tests.trainer import tiny
from tests.trainer.loops.test_train import events, run
from trainer.cli.main import BAD_CONFIGURATION, COMPLETED, main
from trainer.journal.computed_tokens import ComputedTokens, nearest_checkpoint
from trainer.journal.events import GroupStarted, RunStarted, Turn
from trainer.journal.token_arrays import TokenArraysError
from trainer.journal.writer import Journal
from trainer.loops.evaluate import evaluation_config


@pytest.fixture(scope="module")
def evaluated(pocket_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation of a policy, which keeps no checkpoint and records no tokens."""
    folder = tmp_path_factory.mktemp("evaluated")
    config = evaluation_config(tiny.config(pocket_folder, journal={"tokens": "none"}), str(pocket_folder), [])
    run(config, folder)
    return folder


def test_the_policy_of_an_evaluation_gives_a_table_and_a_file(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (name, *_) = events(evaluated, GroupStarted)[0].members
    command = ["tokens", str(evaluated), "--trajectory", name]
    assert main(command) == COMPLETED
    printed = capsys.readouterr()
    head, first, *_, last = printed.out.splitlines()
    assert head.split() == ["token", "turn", "kind", "loss", "id", "logprob", "entropy", "text"]
    assert first.split() == ["0", "0", "template", "1", '"<|im_start|>"']
    assert last.split()[2] == "sampled"
    assert "scored by the weights after iteration 0, which sampled the attempt" in printed.err
    assert main([*command, "--json", str(tmp_path / "tokens.json")]) == COMPLETED
    assert capsys.readouterr().out == ""
    computed = ComputedTokens.model_validate_json((tmp_path / "tokens.json").read_bytes())
    assert (computed.trajectory, computed.checkpoint, computed.temperature) == (name, 0, 0.5)
    assert not any(segment.in_loss for segment in computed.segments)
    assert computed.logprobs.count(None) == 1


def test_runs_whose_weights_are_elsewhere_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = {"environment": "Bandit", "seed": 1, "prompt": "", "board": TextBoard(text="")}
    group = GroupStarted(iteration=0, split="eval", group=0, members=["a"], **where)
    said = dict.fromkeys(("state", "response", "thought", "answer"), "")
    turn = Turn(trajectory="a", turn=0, actions=[], reward=0, terms={}, truncated=False, **said)
    hosted = tiny.config("a", hosted={"url": "http://localhost:9", "model": "m"}, kind="evaluate")
    about = {"title": "", "device": "", "parameters": 0, "versions": {}}
    cases = [(hosted.model_dump(mode="json"), "hosted model"), ({"recorded": {}}, "another trainer")]
    for number, (settings, words) in enumerate(cases):
        folder = tmp_path / str(number)
        with closing(Journal(folder)) as journal:
            journal.write(RunStarted(attempt=1, from_iteration=0, iterations=1, config=settings, **about), group, turn)
        assert main(["tokens", str(folder), "--trajectory", "a"]) == BAD_CONFIGURATION
        assert words in capsys.readouterr().err
    assert main(["tokens", str(tmp_path), "--trajectory", "a"]) == BAD_CONFIGURATION
    assert "holds no journal" in capsys.readouterr().err


def test_what_a_process_wrote_is_checked() -> None:
    segment = {"kind": "other", "turn": 0, "tokens": 1, "sampled": False, "in_loss": False, "restarts": False}
    good = {
        "trajectory": "a",
        "checkpoint": 1,
        "sampled_after": 0,
        "temperature": 1.0,
        "segments": [segment, segment | {"turn": 1, "sampled": True}],
        "ids": [1, 2],
        "texts": ["a", "b"],
        "logprobs": [None, -1.0],
        "entropies": [None, 0.5],
    }
    arrays = ComputedTokens.model_validate(good).as_arrays(2)
    assert (arrays.turns, arrays.ids.tolist(), arrays.updates, arrays.retokenised) == ((0, 1), [2], None, None)
    with pytest.raises(TokenArraysError, match="turn 1 of 1"):
        ComputedTokens.model_validate(good).as_arrays(1)
    for change in (
        {"ids": [1]},
        {"ids": [1, -2]},
        {"logprobs": [None, float("nan")]},
        {"segments": list(reversed(good["segments"]))},
        {"segments": [segment | {"tokens": 10**9}]},
        {"texts": ["a", "b" * 1_000_001]},
        {"temperature": 0.0},
        {"more": 1},
    ):
        with pytest.raises(ValidationError):
            ComputedTokens.model_validate(good | change)
    with pytest.raises(ValidationError):
        ComputedTokens.model_validate_json('{"texts": ["\\ud800"]}')


def test_the_nearest_checkpoint_is_the_newest_before_and_otherwise_the_first_after() -> None:
    assert [nearest_checkpoint([4, 8, 12], wanted) for wanted in (2, 4, 7, 8, 99)] == [4, 4, 4, 8, 12]
    assert nearest_checkpoint([], 3) is None
