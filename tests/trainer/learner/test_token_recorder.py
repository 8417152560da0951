"""Token recorder: selection of trajectories; tokens, what they belong to and their values match rollout and update."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import tiny
from trainer.config.run import JournalConfig
from trainer.journal import reader, token_arrays
from trainer.journal.events import GroupsScored, GroupStarted, Metrics, TrajectoryFinished, TrajectoryTokens, Turn
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.token_arrays import TokenArrays
from trainer.learner import token_recorder
from trainer.learner.learnt_tokens import LearntBatch, LearntTokens
from trainer.learner.token_recorder import TokenRecorder
from trainer.loops import run_factory
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.trajectory import Trajectory, collate


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_pocket(tmp_path_factory.mktemp("model"))


def played(folder: Path, model: Path, **settings: Any) -> list[Any]:
    config = tiny.config(model, **settings)
    run_factory.run(config, folder, folder / "cache")
    return list(reader.read(folder / JOURNAL_FILE))


def of(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


ESTIMATORS = {
    "a critic": {"estimator": "gae"},
    "groups": {"estimator": "grpo"},
    "a window of one turn": {"estimator": "gae"},
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_trajectory_is_recorded_with_its_values(
    name: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_order, read = token_recorder.reading_order, {}

    def spied(trajectory: Trajectory, *args: Any, **options: Any) -> Any:
        read[trajectory.id] = trajectory
        return recorded_order(trajectory, *args, **options)

    monkeypatch.setattr(token_recorder, "reading_order", spied)
    rollout = {"context_turns": 1} if "window" in name else {}
    events = played(
        tmp_path,
        model,
        algorithm=ESTIMATORS[name] | {"drop_zero_std": False, "group_filter": "std", "group_filter_keep": 0.5},
        iterations=1,
        rollout=rollout,
    )
    ends = {event.trajectory: event for event in of(events, TrajectoryFinished)}
    recorded = {event.trajectory: event for event in of(events, TrajectoryTokens)}
    assert set(recorded) == set(ends), "journal.tokens is all"
    kept = {score.group: score.kept for score in of(events, GroupsScored)[0].groups}
    skipped = any("update/skipped" in event.values for event in of(events, Metrics))
    learned = "no_update" if skipped else None
    why = {
        member: "evaluation" if group.split == "eval" else learned if kept[group.group] else "dropped"
        for group in of(events, GroupStarted)
        for member in group.members
    }
    assert {key: event.unlearned for key, event in recorded.items()} == why
    assert set(why.values()) == {learned, "dropped", "evaluation"}
    turns = of(events, Turn)
    for key, event in recorded.items():
        tokens = token_arrays.unpack(event.data)
        own = [turn for turn in turns if turn.trajectory == key]
        assert tokens.turns == tuple(turn.tokens for turn in own)
        assert len(tokens.ids) == event.tokens == ends[key].tokens
        assert tokens.unlearned == event.unlearned
        start = 0
        for turn in own:
            part = slice(start, start + turn.tokens)
            assert float(tokens.logprobs[part].astype(float).mean()) == pytest.approx(turn.logprob, abs=0.01)
            assert float(tokens.entropies[part].astype(float).mean()) == pytest.approx(turn.entropy, abs=0.01)
            assert int(tokens.lengths[part].sum()) == len(turn.response)
            start += turn.tokens
        check_order(tokens, read[key], [turn.state for turn in own], learned=event.unlearned is None)
        if event.unlearned is None:
            assert tokens.updates is not None
            assert abs(tokens.updates.differences).max() < 0.01, "sampler and trainer are the same model"
            assert event.mismatch == pytest.approx(float(abs(tokens.updates.differences).mean()), abs=1e-4)


def check_order(tokens: TokenArrays, trajectory: Trajectory, states: list[str], *, learned: bool) -> None:
    """Check that the reading order is exactly the tokens that the policy read and wrote."""
    assert tokens.context is not None
    sampled, others = iter(tokens.ids.tolist()), iter(tokens.context.ids.tolist())
    pieces = iter(tokens.context.lengths.tolist())
    ids: list[int] = []
    observed = dict.fromkeys(range(len(states)), 0)
    for segment in tokens.context.segments:
        ids += islice(sampled if segment.sampled else others, segment.tokens)
        assert segment.in_loss == (segment.sampled and learned)
        if not segment.sampled:
            length = sum(islice(pieces, segment.tokens))
            observed[segment.turn] = length if segment.kind == "observation" else observed[segment.turn]
    assert ids == [token for sequence in trajectory.sequences() for token in sequence.ids]
    assert {segment.turn for segment in tokens.context.segments if segment.restarts} == set(trajectory.prompts)
    for state, length in zip(states, observed.values(), strict=True):
        assert abs(length - len(state)) <= 4, "a token at the border may belong to the template"
    assert tokens.context.text is None or trajectory.prompts


def windowed(name: str, responses: list[list[int]]) -> Trajectory:
    """A trajectory whose turns from the second on have their own prompts."""
    trajectory = Trajectory(id=name, group=0, member=0)
    for turn, ids in enumerate(responses):
        trajectory.append_prompt([9, 9])
        if turn:
            trajectory.prompts[turn] = [8, 8, 8]
        trajectory.append_response(ids, [-0.5] * len(ids), [0.5] * len(ids), turn)
    return trajectory


def test_every_advantage_belongs_to_the_token_it_was_computed_for() -> None:
    kept = [windowed("a", [[1, 2, 3], [4]]), windowed("b", [[5, 6]]), windowed("c", [[7], [1, 2], [3, 4, 5, 6]])]
    batch = collate(kept, pad_id=0)
    ids = batch.ids.float()
    tokens = LearntTokens(ids, -ids, (ids / 8).exp(), batch.ids > 4, batch.mask)
    recorder = TokenRecorder(JournalConfig(), ChatFormat(tiny.styles()["chatml"], think=True))
    for trajectory in kept:
        trajectory.turns = [turn(trajectory.id, n, len(trajectory.response(n))) for n in set(trajectory.turn_of) - {-1}]
    events = list(recorder.learned(kept, kept, LearntBatch(batch, tokens)))
    found = {event.trajectory: token_arrays.unpack(event.data) for event in events}
    assert {name: values.ids.tolist() for name, values in found.items()} == {
        "a": [1, 2, 3, 4],
        "b": [5, 6],
        "c": [7, 1, 2, 3, 4, 5, 6],
    }
    for values in found.values():
        own = values.ids.astype(float)
        assert values.updates is not None
        assert values.advantages is not None
        assert values.advantages.tolist() == own.tolist()
        assert values.updates.differences.tolist() == (-own + 0.5).tolist()
        assert values.updates.log_ratios.tolist() == (own / 8).tolist()
        assert values.updates.clipped.tolist() == (own > 4).tolist()


def turn(trajectory: str, number: int, tokens: int) -> Turn:
    return Turn(
        trajectory=trajectory,
        turn=number,
        state="",
        response="",
        thought="",
        answer="",
        actions=[],
        reward=0.0,
        terms={},
        tokens=tokens,
        truncated=False,
    )


@pytest.mark.parametrize(("keep", "splits"), [("all", {"train", "eval"}), ("kept", {"eval"}), ("none", set())])
def test_the_setting_selects_the_recorded_trajectories(
    keep: str, splits: set[str], model: Path, tmp_path: Path
) -> None:
    """The untrained policy never succeeds, so that the filter keeps no group."""
    events = played(tmp_path, model, iterations=1, journal={"tokens": keep}, algorithm={"estimator": "grpo"})
    if keep == "kept" and any(score.kept for score in of(events, GroupsScored)[0].groups):
        splits = {"train", "eval"}
    split = {member: group.split for group in of(events, GroupStarted) for member in group.members}
    assert {split[event.trajectory] for event in of(events, TrajectoryTokens)} == splits


def test_a_line_with_broken_arrays_is_named() -> None:
    line = '{"type":"trajectory_tokens","seq":1,"trajectory":"a","tokens":3,"data":"!"}'
    with pytest.raises(reader.JournalError, match=r"data.*not base64"):
        reader.parse_line(line, 1)
