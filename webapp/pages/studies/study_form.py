"""The launch form of a study: posted texts as a plan, with errors by field."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from trainer.config.files import find_preset, load_preset, preset_names, validation_errors, with_values
from trainer.config.removed import stored_config
from trainer.config.run import RunConfig
from webapp.runs.launch.creation import SchedulingOptions
from webapp.runs.launch.fields import full_labels, with_labels
from webapp.runs.launch.planning import LaunchPlan
from webapp.runs.models import Run, RunQuerySet
from webapp.studies.study_launch import launchable
from webapp.studies.study_plan import StudyPlan, StudyRefused
from webapp.studies.study_spec import DEFAULT_SEEDS, MAX_AXES, Spec, default_seeds, read_spec
from webapp.teams.models import Team, User

ROWS = range(1, MAX_AXES + 1)
KINDS = ("catalogue", "grid", "random", "bayesian")
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"\s*({NUMBER})\s*(?:\.\.|…|to)\s*({NUMBER})\s*(log)?\s*")
LABELS = {
    "kind": "The kind of study",
    "study": "The study of the paper",
    "scale": "The scale",
    "seeds": "The seeds",
    "preset": "The preset",
    "from": "The run to begin from",
    "shared": "The shared changes",
    "config": "The shared settings",
    "axes": "The settings to vary",
    "space": "The settings to vary",
    "trials": "The trials",
    "parallel": "Trials at a time",
    "metric": "The metric",
    "min_iterations": "The first comparison",
    "reduction": "The share that goes on",
    "overrides": "The shared changes",
    "title": "The name",
} | {f"setting_{number}": f"Setting {number}" for number in ROWS}


@dataclass(frozen=True)
class CheckedStudy:
    """A posted form that can be launched."""

    spec: Spec
    plan: StudyPlan
    launch: LaunchPlan


class FormRefused(Exception):
    """The form cannot be launched. `errors` are sentences by field."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = errors


def check_study(post: Mapping[str, str], user: User, teams: Sequence[Team], queues: Collection[str]) -> CheckedStudy:
    """Parse a posted form and plan its runs. Raises FormRefused.

    Args:
        teams: teams in which the user may launch runs; the first one is the default.
        queues: device classes that can be chosen.
    """
    readable = Run.objects.listed_for(user)
    team = next((team for team in teams if team.slug == post.get("team")), None)
    if team is None and post.get("team"):
        raise FormRefused({"team": "You may not launch runs in this team (any more): choose another one."})
    queue = post.get("queue", "")
    priority = Run.Priority.named_or_normal(post.get("priority", ""))
    scheduling = SchedulingOptions(queue if queue in queues else "", None, priority)
    try:
        spec = read_spec(_data(post, readable))
        return CheckedStudy(spec, *launchable(spec, user, team or teams[0], scheduling, readable))
    except ValidationError as error:
        raise FormRefused(_at_rows(_errors(error), post)) from None
    except StudyRefused as refusal:
        label = LABELS.get(refusal.field, refusal.field)
        raise FormRefused(_at_rows({refusal.field: f"{label} {refusal}."}, post)) from None


def _rows(post: Mapping[str, str]) -> list[tuple[int, str, str]]:
    """Return (number, dotted setting, text of its values) of each row that names a setting, by title or dotted name."""
    titles = {label.casefold(): name for name, label in full_labels().items()}
    named = [(number, post.get(f"setting_{number}", "").strip()) for number in ROWS]
    return [
        (number, titles.get(text.casefold(), text), post.get(f"values_{number}", "").strip())
        for number, text in named
        if text
    ]


def _at_rows(errors: Mapping[str, str], post: Mapping[str, str]) -> dict[str, str]:
    """Move errors about settings to vary to the field of the row that they name."""
    at_fields = {}
    for field, text in errors.items():
        if field not in ("axes", "space"):
            at_fields[field] = with_labels(text)
            continue
        row = next((row for row in _rows(post) if re.search(rf"\b{re.escape(row[1])}\b", text)), None)
        part = "setting" if "unknown" in text else "values"
        at_fields[f"{part}_{row[0]}" if row else "setting_1"] = with_labels(text)
    return at_fields


