"""Token recorder: selection of trajectories; texts and values of tokens match rollout and update."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer import tiny
from trainer.journal import reader, token_arrays
from trainer.journal.events import GroupsScored, GroupStarted, Metrics, TrajectoryFinished, TrajectoryTokens, Turn
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.token_recorder import TokenTexts, by_trajectory
from trainer.rollout.trajectory import Trajectory, collate

STYLES = tiny.styles()
CHATS = {name: ChatFormat(tokenizer, think=True) for name, tokenizer in STYLES.items()}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_pocket(tmp_path_factory.mktemp("model"))


def played(folder: Path, model: Path, **settings: Any) -> list[Any]:
    config = tiny.config(model, **settings)
    run_factory.run(config, folder, folder / "cache")
    return list(reader.read(folder / JOURNAL_FILE))


def of(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize("style", CHATS)
@given(
    text=st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("Push up → é😀\n")), max_size=40)
)
def test_token_lengths_of_any_text_add_up_to_it(style: str, text: str) -> None:
    chat = CHATS[style]
    ids = [*chat.tokenizer.encode(text, add_special_tokens=False), chat.eos_id]
    response = chat.decode(ids)
    lengths = TokenTexts(chat).lengths(ids, response)
    assert len(lengths) == len(ids)
    assert sum(lengths) == len(response)
    assert lengths[-1] == 0, "the end token has no text"


def test_a_character_of_several_tokens_belongs_to_the_last_of_them() -> None:
    chat = CHATS["pocket"]
    ids = chat.tokenizer.encode("a😀b", add_special_tokens=False)
    lengths = TokenTexts(chat).lengths(ids, "a😀b")
    assert token_arrays.cut("a😀b", lengths) == ["a", "", "", "", "😀", "b"]
    assert TokenTexts(chat).lengths(ids[:3], chat.decode(ids[:3])) == [1, 0, len(chat.decode(ids[:3])) - 1]


def test_invalid_utf8_is_cut_as_it_is_displayed() -> None:
    chat = CHATS["pocket"]
    halves = chat.tokenizer.encode("é😀→", add_special_tokens=False)
    for ids in (halves[1:], halves[::-1], halves[:1] * 3, halves[2:4] + halves[:1]):
        response = chat.decode(ids)
        assert sum(TokenTexts(chat).lengths(ids, response)) == len(response)


class NonByteLevelTokenizer:
    """A tokenizer that is not byte-level, like those of SentencePiece."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tokenizer, name)

    def convert_ids_to_tokens(self, token: int) -> str:
        return "▁" + str(self.tokenizer.convert_ids_to_tokens(token))


@pytest.mark.parametrize("text", ["I push Up, then Left.", "a → b 😀!", ""])
def test_tokenizers_that_are_not_byte_level_are_cut_by_decoding(text: str) -> None:
    chat = ChatFormat(STYLES["chatml"], think=True)
    ids = chat.tokenizer.encode(text, add_special_tokens=False)
    expected = TokenTexts(chat).lengths(ids, text)
    chat.tokenizer = NonByteLevelTokenizer(chat.tokenizer)
    assert TokenTexts(chat).lengths(ids, text) == expected


ESTIMATORS = {
    "a critic": {"estimator": "gae"},
    "groups": {"estimator": "grpo"},
    "a window of one turn": {"estimator": "gae"},
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_trajectory_is_recorded_with_its_values(name: str, model: Path, tmp_path: Path) -> None:
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
    found = by_trajectory(kept, batch, batch.ids.float())
    assert {name: part.tolist() for name, part in found.items()} == {
        "a": [1, 2, 3, 4],
        "b": [5, 6],
        "c": [7, 1, 2, 3, 4, 5, 6],
    }


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
