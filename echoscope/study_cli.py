"""Commands of studies: python -m echoscope study ACTION."""

from __future__ import annotations

import argparse
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echoscope import models
from echoscope.errors import EchoscopeError
from echoscope.output import add_command, output, parse_changes, parse_value, print_answer

if TYPE_CHECKING:
    from echoscope.client import Client

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})(?::(log))?")


def add_study_commands(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `study` to its parser."""
    action = partial(add_command, parser.add_subparsers(required=True, metavar="ACTION"))
    listing = action("list", _list, "List studies, newest first.")
    listing.add_argument("--state", choices=("running", "paused", "cancelled", "finished"))
    listing.add_argument("--text", help="Part of the title.")
    listing.add_argument("--limit", type=int, default=30, help="Maximum number of studies (default 30; 0 = all).")
    action("show", _show, "Show a study with its arms and verdicts.").add_argument("study")
    _add_launch_options(action("launch", _launch, "Launch a study of the paper, a grid or a search."))
    for name in ("pause", "resume", "cancel", "undo-cancel"):
        steering = action(name, _control, f"{name.capitalize()} a study with all of its runs.")
        steering.add_argument("study")
        steering.set_defaults(action=name)
    sharing = action("share", _share, "Set who can read a study.")
    sharing.add_argument("study")
    sharing.add_argument("--team-only", action="store_true", help="Only the team; default: anyone with the link.")
    sharing.add_argument("--with-runs", action="store_true", help="Its runs as well.")
    exporting = action("export", _export, "Export a study.")
    exporting.add_argument("study")
    exporting.add_argument("what", choices=("markdown", "svg", "csv"), nargs="?", default="markdown")
    exporting.add_argument("--out", type=Path, help="File to write; default: standard output.")


def _add_launch_options(launching: argparse.ArgumentParser) -> None:
    launching.add_argument("study", nargs="?", default="", help="Study of the paper, as in figure-9.")
    launching.add_argument("--scale", choices=("smoke", "pocket", "paper"), default="pocket")
    launching.add_argument("--preset", help="Of a grid or a search: preset that the arms have in common.")
    launching.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="SECTION.FIELD=VALUES",
        help="Values separated by commas; of a search also a range, as in optimizer.policy_lr=1e-5..1e-2:log.",
    )
    launching.add_argument("--search", choices=("random", "bayesian"), help="Search instead of a grid.")
    launching.add_argument("--trials", type=int, default=20, help="Trials of a search (default 20).")
    launching.add_argument("--parallel", type=int, default=4, help="Trials in the queue at a time (default 4).")
    launching.add_argument("--seeds", type=int, help="Seeds of each arm; default: the study's own, 3 or 1 (search).")
    launching.add_argument("--metric", help="Metric of a grid or a search; default: success/rate.")
    launching.add_argument(
        "--stop-early",
        nargs=2,
        type=int,
        metavar=("ITERATION", "REDUCTION"),
        help="Stop hopeless arms: first compared after this iteration, one in REDUCTION goes on.",
    )
    launching.add_argument("--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", dest="changes")
    launching.add_argument("--title", default="", help="Name of the study and of the group of its runs.")
    launching.add_argument("--queue", help="Device class, as in cpu or gpu.")
    launching.add_argument("--priority", choices=("low", "normal", "high"), default="normal")
    launching.add_argument("--key", help="Idempotency key: a repeated request launches nothing.")


def _list(client: Client, args: argparse.Namespace) -> None:
    for number, study in enumerate(client.studies.list(state=args.state, text=args.text), 1):
        print_answer(args, study, _line(study))
        if number == args.limit:
            return


def _line(study: models.Study) -> str:
    runs = ", ".join(f"{count} {state}" for state, count in study.runs.items()) or "no runs yet"
    return f"{study.slug}  {study.state:<9}  {study.title}: {runs}"


def _show(client: Client, args: argparse.Namespace) -> None:
    study = client.studies.get(args.study)
    lines = [_line(study), study.url, *([study.problem] if study.problem else [])]
    several = len({arm.environment for arm in study.arms}) > 1
    for arm in study.arms:
        prefix = f"{arm.environment}, " if several else ""
        success = "–" if arm.success is None else f"{100 * arm.success:.1f}"
        around = "" if arm.deviation is None else f" ± {100 * arm.deviation:.1f}"
        stopped = ", stopped early" if arm.stopped else ""
        lines.append(f"{prefix}{arm.title}: {success}{around}%, {arm.complete} of {len(arm.runs)} complete{stopped}")
    for verdict in study.verdicts:
        firm = "" if verdict.firm else f" ({verdict.complete} of {verdict.planned} seeds)"
        lines.append(f"{verdict.claim}, {verdict.environment}: {verdict.verdict}{firm}; {verdict.figures}")
    print_answer(args, study, "\n  ".join(lines))


def _launch(client: Client, args: argparse.Namespace) -> None:
    plan: dict[str, Any] = {"overrides": parse_changes(args.changes), "title": args.title, "priority": args.priority}
    plan |= {name: value for name in ("seeds", "queue") if (value := getattr(args, name)) is not None}
    if args.study:
        if args.preset or args.vary or args.search or args.stop_early or args.metric:
            raise EchoscopeError("A study of the paper has its own arms: leave out --preset, --vary and --search.")
        study = client.studies.launch("catalogue", study=args.study, scale=args.scale, key=args.key, **plan)
    else:
        if not args.preset or not args.vary:
            raise EchoscopeError("Name a study of the paper, or give --preset and at least one --vary.")
        plan["preset"] = args.preset
        if args.metric:
            plan["metric"] = args.metric
        if args.stop_early:
            plan["early_stopping"] = {"min_iterations": args.stop_early[0], "reduction": args.stop_early[1]}
        rows = [_row(text) for text in args.vary]
        if args.search:
            plan |= {"trials": args.trials, "parallel": args.parallel}
            study = client.studies.launch(args.search, space=[_range(*row) for row in rows], key=args.key, **plan)
        else:
            study = client.studies.launch(
                "grid", axes={name: _values(text) for name, text in rows}, key=args.key, **plan
            )
    print_answer(args, study, f"{_line(study)}\n  {study.url}")


def _row(text: str) -> tuple[str, str]:
    name, separator, values = text.partition("=")
    if not separator or not values.strip():
        raise EchoscopeError(f"--vary takes SECTION.FIELD=VALUES, not {text!r}.")
    return name.strip(), values.strip()


def _values(text: str) -> list[Any]:
    return [parse_value(part.strip()) for part in text.split(",") if part.strip()]


def _range(name: str, text: str) -> dict[str, Any]:
    match = RANGE.fullmatch(text)
    if match is None:
        return {"setting": name, "values": _values(text)}
    return {"setting": name, "low": float(match[1]), "high": float(match[2]), "log": bool(match[3])}


def _control(client: Client, args: argparse.Namespace) -> None:
    done = client.studies.control(args.study, args.action)
    lines = [_line(done.study), f"{done.changed} runs follow", *done.refusals]
    print_answer(args, done, "\n  ".join(lines))


def _share(client: Client, args: argparse.Namespace) -> None:
    study = client.studies.share(args.study, "team" if args.team_only else "link", with_runs=args.with_runs)
    print_answer(args, study, f"{study.url}  {study.visibility}")


def _export(client: Client, args: argparse.Namespace) -> None:
    with output(args.out) as out:
        out.write(client.studies.export(args.study, args.what))
