"""Arguments and output that the commands of the client share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from pydantic import BaseModel

from echoscope.errors import EchoscopeError


def print_answer(args: argparse.Namespace, answer: BaseModel, text: str) -> None:
    """Print a response as text, or as JSON with --json."""
    print(answer.model_dump_json() if args.json else text, flush=True)


def changes_of(pairs: Sequence[str]) -> dict[str, Any]:
    """The settings in SECTION.FIELD=VALUE, values as JSON or plain text. Raises EchoscopeError."""
    changes: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise EchoscopeError(f"--set takes SECTION.FIELD=VALUE, not {pair!r}.")
        changes[name.strip()] = value_of(text)
    return changes


def value_of(text: str) -> Any:
    """A value as JSON, or plain text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


@contextmanager
def output(path: Path | None) -> Iterator[TextIO]:
    """The file, which appears only when complete; standard output without a path."""
    if path is None:
        yield sys.stdout
        return
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as out:
        yield out
    part.replace(path)
