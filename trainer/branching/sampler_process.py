"""Sampler process: answers questions about recorded attempts with one policy, as JSON lines, until its input ends."""

from __future__ import annotations

import sys
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Condition, Lock, Thread
from typing import BinaryIO

from pydantic import ValidationError

from trainer.branching.asking import Asker
from trainer.branching.player import BranchPlayer
from trainer.branching.questions import answer
from trainer.journal.branches import (
    MAX_LINE,
    MAX_WAITING,
    Answer,
    Cancel,
    Cancelled,
    Failed,
    Question,
    Ready,
    Request,
)
from trainer.rollout.runner import Interrupted


class AnswerWriter:
    """Writes answers as lines, from any thread. Once nobody reads them, `gone` is True."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.gone = stream, False
        self._lock = Lock()

    def write(self, message: Answer) -> None:
        """Write an answer; dropped if nobody reads."""
        line = message.model_dump_json().encode() + b"\n"
        with self._lock:
            try:
                self.stream.write(line)
                self.stream.flush()
            except (OSError, ValueError):  # broken pipe, or closed
                self.gone = True


@dataclass
class QuestionQueue:
    """Questions in the order of their arrival; a thread puts them in, the process takes them out.

    Attributes:
        closed: the input has ended.
        cancelled: ids of waiting questions, and of the one that is being answered, that were cancelled.
    """

    closed: bool = False
    cancelled: set[str] = field(default_factory=set)
    _waiting: deque[Question] = field(default_factory=deque)
    _current: str | None = None
    _changed: Condition = field(default_factory=Condition)

    def put(self, question: Question) -> Failed | None:
        """Add a question. Returns why it is refused; None: it is not."""
        with self._changed:
            if question.id in self._ids():  # whose answers carry the id
                return Failed(message=f"a question with the id {question.id!r} waits already")
            if len(self._waiting) >= MAX_WAITING:
                return Failed(id=question.id, message=f"{MAX_WAITING} questions wait already: ask again later")
            self._waiting.append(question)
            self._changed.notify()
            return None

    def cancel(self, identity: str) -> bool:
        """Cancel a question. Returns False if there is none of this id."""
        with self._changed:
            known = identity in self._ids()
            if known:
                self.cancelled.add(identity)
            return known

    def close(self) -> None:
        """Note that no more questions come."""
        with self._changed:
            self.closed = True
            self._changed.notify()

    def take(self) -> Question | None:
        """Wait for the next question; None once the input has ended."""
        with self._changed:
            self.cancelled.discard(self._current or "")
            self._current = None
            self._changed.wait_for(lambda: self._waiting or self.closed)
            if self.closed:
                return None
            question = self._waiting.popleft()
            self._current = question.id
            return question

    def _ids(self) -> set[str]:
        return {question.id for question in self._waiting} | ({self._current} if self._current else set())


def serve(player: BranchPlayer, source: BinaryIO, target: BinaryIO) -> None:
    """Answer questions until the input ends; whatever is being played then is cancelled."""
    writer, queue = AnswerWriter(target), QuestionQueue()
    writer.write(Ready(checkpoint=player.weights.iteration, device=player.device))
    Thread(target=_read, args=(source, queue, writer), daemon=True).start()
    while not writer.gone and (question := queue.take()) is not None:
        writer.write(_answered(question, player, queue, writer))


def _answered(question: Question, player: BranchPlayer, queue: QuestionQueue, writer: AnswerWriter) -> Answer:
    """Return the last answer to a question: its result, or why there is none."""

    def stopped() -> bool:
        return queue.closed or writer.gone or question.id in queue.cancelled

    if stopped():
        return Cancelled(id=question.id)
    try:
        return answer(question, player, Asker(writer.write, stopped, live=True))
    except Interrupted:
        return Cancelled(id=question.id)
    except ValueError as error:  # of recordings, positions, settings, models: written for users
        return Failed(id=question.id, message=_sentence(error))
    except Exception as error:  # noqa: BLE001 one question must not end the process
        traceback.print_exc(file=sys.stderr)
        return Failed(id=question.id, message=f"{type(error).__name__}: {_sentence(error)}")


def _sentence(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:1000]
    return str(error)[:4000]


def _read(source: BinaryIO, queue: QuestionQueue, writer: AnswerWriter) -> None:
    """Put the questions of the input into the queue; answer what is no question."""
    try:
        for line in _lines(source):
            if line is None:
                writer.write(Failed(message=f"a line is longer than {MAX_LINE:,} bytes"))
            elif line.strip():
                _take_line(line, queue, writer)
    except (OSError, ValueError):
        pass  # the input was closed
    finally:
        queue.close()


def _take_line(line: bytes, queue: QuestionQueue, writer: AnswerWriter) -> None:
    try:
        request = Request.validate_json(line)
    except ValidationError as error:
        writer.write(Failed(message=f"this line is no question: {_sentence(error)}"))
        return
    if not isinstance(request, Cancel):
        if refusal := queue.put(request):
            writer.write(refusal)
    elif not queue.cancel(request.id):
        writer.write(Failed(message=f"there is no question with the id {request.id!r}"))


def _lines(source: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines of the input; None for one that is too long. A last line without end is no line."""
    while line := source.readline(MAX_LINE + 1):
        if line.endswith(b"\n"):
            yield line
            continue
        if len(line) <= MAX_LINE:
            return
        while (rest := source.readline(MAX_LINE)) and not rest.endswith(b"\n"):
            pass
        yield None
