"""The client from the shell: reads the command line, prints what a site answers. Requests are made by client.py."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from pydantic import BaseModel

from echoscope.client import Client
from echoscope.errors import EchoscopeError, Invalid
from echoscope.models import RunDetail

DONE, FAILED, MISUSED = 0, 1, 2
WHO = (
    "Say which site and who you are: set ECHOSCOPE_URL and ECHOSCOPE_TOKEN, or give --url and --token. A token is made "
    "on the page of your team."
)


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 done, 1 refused or out of reach, 2 misused."""
    args = _parser().parse_args(words)
    if not args.url or not args.token:
        print(WHO, file=sys.stderr)
        return MISUSED
    try:
        with Client(args.url, args.token) as client:
            args.act(client, args)
        return DONE
    except Invalid as error:
        print(f"error: {error}", file=sys.stderr)
        for name, text in error.fields.items():
            print(f"  {name}: {text}", file=sys.stderr)
        return FAILED
    except EchoscopeError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return DONE
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m echoscope", description="Ask an Echoscope site from the shell.")
    parser.add_argument("--url", default=os.environ.get("ECHOSCOPE_URL", ""), help="Of the site; else ECHOSCOPE_URL.")
    parser.add_argument(
        "--token", default=os.environ.get("ECHOSCOPE_TOKEN", ""), help="API token; better in ECHOSCOPE_TOKEN."
    )
    parser.add_argument("--json", action="store_true", help="Print JSON, one object per line.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, act: Callable[[Client, argparse.Namespace], None], help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help, description=help)
        added.set_defaults(act=act)
        return added

    command("me", _me, "Whose token it is, and what it allows.")
    listing = command("runs", _runs, "List runs, newest first.")
    for name in ("state", "environment", "tag", "author", "text"):
        listing.add_argument(f"--{name}")
    listing.add_argument("--limit", type=int, default=30, help="At most so many (default 30; 0 = all).")
    command("show", _show, "Show one run.").add_argument("run")
    command("presets", _presets, "List the shipped presets.")

    launching = command("launch", _launch, "Launch a run from a preset or a configuration file.")
    launching.add_argument("preset", nargs="?", help="Name of a preset.")
    launching.add_argument("--config", type=Path, help="A file with a configuration, JSON.")
    cloning = command("clone", _clone, "Launch a run like another, with some settings changed.")
    cloning.add_argument("run")
    for added in (launching, cloning):
        added.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="SECTION.FIELD=VALUE",
            dest="changes",
            help="Change a setting; the value as JSON, or plain text.",
        )
        added.add_argument("--visibility", choices=("private", "team", "link"), default="team")
        added.add_argument("--queue", help="Device class, as in cpu or gpu; else as the settings suggest.")
        added.add_argument("--gpus", type=int, help="Of one worker; else as the settings suggest.")
        added.add_argument("--priority", choices=("low", "normal", "high"), default="normal")
        added.add_argument("--watch", action="store_true", help="Stay until it ends.")
        added.add_argument("--key", help="Name of this request: sent again, it launches nothing.")
    watching = command("watch", _watch, "Tell how a run goes on until it ends.")
    watching.add_argument("run")
    for action in ("pause", "resume", "stop", "cancel"):
        asking = command(action, _control, f"Ask a run to {action}.")
        asking.add_argument("run")
        asking.set_defaults(action=action)

    pushing = command("push", _push, "Send the journal of a run that is trained elsewhere.")
    pushing.add_argument("folder", type=Path, help="Of the run, or its journal.jsonl.")
    pushing.add_argument(
        "--follow", action="store_true", help="Go on while the journal grows, until the run has ended."
    )
    pushing.add_argument("--run", help="The run to go on with; else the one that this journal became before.")
    pushing.add_argument("--title", default="", help="Of a new run; else the journal's own.")
    pushing.add_argument("--visibility", choices=("private", "team", "link"), default="team")
    pushing.add_argument("--skip-bad-lines", action="store_true", help="Leave out lines that cannot be read.")

    exporting = command("export", _export, "Write what a run produced: its trajectories, metrics or configuration.")
    exporting.add_argument("run")
    exporting.add_argument(
        "what",
        choices=("trajectories", "metrics", "config"),
        nargs="?",
        default="trajectories",
        help="JSON Lines with all turns (default), JSON Lines of points, or YAML.",
    )
    exporting.add_argument("--out", type=Path, help="File to write; else the standard output.")

    sharing = command("share", _share, "Make a link that shows a trajectory to everybody who has it.")
    sharing.add_argument("trajectory")
    sharing.add_argument("--turn", type=int, help="Where the player opens, counted from 0.")
    revoking = command("revoke", _revoke, "Close a share link.")
    revoking.add_argument("link", help="Its address, or the last part of it.")
    return parser


def _say(args: argparse.Namespace, answer: BaseModel, text: str) -> None:
    print(answer.model_dump_json() if args.json else text, flush=True)


def _me(client: Client, args: argparse.Namespace) -> None:
    me = client.me()
    teams = ", ".join(f"{team.name} ({team.role})" for team in me.teams)
    _say(args, me, f"{me.username}, {' and '.join(me.scopes)}, in {teams}")


