"""`models`: lists, installs and removes models."""

from __future__ import annotations

import argparse
import json
import sys

from trainer.journal.protocol import COMPLETED, FAILED
from trainer.models import listing, store
from trainer.models.store import ModelStoreError


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = command.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="installed models, and those of the catalogue")
    remove = actions.add_parser("remove", help="delete an installed model, or what an interrupted download left")
    remove.add_argument("name", help="as in the list")
    for action in actions.choices.values():
        action.add_argument("--json", action="store_true", help="print one JSON object a line, for programs")


def run(options: argparse.Namespace) -> int:
    """Run the action. Returns the exit code."""
    try:
        match options.action:
            case "remove":
                _remove(options)
            case _:
                _list(options)
    except (ModelStoreError, OSError) as error:
        _print_error(str(error), as_json=options.json)
        return FAILED
    return COMPLETED


def _list(options: argparse.Namespace) -> None:
    if not options.json:
        print(listing.table())
        return
    for row in listing.model_rows():
        print(json.dumps(row))


def _remove(options: argparse.Namespace) -> None:
    freed = store.remove(options.name)
    if options.json:
        print(json.dumps({"removed": options.name, "bytes": freed}))
    else:
        print(f"Removed {options.name}: {listing.size_text(freed)} are free again.")


def _print_error(message: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"error": message}), flush=True)
    else:
        print(f"error: {message}", file=sys.stderr)
