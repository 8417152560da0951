"""Command that imports files of other tools as a run."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from echoscope.client import Client
from echoscope.errors import EchoscopeError
from echoscope.importers.formats import ImportOptions
from echoscope.importers.importing import import_files

FORMAT_NAMES = ("auto", "inspect", "verifiers", "verl", "trl", "art", "chat")
MAX_NOTES = 20


def add_import_command(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `import`, which needs a site only with --push."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="Files or folders, as the tool wrote them.")
    parser.add_argument(
        "--format", choices=FORMAT_NAMES, default="auto", help="Default: found from the first record of each file."
    )
    parser.add_argument("--out", type=Path, help="Folder of the run; default: below echoscope-runs.")
    parser.add_argument(
        "--title",
        default="",
        help="Title of the run; default: the name of the first path, and of Inspect logs task and model.",
    )
    parser.add_argument("--environment", default="", help="Name of the task; default: from the files.")
    parser.add_argument("--split", choices=("train", "eval"), help="Default: from the files and their folders.")
    parser.add_argument(
        "--success-at",
        type=float,
        metavar="REWARD",
        help="Reward from which on an attempt counts as a success, where its file does not say; default: 1, if any "
        "attempt has it.",
    )
    parser.add_argument("--push", action="store_true", help="Send the run to the site at once.")
    parser.set_defaults(offline=_import)


def _import(args: argparse.Namespace) -> None:
    """Import the files, and send the run if requested. Raises EchoscopeError."""
    if args.push and not (args.url and args.token):
        raise EchoscopeError("--push needs a site: set ECHOSCOPE_URL and ECHOSCOPE_TOKEN, or leave --push out.")
    name = re.sub(r"[^a-z0-9]+", "-", (args.title or args.paths[0].resolve().stem).lower()).strip("-")
    folder = args.out or Path("echoscope-runs") / (name or "imported")
    done = import_files(
        args.paths,
        folder,
        kind=args.format,
        title=args.title,
        options=ImportOptions(args.environment, args.split),
        success_at=args.success_at,
    )
    what = "trajectory" if done.trajectories == 1 else "trajectories"
    print(f"{done.trajectories:,} {what}, {done.groups:,} by task, up to iteration {done.iterations:,}: {folder}")
    for note in done.notes[:MAX_NOTES]:
        print(note, file=sys.stderr)
    if len(done.notes) > MAX_NOTES:
        print(f"… and {len(done.notes) - MAX_NOTES:,} more.", file=sys.stderr)
    if not args.push:
        print(f"To send it to a site: python -m echoscope push {folder}")
        return
    with Client(args.url, args.token) as site:
        print(site.push_journal(folder).url)
    sys.stdout.flush()