def _runs(client: Client, args: argparse.Namespace) -> None:
    filters = {name: getattr(args, name) for name in ("state", "environment", "tag", "author", "text")}
    for number, run in enumerate(client.runs(**filters), 1):
        _say(args, run, f"{run.slug}  {run.state:<10} {run.iteration:>5} of {run.iterations:<5} {run.title}")
        if number == args.limit:
            return


def _show(client: Client, args: argparse.Namespace) -> None:
    run = client.run(args.run)
    newest = {metric.name: metric.last for metric in client.metrics(run.slug)}
    lines = [_line(run), run.url, f"{run.environment}, by {run.author or 'nobody'}, {run.device or 'no device yet'}"]
    lines += [f"{name} {newest[name]:.3f}" for name in ("success/rate", "reward/mean") if name in newest]
    if run.waiting is not None:
        lines.append(run.waiting.message)
    if run.failure:
        lines.append(run.failure)
    _say(args, run, "\n  ".join(lines))


def _presets(client: Client, args: argparse.Namespace) -> None:
    for preset in client.presets():
        _say(args, preset, f"{preset.name:<32} {preset.size}")


def _launch(client: Client, args: argparse.Namespace) -> None:
    config = json.loads(args.config.read_text(encoding="utf-8")) if args.config else None
    run = client.launch(
        preset=args.preset,
        config=config,
        overrides=_changes(args.changes),
        visibility=args.visibility,
        queue=args.queue,
        gpus=args.gpus,
        priority=args.priority,
        key=args.key,
    )
    _launched(client, args, run)


def _clone(client: Client, args: argparse.Namespace) -> None:
    run = client.clone(
        args.run,
        _changes(args.changes),
        visibility=args.visibility,
        queue=args.queue,
        gpus=args.gpus,
        priority=args.priority,
        key=args.key,
    )
    _launched(client, args, run)


def _launched(client: Client, args: argparse.Namespace, run: RunDetail) -> None:
    _say(args, run, f"{run.slug}  {run.url}")
    if args.watch:
        args.run = run.slug
        _watch(client, args)


def _changes(pairs: Sequence[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for pair in pairs:
        name, found, text = pair.partition("=")
        if not found:
            raise EchoscopeError(f"--set takes SECTION.FIELD=VALUE, not {pair!r}.")
        try:
            changes[name.strip()] = json.loads(text)
        except ValueError:
            changes[name.strip()] = text
    return changes


def _watch(client: Client, args: argparse.Namespace) -> None:
    said = ""
    for run in client.watch(args.run):
        line = _line(run)
        if line != said:
            _say(args, run, line)
            said = line
    if run.state == "failed":
        raise EchoscopeError(run.failure or "The run failed; its log says why.")


def _line(run: RunDetail) -> str:
    doing = ""
    if run.phase and run.state in ("starting", "running"):
        doing = f" · {run.phase.phase}"
        if run.phase.total:
            doing += f" {run.phase.done:,} of {run.phase.total:,} {run.phase.unit}".rstrip()
    return f"{run.title}: {run.state}, iteration {run.iteration} of {run.iterations}{doing}"


def _control(client: Client, args: argparse.Namespace) -> None:
    run = client.control(args.run, args.action)
    _say(args, run, _line(run))


def _push(client: Client, args: argparse.Namespace) -> None:
    shown = False

    def progress(run: RunDetail, known: int, size: int) -> None:
        nonlocal shown
        if not shown:
            _say(args, run, run.url)
            shown = True
        if sys.stderr.isatty():
            print(f"\r{known:,} of {size:,} bytes", end="", file=sys.stderr, flush=True)

    run = client.push_journal(
        args.folder,
        follow=args.follow,
        run=args.run,
        title=args.title,
        visibility=args.visibility,
        skip_bad_lines=args.skip_bad_lines,
        progress=progress,
    )
    if sys.stderr.isatty():
        print(file=sys.stderr)
    _say(args, run, f"{_line(run)}; {run.journal.seq:,} events")


def _export(client: Client, args: argparse.Namespace) -> None:
    with _output(args.out) as out:
        if args.what == "config":
            out.write(client.config_yaml(args.run))
        elif args.what == "metrics":
            for metric in client.metrics(args.run):
                for point in client.history(args.run, metric.name):
                    told = {"name": metric.name, "iteration": point.last_iteration, "value": point.last}
                    out.write(json.dumps(told | {"tokens": point.tokens, "seconds": point.seconds}) + "\n")
        else:
            for listed in client.trajectories(args.run, sort="iteration"):
                out.write(client.trajectory(listed.slug).model_dump_json() + "\n")


@contextmanager
def _output(path: Path | None) -> Iterator[TextIO]:
    """The file, complete or not there at all; the standard output without one."""
    if path is None:
        yield sys.stdout
        return
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as out:
        yield out
    part.replace(path)


def _share(client: Client, args: argparse.Namespace) -> None:
    link = client.share(args.trajectory, turn=args.turn)
    _say(args, link, link.url)


def _revoke(client: Client, args: argparse.Namespace) -> None:
    link = client.revoke(args.link.rstrip("/").rsplit("/", 1)[-1])
    _say(args, link, f"Revoked: {link.url} shows nothing any more.")
