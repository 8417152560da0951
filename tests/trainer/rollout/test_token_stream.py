"""Thoughts on a pipe: whole lines, dropped rather than waited for, only for who is watched."""

import json
import os

import pytest

from tests.trainer import tiny
from trainer.journal.protocol import ANY_TRAJECTORY, LIVE_FD, WATCH_FILE
from trainer.rollout import token_stream
from trainer.rollout.token_stream import TokenStream, TokenStreamListener

PIPE_BUF = 4096


@pytest.fixture
def pipe(monkeypatch):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    monkeypatch.setenv(LIVE_FD, str(writer))
    monkeypatch.setattr(token_stream, "_LOOK_EVERY", -1.0)
    monkeypatch.setattr(token_stream, "_WRITE_EVERY", -1.0)
    yield reader
    for number in (reader, writer):
        try:
            os.close(number)
        except OSError:
            pass


def watch(folder, *names):
    replaced = folder / "new.json"
    replaced.write_text(json.dumps({"trajectories": names}))
    os.utime(replaced, ns=(watch.clock, watch.clock))
    watch.clock += 10**9
    replaced.rename(folder / WATCH_FILE)


watch.clock = 10**18


def lines(reader):
    try:
        return [json.loads(line) for line in os.read(reader, 2**20).decode().splitlines()]
    except BlockingIOError:
        return []


def test_nobody_watches_and_nothing_is_written(tmp_path, pipe):
    channel = TokenStream(tmp_path)
    assert not channel.due()
    watch(tmp_path, "a")
    assert channel.due()
    channel.send("a", 2, "thinking")
    assert lines(pipe) == [{"trajectory": "a", "turn": 2, "text": "thinking"}]
    watch(tmp_path)
    assert not channel.due()


def test_without_a_pipe_there_is_nobody(tmp_path, monkeypatch):
    for given in ("", "nonsense", "99999"):
        monkeypatch.setenv(LIVE_FD, given)
        channel = TokenStream(tmp_path)
        watch(tmp_path, "a")
        assert not channel.due()
        channel.send("a", 0, "text")


@pytest.mark.parametrize("text", ["a" * 5000, "\u2603" * 5000, "\U0001f600" * 5000, "\x01" * 5000, '"\\' * 3000])
def test_a_line_is_never_longer_than_a_pipe_takes_at_once(tmp_path, pipe, text):
    TokenStream(tmp_path).send("00001-g00-n00", 4, text)
    data = os.read(pipe, 2**20)
    assert len(data) <= PIPE_BUF
    assert text.endswith(json.loads(data)["text"])


def test_a_full_pipe_drops_whole_lines_and_a_closed_one_is_forgotten(tmp_path, pipe):
    channel = TokenStream(tmp_path)
    for number in range(2000):
        channel.send("a", number, "x" * 500)
    kept = lines(pipe)
    assert 0 < len(kept) < 2000
    assert [line["turn"] for line in kept] == list(range(len(kept)))
    channel.send("a", 5000, "again")
    assert [line["turn"] for line in lines(pipe)] == [5000]
    os.close(pipe)
    channel.send("a", 0, "nobody reads")
    assert channel.pipe is None
    channel.send("a", 0, "and that is fine")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"trajectories": 3}', "\x00\xff"])
def test_a_broken_watch_file_means_that_nobody_watches(tmp_path, pipe, content):
    (tmp_path / WATCH_FILE).write_text(content)
    assert not TokenStream(tmp_path).due()


def test_a_listener_wants_the_watched_rows_or_any(tmp_path, pipe, chat):
    listener = TokenStreamListener(TokenStream(tmp_path), chat, ["a", "b", "c"], lambda row: row + 10)
    assert not listener.select_rows([0, 1, 2])
    watch(tmp_path, "b", "c")
    assert listener.select_rows([0, 1, 2]) == [1, 2]
    assert not listener.select_rows([0])
    watch(tmp_path, ANY_TRAJECTORY)
    assert list(listener.select_rows([2, 1])) == [1]
    listener.on_tokens(1, tiny.said(chat, "I am at 3,4.", ended=False).ids)
    assert lines(pipe) == [{"trajectory": "b", "turn": 11, "text": "I am at 3,4."}]
