"""Mutated journals: a recorded journal with a few lines changed, and requests for everything shown of its run."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

from bench.fuzz import values
from bench.fuzz.requests import Pattern, Request, operations

IMPORT = "/api/runs/import"
KINDS = ("jsonl", "parquet", "csv", "json", "md", "html", "gif")
METHODS = {"GET"}
NO_IMAGE = "0" * 64
"""Hash that no image of the imported run has."""


@cache
def recorded() -> tuple[str, ...]:
    """Return lines of a journal of two iterations with all kinds of events."""
    from tests.webapp import recorded_journal
    from trainer.config.run import RunConfig

    config = RunConfig(iterations=2)
    config.rollout.groups, config.rollout.group_size = 1, 2
    events: list[Any] = [recorded_journal.started(config), recorded_journal.evaluated(0, 0.35)]
    for number in (1, 2):
        events += recorded_journal.iteration(config, number, skill=0.6)
    events.append(recorded_journal.evaluated(2, 0.5, final=True))
    lines = []
    for seq, event in enumerate(events, 1):
        lines.append(json.dumps(event.model_dump(exclude_none=True) | {"seq": seq, "time": 1_760_000_000.0 + seq}))
    return tuple(lines)


def journal(dice: random.Random) -> bytes:
    """Return the recorded journal with one to four changes."""
    lines = list(recorded())
    for _ in range(dice.randint(1, 4)):
        position = dice.randrange(len(lines))
        match dice.randrange(20):
            case 0:
                del lines[position]
            case 1:
                lines.insert(position, lines[dice.randrange(len(lines))])
            case 2:
                lines[position] = lines[position][: dice.randrange(1, 200)]
            case 3:
                lines[position] = values.text(dice)
            case 4:
                lines[position] = lines[position].replace("0", dice.choice(("NaN", "1e400", "9" * 30, "-0")), 1)
            case _:
                event = _parsed(lines[position])
                if event is not None:
                    changed = values.mutated(dice, event)
                    if isinstance(changed, dict) and dice.random() < 0.9:
                        changed = changed | {name: event[name] for name in ("seq", "type") if name in event}
                    lines[position] = json.dumps(changed)
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def import_request(dice: random.Random) -> Request:
    """Return the import of a mutated journal."""
    skip = "?skip_bad_lines=true" if dice.random() < 0.5 else ""
    return Request("import_run", "member's token", "POST", IMPORT + skip, journal(dice), "application/x-ndjson")


def visits(known: dict[str, Any], patterns: list[Pattern], document: dict[str, Any]) -> list[Request]:
    """Return requests for everything that shows the imported run and one of its trajectories.

    Args:
        known: slug of the run, its newest trajectory, another trajectory, and the key of a trajectory.
    """
    requests = []
    for pattern in patterns:
        arguments = set(pattern.arguments)
        about_run = pattern.template.startswith("/runs/%(slug)s")
        if not about_run and not pattern.template.startswith("/t/%(slug)s"):
            continue
        slug = known["run"] if about_run else known["trajectory"]
        if slug is None or arguments & {"token", "iteration", "action"}:
            continue
        base = dict.fromkeys(arguments, "0")  # views, questions and the like that do not exist
        base |= {"slug": slug, "key": known["key"], "other": known["other"], "sha256": NO_IMAGE, "turn": 0}
        for kind in KINDS if "kind" in arguments else ("",):
            path = pattern.template % (base | {"kind": kind})
            requests.append(Request(pattern.name, "member", "GET", path))
    pages = (
        "/runs/new?clone={run}",
        "/compare?runs={run}",
        "/compare/curves.json?runs={run}&names=reward/mean",
        "/?text=a",
        "/workers",
    )
    requests += [Request("journal", "member", "GET", page.format(**known)) for page in pages]
    requests += [
        Request("environment", "member", "GET", f"/environments/Sokoban?of={known['run']}"),
        Request("launch-check", "member", "POST", f"/runs/new/check?clone={known['run']}"),
    ]
    for method, path, operation in operations(document):
        if method in METHODS and "{slug}" in path:
            slug = known["trajectory"] if "/trajectories/{slug}" in path else known["run"]
            if slug is not None:
                path = path.replace("{slug}", slug).replace("{sha256}", NO_IMAGE)
                requests.append(Request(operation.get("operationId", path), "member's token", "GET", path))
    return requests
