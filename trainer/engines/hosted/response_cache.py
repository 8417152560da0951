"""Answers that were paid for, kept in the run's folder: what is asked again after a stop is read, not bought twice."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainer.engines.hosted.completion import Completion
from trainer.engines.hosted.costs import Usage
from trainer.engines.hosted.hosted_client import CompletionRequest

FILE_NAME = "hosted.jsonl"


class ResponseCache:
    """One JSON line for each answer, written before anybody sees it. Each line is given out once per attempt."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE_NAME
        self._known: dict[str, deque[CompletionRequest]] = defaultdict(deque)
        self.paid: list[CompletionRequest] = []
        sound = 0
        if self.path.exists():
            for key, asked, end in _lines(self.path.read_bytes()):
                self._known[key].append(asked)
                self.paid.append(asked)
                sound = end
        self._file = self.path.open("ab", buffering=0)
        self._file.truncate(sound)  # the last line of a process that was killed may be half a line

    def find(self, key: str) -> Completion | None:
        """An answer to exactly this request that was not given out yet."""
        waiting = self._known.get(key)
        return waiting.popleft().answer if waiting else None

    def keep(self, key: str, asked: CompletionRequest) -> None:
        """Write an answer down."""
        answer = asdict(asked.answer)
        if asked.answer.pieces is not None:
            answer["pieces"] = [piece.decode("latin-1") for piece in asked.answer.pieces]
        line = json.dumps({"key": key, "retries": asked.retries, "seconds": asked.seconds, "answer": answer}) + "\n"
        left = memoryview(line.encode())
        while left:
            left = left[self._file.write(left) :]

    def close(self) -> None:
        self._file.close()


def key_of(address: str, body: Mapping[str, Any], seed: int, turn: int) -> str:
    """What an answer is found again by: the request, and which dialogue's it was at which turn."""
    told = json.dumps([address, body, seed, turn], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _lines(data: bytes) -> Iterator[tuple[str, CompletionRequest, int]]:
    """Key and answer of each complete line, with the length of the file up to its end; none from a broken one on."""
    end = 0
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            return
        try:
            told = json.loads(line)
            answer = told["answer"]
            pieces = answer["pieces"]
            read = Completion(
                text=answer["text"],
                pieces=None if pieces is None else tuple(piece.encode("latin-1") for piece in pieces),
                logprobs=tuple(answer["logprobs"]),
                ended=answer["ended"],
                usage=Usage(**answer["usage"]),
                full=answer["full"],
            )
            key, asked = told["key"], CompletionRequest(read, told["retries"], told["seconds"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        end += len(line)
        yield key, asked, end
