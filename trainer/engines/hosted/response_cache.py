"""Response cache on disk: completions of earlier attempts of a run are not requested again."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainer.engines.hosted.completion import Completion, ReportedCall
from trainer.engines.hosted.costs import Usage
from trainer.engines.hosted.hosted_client import CompletionResult

FILE_NAME = "hosted.jsonl"


class ResponseCache:
    """Cache file with one JSON line per completion, written before it is used. A run's attempt gets each line once.

    Attributes:
        loaded: completions of earlier attempts.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE_NAME
        self._unused: dict[str, deque[CompletionResult]] = defaultdict(deque)
        self.loaded: list[CompletionResult] = []
        valid_length = 0
        if self.path.exists():
            for key, result, end in _read(self.path.read_bytes()):
                self._unused[key].append(result)
                self.loaded.append(result)
                valid_length = end
        self._file = self.path.open("ab", buffering=0)
        self._file.truncate(valid_length)  # a killed process may leave a partial line

    def get(self, key: str) -> Completion | None:
        """Return an unused completion of exactly this request, if there is one."""
        results = self._unused.get(key)
        return results.popleft().completion if results else None

    def put(self, key: str, result: CompletionResult) -> None:
        """Write a completion."""
        line = json.dumps({"key": key, **_encode(result)}) + "\n"
        rest = memoryview(line.encode())
        while rest:
            rest = rest[self._file.write(rest) :]

    def close(self) -> None:
        self._file.close()


def cache_key(address: str, body: Mapping[str, Any], seed: int, turn: int) -> str:
    """Return the cache key: the request, and its dialogue (by seed) and turn."""
    text = json.dumps([address, body, seed, turn], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _encode(result: CompletionResult) -> dict[str, Any]:
    completion = result.completion
    tokens = completion.tokens
    return {
        "retries": result.retries,
        "seconds": result.seconds,
        "answer": {
            "text": completion.text,
            "pieces": None if tokens is None else [token.decode("latin-1") for token in tokens],
            "logprobs": list(completion.logprobs),
            "ended": completion.ended,
            "usage": vars(completion.usage),
            "full": completion.context_exceeded,
            "calls": [vars(call) for call in completion.calls],
        },
    }


def _decode(line: Mapping[str, Any]) -> CompletionResult:
    answer = line["answer"]
    pieces = answer["pieces"]
    completion = Completion(
        text=answer["text"],
        tokens=None if pieces is None else tuple(piece.encode("latin-1") for piece in pieces),
        logprobs=tuple(answer["logprobs"]),
        ended=answer["ended"],
        usage=Usage(**answer["usage"]),
        context_exceeded=answer["full"],
        calls=tuple(ReportedCall(**call) for call in answer["calls"]),
    )
    return CompletionResult(completion, line["retries"], line["seconds"])


def _read(data: bytes) -> Iterator[tuple[str, CompletionResult, int]]:
    """Yield key and completion of each line up to the first invalid one, with the offset of the line's end in bytes."""
    end = 0
    for raw in data.splitlines(keepends=True):
        if not raw.endswith(b"\n"):
            return
        try:
            line = json.loads(raw)
            key, result = line["key"], _decode(line)
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        end += len(raw)
        yield key, result, end