def _data(post: Mapping[str, str], readable: RunQuerySet) -> dict[str, Any]:
    """Return the posted plan as data. Raises StudyRefused."""
    kind = post.get("kind", "catalogue")
    if kind not in KINDS:
        raise StudyRefused("kind", f"must be one of {', '.join(KINDS)}")
    shared = _assignments(post.get("shared", ""))
    if kind == "catalogue":
        study, scale = post.get("study", ""), post.get("scale", "pocket")
        seeds = _whole(post, "seeds", default_seeds(study, scale))
        return {"kind": kind, "study": study, "scale": scale, "seeds": seeds, "overrides": shared}
    config, preset = _common(post, shared, readable)
    data: dict[str, Any] = {
        "kind": kind,
        "config": config.model_dump(mode="json"),
        "preset": preset,
        "seeds": _whole(post, "seeds", DEFAULT_SEEDS if kind == "grid" else 1),
        "metric": post.get("metric", "").strip() or "success/rate",
    }
    if post.get("early_stopping"):
        data["early_stopping"] = {
            "min_iterations": _whole(post, "min_iterations", 5),
            "reduction": _whole(post, "reduction", 3),
        }
    for number, name, _ in _rows(post):
        if not re.fullmatch(r"[a-z_][A-Za-z0-9_.]*", name):
            raise StudyRefused(f"setting_{number}", f"is no setting, {name[:40]!r}: choose one from the list")
    rows = [(name, text) for _, name, text in _rows(post)]
    if not rows:
        raise StudyRefused("axes", "are empty: name at least one setting, with the values to try")
    for name, text in rows:
        if not text:
            raise StudyRefused("axes", f"name {name} without values: list them, separated by commas")
    if kind == "grid":
        return data | {"axes": [{"setting": name, "values": values(text)} for name, text in rows]}
    space = [{"setting": name} | _range(text) for name, text in rows]
    return data | {"space": space, "trials": _whole(post, "trials", 20), "parallel": _whole(post, "parallel", 4)}


def _common(post: Mapping[str, str], shared: dict[str, Any], readable: RunQuerySet) -> tuple[RunConfig, str]:
    slug = post.get("from", "").strip().rstrip("/").rpartition("/")[2]
    name = ""
    if slug:
        run = readable.filter(slug=slug).first() if re.fullmatch(r"[\w-]{1,40}", slug) else None
        if run is None:
            raise StudyRefused("from", "does not exist, or belongs to a team you are not in: give the address of a run")
        base, name = _load_config(run), run.preset
    else:
        preset = find_preset(post.get("preset", ""))
        if preset is None:
            raise StudyRefused("preset", f"must be one of {', '.join(preset_names())}")
        base, name = load_preset(preset), preset
    try:
        return with_values(base, shared), name
    except ValidationError as error:
        where, text = validation_errors(error)[0]
        raise StudyRefused("shared", f"do not fit: {where}: {text}") from None
    except ValueError as error:
        raise StudyRefused("shared", f"name an unknown setting: {error}") from None


def _load_config(run: Run) -> RunConfig:
    if run.recorded is not None:
        raise StudyRefused("from", "was trained by another trainer, whose settings are not those of a run here")
    try:
        return stored_config(run.config | {"name": ""})
    except ValidationError:
        raise StudyRefused("from", "is of another version, and its settings do not fit this one") from None


def _assignments(text: str) -> dict[str, Any]:
    """Parse lines of `setting=value`. Raises StudyRefused."""
    assignments = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise StudyRefused("shared", f"must be lines such as iterations=40, not {line.strip()[:60]!r}")
        assignments[name.strip()] = _value(value)
    return assignments


def values(text: str) -> list[Any]:
    """Parse values separated by commas: numbers, true and false, words."""
    return [_value(part) for part in text.split(",") if part.strip()]


def _value(text: str) -> Any:
    text = text.strip()
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return float(text) if re.fullmatch(NUMBER, text) else text


def _range(text: str) -> dict[str, Any]:
    """Parse a range such as `0.0001 .. 0.01 log`, or else a list of values."""
    match = RANGE.fullmatch(text)
    if match is None:
        return {"values": values(text)}
    return {"low": float(match[1]), "high": float(match[2]), "log": bool(match[3])}


def _whole(post: Mapping[str, str], name: str, default: int) -> int:
    text = post.get(name, "").strip()
    if not text:
        return default
    if not re.fullmatch(r"\d{1,6}", text):
        raise StudyRefused(name, f"must be a whole number, not {text[:20]!r}")
    return int(text)


def _errors(error: ValidationError) -> dict[str, str]:
    errors: dict[str, str] = {}
    for where, text in validation_errors(error):
        parts = [part for part in where.split(".") if part not in KINDS and part != "early_stopping"]
        name = next((part for part in parts if part in LABELS), "")
        text = text.removeprefix("Value error, ")
        errors.setdefault(name or "axes", f"{LABELS.get(name, 'The plan')}: {text}.")
    return errors
