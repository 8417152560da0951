"""Token stream: whole lines, dropped when the pipe is full, only of watched trajectories."""

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
    monkeypatch.setattr(token_stream, "_WATCH_INTERVAL", -1.0)
    monkeypatch.setattr(token_stream, "_WRITE_INTERVAL", -1.0)
    yield reader
    for number in (reader, writer):
        try:
            os.close(number)
        except OSError:
            pass


def watch(folder, *names):
    replacement = folder / "new.json"
    replacement.write_text(json.dumps({"trajectories": names}))
    os.utime(replacement, ns=(watch.clock, watch.clock))
    watch.clock += 10**9
    replacement.rename(folder / WATCH_FILE)


watch.clock = 10**18


def lines(reader):
    try:
        return [json.loads(line) for line in os.read(reader, 2**20).decode().splitlines()]
    except BlockingIOError:
        return []


def test_only_watched_trajectories_are_written(tmp_path, pipe):
    stream = TokenStream(tmp_path)
    assert not stream.due()
    watch(tmp_path, "a")
    assert stream.due()
    stream.send("a", 2, "thinking")
    assert lines(pipe) == [{"trajectory": "a", "turn": 2, "text": "thinking"}]
    watch(tmp_path)
    assert not stream.due()


def test_without_a_pipe_nothing_is_written(tmp_path, monkeypatch):
    for address in ("", "nonsense", "99999"):
        monkeypatch.setenv(LIVE_FD, address)
        stream = TokenStream(tmp_path)
        watch(tmp_path, "a")
        assert not stream.due()
        stream.send("a", 0, "text")


@pytest.mark.parametrize("text", ["a" * 5000, "\u2603" * 5000, "\U0001f600" * 5000, "\x01" * 5000, '"\\' * 3000])
def test_a_line_never_exceeds_the_atomic_size_of_a_pipe(tmp_path, pipe, text):
    TokenStream(tmp_path).send("00001-g00-n00", 4, text)
    data = os.read(pipe, 2**20)
    assert len(data) <= PIPE_BUF
    assert text.endswith(json.loads(data)["text"])


def test_a_full_pipe_drops_whole_lines_and_a_closed_one_disables_the_stream(tmp_path, pipe):
    stream = TokenStream(tmp_path)
    for number in range(2000):
        stream.send("a", number, "x" * 500)
    written = lines(pipe)
    assert 0 < len(written) < 2000
    assert [line["turn"] for line in written] == list(range(len(written)))
    stream.send("a", 5000, "again")
    assert [line["turn"] for line in lines(pipe)] == [5000]
    os.close(pipe)
    stream.send("a", 0, "no reader")
    assert stream.pipe.descriptor is None
    stream.send("a", 0, "still no error")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"trajectories": 3}', "\x00\xff"])
def test_a_broken_watch_file_watches_nothing(tmp_path, pipe, content):
    (tmp_path / WATCH_FILE).write_text(content)
    assert not TokenStream(tmp_path).due()


def test_a_listener_selects_the_watched_rows_or_any(tmp_path, pipe, chat):
    listener = TokenStreamListener(TokenStream(tmp_path), chat, ["a", "b", "c"], lambda row: row + 10)
    assert not listener.select_rows([0, 1, 2])
    watch(tmp_path, "b", "c")
    assert listener.select_rows([0, 1, 2]) == [1, 2]
    assert not listener.select_rows([0])
    watch(tmp_path, ANY_TRAJECTORY)
    assert list(listener.select_rows([2, 1])) == [1]
    listener.on_tokens(1, tiny.sampled(chat, "I am at 3,4.", ended=False).ids)
    assert lines(pipe) == [{"trajectory": "b", "turn": 11, "text": "I am at 3,4."}]
