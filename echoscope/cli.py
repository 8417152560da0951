"""Command line of the client: parses arguments, prints responses."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echoscope.branch_cli import add_branch_options, branch
from echoscope.client import Client
from echoscope.errors import EchoscopeError, Invalid
from echoscope.exports import metric_lines, trajectory_lines
from echoscope.import_cli import add_import_command
from echoscope.models import RunDetail
from echoscope.output import add_command, load_config, output, parse_changes, print_answer, print_note
from echoscope.study_cli import add_study_commands

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

DONE, FAILED, MISUSED = 0, 1, 2
CREDENTIALS_MISSING = (
    "Site or token is missing: set ECHOSCOPE_URL and ECHOSCOPE_TOKEN, or give --url and --token. Create a token on the "
    "page of your team."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0 done, 1 rejected or unreachable, 2 invalid usage."""
    args = _parser().parse_args(arguments)
    offline: Callable[[argparse.Namespace], None] | None = getattr(args, "offline", None)
    if offline is None and (not args.url or not args.token):
        print(CREDENTIALS_MISSING, file=sys.stderr)
        return MISUSED
    try:
        if offline is not None:
            offline(args)
        else:
            with Client(args.url, args.token) as client:
                args.act(client, args)
        sys.stdout.flush()  # the broken pipe is caught here: the interpreter would print a traceback at its end
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
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m echoscope", description="Client of an Echoscope site.")
    parser.add_argument(
        "--url", default=os.environ.get("ECHOSCOPE_URL", ""), help="Address of the site; default: ECHOSCOPE_URL."
    )
    parser.add_argument(
        "--token", default=os.environ.get("ECHOSCOPE_TOKEN", ""), help="API token; preferably set ECHOSCOPE_TOKEN."
    )
    parser.add_argument("--json", action="store_true", help="Print JSON, one object per line.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_reading(commands)
    _add_launching(commands)
    _add_steering(commands)
    _add_push(commands)
    add_import_command(commands.add_parser("import", help="Import files of other trainers and evaluations as a run."))
    _add_output(commands)
    add_branch_options(
        add_command(commands, "branch", branch, "Play on from a position of a trajectory, with any weights.")
    )
    add_study_commands(commands.add_parser("study", help="Launch, steer and export studies."))
    return parser


def _add_reading(commands: Commands) -> None:
    command = partial(add_command, commands)
    command("me", _me, "Show the owner and the permissions of the token.")
    listing = command("runs", _runs, "List runs, newest first.")
    for name in ("state", "environment", "tag", "author", "text", "group"):
        listing.add_argument(f"--{name}")
    listing.add_argument(
        "--archived", action=argparse.BooleanOptionalAction, help="Only archived runs, or only others; default: all."
    )
    listing.add_argument("--limit", type=int, default=30, help="Maximum number of runs (default 30; 0 = all).")
    command("show", _show, "Show one run.").add_argument("run")
    command("presets", _presets, "List the shipped presets.")


def _add_launching(commands: Commands) -> None:
    launching = add_command(commands, "launch", _launch, "Launch a run from a preset or a configuration file.")
    launching.add_argument("preset", nargs="?", help="Name of a preset.")
    launching.add_argument("--config", type=Path, help="JSON file with a configuration.")
    launching.add_argument("--arms", nargs="+", default=[], help="Algorithms to launch, as in starpo starpo_s.")
    launching.add_argument("--seeds", type=int, default=1, help="Number of seeds of each algorithm, 1 to 5.")
    cloning = add_command(commands, "clone", _clone, "Launch a run like another, with some settings changed.")
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
        added.add_argument("--queue", help="Device class, as in cpu or gpu; default: from the settings.")
        added.add_argument("--gpus", type=int, help="Number of GPUs on one worker; default: from the settings.")
        added.add_argument("--priority", choices=("low", "normal", "high"), default="normal")
        added.add_argument("--group", default="", help="Name of the group of runs.")
        added.add_argument("--watch", action="store_true", help="Wait until the run ends.")
        added.add_argument("--key", help="Idempotency key: a repeated request launches nothing.")


def _add_steering(commands: Commands) -> None:
    watching = add_command(commands, "watch", _watch, "Print the progress of a run until it ends.")
    watching.add_argument("run")
    for action in ("pause", "resume", "stop", "cancel"):
        control = add_command(commands, action, _control, f"{action.capitalize()} a run.")
        control.add_argument("run")
        control.set_defaults(action=action)
    changing = add_command(commands, "change", _change, "Change settings of a run while it trains, or rewind it.")
    changing.add_argument("run")
    changing.add_argument(
        "--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", help="New value; may be repeated."
    )
    changing.add_argument(
        "--rewind-to", type=int, metavar="ITERATION", help="Go back to the kept checkpoint of this iteration first."
    )
    changing.add_argument("--why", default="", help="The reason, for the run's page.")


def _add_push(commands: Commands) -> None:
    pushing = add_command(commands, "push", _push, "Send the journal of a run that is trained elsewhere.")
    pushing.add_argument("folder", type=Path, help="Folder of the run, or its journal.jsonl.")
    pushing.add_argument(
        "--follow", action="store_true", help="Continue while the journal grows, until the run has ended."
    )
    pushing.add_argument("--run", help="Run to continue; default: the one this journal was pushed to.")
    pushing.add_argument("--title", default="", help="Title of a new run; default: from the journal.")
    pushing.add_argument("--visibility", choices=("private", "team", "link"), default="team")
    pushing.add_argument("--skip-bad-lines", action="store_true", help="Skip lines that cannot be read.")
    pushing.add_argument("--skip-bad-images", action="store_true", help="Skip images that are missing or refused.")


def _add_output(commands: Commands) -> None:
    exporting = add_command(commands, "export", _export, "Export a run's trajectories, metrics or configuration.")
    exporting.add_argument("run")
    exporting.add_argument(
        "what",
        choices=("trajectories", "metrics", "config"),
        nargs="?",
        default="trajectories",
        help="JSON Lines with all turns (default), JSON Lines of points, or YAML.",
    )
    exporting.add_argument("--out", type=Path, help="File to write; default: standard output.")

    sharing = add_command(commands, "share", _share, "Create a link that shows a trajectory to anyone who has it.")
    sharing.add_argument("trajectory")
    sharing.add_argument("--turn", type=int, help="Turn at which the player opens, counted from 0.")
    revoking = add_command(commands, "revoke", _revoke, "Revoke a share link.")
    revoking.add_argument("link", help="Address of the link, or its last part.")


def _me(client: Client, args: argparse.Namespace) -> None:
    me = client.me()
    teams = ", ".join(f"{team.name} ({team.role})" for team in me.teams)
    print_answer(args, me, f"{me.username}, {' and '.join(me.scopes)}, in {teams}")


def _runs(client: Client, args: argparse.Namespace) -> None:
    names = ("state", "environment", "tag", "author", "text", "group", "archived")
    filters = {name: getattr(args, name) for name in names}
    for number, run in enumerate(client.runs(**filters), 1):
        planned = f"of {run.iterations}" if run.iterations else ""
        print_answer(args, run, f"{run.slug}  {run.state:<10} {run.iteration:>5} {planned:<8} {run.title}")
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
    print_answer(args, run, "\n  ".join(lines))


def _presets(client: Client, args: argparse.Namespace) -> None:
    for preset in client.presets():
        print_answer(args, preset, f"{preset.name:<32} {preset.size}")


def _launch(client: Client, args: argparse.Namespace) -> None:
    config = load_config(args.config) if args.config else None
    if args.arms or args.seeds != 1:
        _launch_group(client, args, config)
        return
    run = client.launch(
        group=args.group,
        preset=args.preset,
        config=config,
        overrides=parse_changes(args.changes),
        visibility=args.visibility,
        queue=args.queue,
        gpus=args.gpus,
        priority=args.priority,
        key=args.key,
    )
    _report_launch(client, args, run)


def _launch_group(client: Client, args: argparse.Namespace, config: dict[str, Any] | None) -> None:
    if args.watch:
        raise EchoscopeError("--watch follows one run: launch the group without it, then `watch` one of its runs.")
    group = client.launch_group(
        preset=args.preset,
        config=config,
        overrides=parse_changes(args.changes),
        arms=args.arms,
        seeds=args.seeds,
        group=args.group,
        visibility=args.visibility,
        queue=args.queue,
        gpus=args.gpus,
        priority=args.priority,
        key=args.key,
    )
    lines = "".join(f"\n  {run.slug}  {run.title}" for run in group.runs)
    print_answer(args, group, f"{group.group}: {len(group.runs)} runs  {group.url}{lines}")


def _clone(client: Client, args: argparse.Namespace) -> None:
    run = client.clone(
        args.run,
        parse_changes(args.changes),
        visibility=args.visibility,
        queue=args.queue,
        gpus=args.gpus,
        priority=args.priority,
        group=args.group,
        key=args.key,
    )
    _report_launch(client, args, run)


def _report_launch(client: Client, args: argparse.Namespace, run: RunDetail) -> None:
    print_answer(args, run, f"{run.slug}  {run.url}")
    if args.watch:
        args.run = run.slug
        _watch(client, args)


def _watch(client: Client, args: argparse.Namespace) -> None:
    previous = ""
    for run in client.watch(args.run):
        line = _line(run)
        if line != previous:
            print_answer(args, run, line)
            previous = line
    if run.state == "failed":
        raise EchoscopeError(run.failure or "The run failed; see its log.")


def _line(run: RunDetail) -> str:
    phase = ""
    if run.phase and run.state in ("starting", "running"):
        phase = f" · {run.phase.phase}"
        if run.phase.total:
            phase += f" {run.phase.done:,} of {run.phase.total:,} {run.phase.unit}".rstrip()
    planned = f" of {run.iterations}" if run.iterations else ""
    return f"{run.title}: {run.state}, iteration {run.iteration}{planned}{phase}"


def _change(client: Client, args: argparse.Namespace) -> None:
    change = client.change_settings(args.run, parse_changes(args.set), args.why, rewind_to=args.rewind_to)
    wanted = [f"{name} = {value}" for name, value in change.changes.items()]
    if change.rewind_to is not None:
        wanted.insert(0, f"back to the checkpoint of iteration {change.rewind_to}")
    print_answer(args, change, f"{args.run}: {', '.join(wanted)} before the next iteration")


def _control(client: Client, args: argparse.Namespace) -> None:
    run = client.control(args.run, args.action)
    print_answer(args, run, _line(run))


def _push(client: Client, args: argparse.Namespace) -> None:
    printed = False

    def progress(run: RunDetail, received: int, size: int) -> None:
        nonlocal printed
        if not printed:
            print_answer(args, run, run.url)
            printed = True
        if sys.stderr.isatty():
            print(f"\r{received:,} of {size:,} bytes", end="", file=sys.stderr, flush=True)

    run = client.push_journal(
        args.folder,
        follow=args.follow,
        run=args.run,
        title=args.title,
        visibility=args.visibility,
        skip_bad_lines=args.skip_bad_lines,
        skip_bad_images=print_note if args.skip_bad_images else None,
        report=print_note,
        progress=progress,
    )
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print_answer(args, run, f"{_line(run)}; {run.journal.seq:,} events")


def _export(client: Client, args: argparse.Namespace) -> None:
    with output(args.out) as out:
        for text in _exported(client, args.run, args.what):
            out.write(text)
            if args.out and sys.stderr.isatty():
                print(f"\r{out.tell():,} bytes", end="", file=sys.stderr, flush=True)
    if args.out and sys.stderr.isatty():
        print(file=sys.stderr)


def _exported(client: Client, run: str, what: str) -> Iterator[str]:
    if what == "config":
        return iter([client.config_yaml(run)])
    return metric_lines(client, run) if what == "metrics" else trajectory_lines(client, run)


def _share(client: Client, args: argparse.Namespace) -> None:
    link = client.share(args.trajectory, turn=args.turn)
    print_answer(args, link, link.url)


def _revoke(client: Client, args: argparse.Namespace) -> None:
    link = client.revoke(args.link.rstrip("/").rsplit("/", 1)[-1])
    print_answer(args, link, f"Revoked: {link.url} is no longer available.")
