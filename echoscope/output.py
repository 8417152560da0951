"""Arguments and output that the commands of the client share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pydantic import BaseModel

from echoscope.errors import EchoscopeError

if TYPE_CHECKING:
    from echoscope.client import Client

YAML_ADVICE = (
    "Convert it where PyYAML is installed: python -c 'import json, sys, yaml; "
    "json.dump(yaml.safe_load(sys.stdin), sys.stdout)' < FILE.yaml > FILE.json. To launch a run like another one of "
    "the site, no file is needed: echoscope clone RUN."
)


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    act: Callable[[Client, argparse.Namespace], None],
    help: str,
) -> argparse.ArgumentParser:
    """Add a command that sends requests. Returns its parser."""
    added = commands.add_parser(name, help=help, description=help)
    added.set_defaults(act=act)
    return added


def print_answer(args: argparse.Namespace, answer: BaseModel, text: str) -> None:
    """Print a response as text, or as JSON with --json."""
    print(answer.model_dump_json() if args.json else text, flush=True)


def print_note(text: str) -> None:
    """Print progress or a problem, apart from the responses."""
    print(text, file=sys.stderr, flush=True)


def parse_changes(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse settings in SECTION.FIELD=VALUE, with values as JSON or plain text. Raises EchoscopeError."""
    changes: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise EchoscopeError(f"--set takes SECTION.FIELD=VALUE, not {pair!r}.")
        changes[name.strip()] = parse_value(text)
    return changes


def load_config(path: Path) -> dict[str, Any]:
    """Read the configuration in a JSON file. Raises EchoscopeError."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EchoscopeError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        if path.suffix.lower() in (".yaml", ".yml"):  # the format of sites' exports; this client cannot read YAML
            raise EchoscopeError(f"{path} is YAML, and --config takes JSON. {YAML_ADVICE}") from None
        raise EchoscopeError(f"{path} is not JSON: {error}.") from None
    if not isinstance(config, dict):
        raise EchoscopeError(f"{path} holds no configuration: that is a JSON object of settings by section.")
    return config


def parse_value(text: str) -> Any:
    """Parse a value as JSON, else return the plain text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


@contextmanager
def output(path: Path | None) -> Iterator[TextIO]:
    """Open the file, which appears only when complete; standard output without a path. Raises EchoscopeError."""
    if path is None:
        yield sys.stdout
        return
    part = path.parent / f"{path.name}.part"
    try:
        with part.open("w", encoding="utf-8") as out:
            yield out
        part.replace(path)
    except OSError as error:
        raise EchoscopeError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):  # nothing exists if it could not be created
            part.unlink(missing_ok=True)
