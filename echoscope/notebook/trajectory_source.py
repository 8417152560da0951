"""Trajectories for the player of notebooks: documents, answers of the API, journals with their images."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from echoscope.models import Share, TrajectoryDetail
from echoscope.recording.observation_images import ImageError, image_path
from echoscope.recording.turn_text import extra_text, response_text

_JOURNAL = "journal.jsonl"
MAX_EMBEDDED_BYTES = 16 * 1024 * 1024
"""Maximum size of the images in a page, which is stored in the notebook."""
MAX_LISTED = 5
"""Maximum number of trajectory ids in a message."""
_OPTIONS = ("turn", "action", "autoplay", "theme")
_PLACE = re.compile(r"(\d{1,9})-(\d{1,9})-(\d{1,9})")

Source = Mapping[str, Any] | TrajectoryDetail | Share | str | Path


def embed_address(address: str, options: Mapping[str, str]) -> str:
    """Return the URL of the embedded player of a share link.

    Args:
        address: `https://SITE/s/TOKEN` or `https://SITE/embed/TOKEN`, also with a position in its query.
        options: options of the embed; they take precedence over the query.
    Raises:
        ValueError: it is another page.
    """
    parts = urlsplit(address)
    *folders, kind, token = ["", "", *parts.path.rstrip("/").split("/")]
    if kind not in ("s", "embed") or not token or not parts.netloc:
        raise ValueError(
            f"{address} is not a share link, as in https://SITE/s/TOKEN: make one under “Share and download” on the "
            "page of the trajectory, or with client.share(TRAJECTORY).url"
        )
    prefix = "/".join(part for part in folders if part)
    given = {name: values[0] for name, values in parse_qs(parts.query).items() if name in _OPTIONS}
    query = urlencode(given | dict(options))
    path = f"{'/' + prefix if prefix else ''}/embed/{token}"
    return f"{parts.scheme}://{parts.netloc}{path}{'?' + query if query else ''}"


def load_document(source: Mapping[str, Any] | TrajectoryDetail | Path, trajectory: str | int | None) -> dict[str, Any]:
    """Return the player's data: `title`, `outcome`, `prompt`, `board` and `turns`.

    Args:
        source: a document of an export, an answer of the API, a JSON file of an export, or a run's folder or journal.
        trajectory: id in the journal, iteration-group-member or number; only for folders and journals, and required
            there.
    Raises:
        ValueError: it is none of them, or there is no such trajectory.
        OSError: the file cannot be read.
    """
    if isinstance(source, Path):
        return _from_file(source, trajectory)
    if isinstance(source, TrajectoryDetail):
        data = source.model_dump(mode="json")
        source = {**data["trajectory"], **data}
    turns = source.get("turns")
    if not isinstance(turns, list) or not all(isinstance(turn, Mapping) and "response" in turn for turn in turns):
        raise ValueError(
            "this is not a trajectory: it needs `turns`, as in the JSON export of one (docs/sharing.md) or "
            "client.trajectory(…)"
        )
    return _shown(source, turns)


def _from_file(path: Path, trajectory: str | int | None) -> dict[str, Any]:
    if path.is_dir() or path.name.endswith(".jsonl"):
        journal = path / _JOURNAL if path.is_dir() else path
        return _from_journal(journal, _find_key(journal, trajectory))
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise ValueError(f"{path} is not a JSON export of a trajectory, a journal, or the folder of a run")
    return load_document(data, None)


def _find_key(journal: Path, trajectory: str | int | None) -> str:
    """Return the id of a trajectory, from its id, from iteration-group-member, or from its number.

    Raises ValueError.
    """
    groups = _groups(journal)
    keys = [key for group in groups for key in group["members"]]
    text = "" if trajectory is None else str(trajectory).strip()
    if text in keys:
        return text
    if text.isdecimal() and 1 <= int(text) <= len(keys):
        return str(keys[int(text) - 1])
    if match := _PLACE.fullmatch(text):
        iteration, number, member = map(int, match.groups())
        matches = [group for group in groups if (group["iteration"], group.get("group")) == (iteration, number)]
        for group in sorted(matches, key=lambda candidate: candidate.get("split") == "eval"):  # training groups first
            if member < len(group["members"]):
                return str(group["members"][member])
    problem = "has many trajectories: name one" if trajectory is None else f"has no trajectory {text!r}"
    if not keys:
        raise ValueError(f"{journal} has no trajectories")
    listed = ", ".join(map(repr, keys[:MAX_LISTED])) + (", …" if len(keys) > MAX_LISTED else "")
    raise ValueError(
        f"{journal} {problem}. Pass trajectory= its id ({listed}), its iteration, group and member as in "
        f"'{groups[0]['iteration']}-0-0' (group and member from 0), or its number from 1 to {len(keys)}"
    )


def _groups(journal: Path) -> list[dict[str, Any]]:
    """Return the groups in the order in which they began, without groups that a later attempt superseded."""
    groups: list[dict[str, Any]] = []
    for event in _events(journal, b'"group_started"', b'"run_started"'):
        if event.get("type") == "group_started":
            groups.append(event)
        elif event.get("type") == "run_started" and groups:
            after = {"train": event.get("from_iteration", 0), "eval": event.get("evaluated_iteration", -1)}
            suites = event.get("evaluated_suites") or ()
            groups = [
                group
                for group in groups
                if group["iteration"] <= after.get(group.get("split", "train"), 0) or group.get("suite") in suites
            ]
    return groups


def _events(journal: Path, *parts: bytes) -> Iterator[dict[str, Any]]:
    """Yield events of complete lines that contain one of the parts."""
    with journal.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n") and any(part in line for part in parts):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event


def _from_journal(journal: Path, key: str) -> dict[str, Any]:
    """Return the trajectory from its last attempt, up to the journal's end."""
    group: dict[str, Any] | None = None
    turns: list[dict[str, Any]] = []
    end: dict[str, Any] = {}
    named = json.dumps(key, ensure_ascii=False).encode()
    recorded = False
    with journal.open("rb") as lines:
        for number, line in enumerate(lines):
            if number == 0 and line.endswith(b"\n"):
                recorded = "recorded" in (json.loads(line).get("config") or {})
            if named not in line or not line.endswith(b"\n"):
                continue
            event = json.loads(line)
            match event.get("type"):
                case "group_started" if key in event["members"]:
                    group, turns, end = event, [], {}
                case "turn" if event["trajectory"] == key:
                    turns.append(event)
                case "trajectory_finished" if event["trajectory"] == key:
                    end = event
    if group is None:
        raise ValueError(f"{journal} has no trajectory {key!r}")
    _embed_images(journal.parent, turns)
    return _shown({**group, **end, "recorded": recorded}, turns)


def _embed_images(folder: Path, turns: list[dict[str, Any]]) -> None:
    """Add the images in the journal's folder to the turns as `sources`, from the first turn until they are too many."""
    left = MAX_EMBEDDED_BYTES
    for turn in turns:
        for image in turn.get("images") or ():
            try:
                file = image_path(folder, image)
            except ImageError:
                continue
            if not file.is_file() or (left := left - file.stat().st_size) < 0:
                continue
            data = base64.b64encode(file.read_bytes()).decode()
            turn.setdefault("sources", []).append(f"data:{image['media_type']};base64,{data}")


def _shown(facts: Mapping[str, Any], turns: list[Mapping[str, Any]] | list[dict[str, Any]]) -> dict[str, Any]:
    success, reward = facts.get("success"), facts.get("total_reward")
    if success is None and facts.get("status") in ("success", "failed"):
        success = facts["status"] == "success"
    over = success is not None or facts.get("end") not in (None, "", "interrupted")
    outcome = {True: "solved", False: "not solved", None: "ended" if over else "not finished"}[success]
    reward_text = f", reward {reward:g}" if isinstance(reward, int | float) and over else ""
    iteration_text = f", iteration {facts['iteration']}" if facts.get("iteration") is not None else ""
    return {
        "title": f"{facts.get('environment') or 'Trajectory'}{iteration_text}",
        "outcome": outcome + reward_text,
        "success": success,
        "prompt": facts.get("prompt") or "",
        "board": facts.get("board"),
        "turns": [
            {name: turn.get(name) for name in ("state", "response", "thought", "answer", "problem", "board")}
            | {
                "reward": turn.get("reward") if turn.get("terms", True) else None,
                "text": _text(turn, recorded=bool(facts.get("recorded"))),
                "more": extra_text(turn.get("extra"), turn.get("actions") or []),
                "images": turn.get("sources") or [],
                "actions": [
                    {name: action.get(name) for name in ("text", "name", "status", "actual", "board", "reward", "call")}
                    for action in turn.get("actions") or []
                ],
            }
            for turn in turns
        ],
    }


def _text(turn: Mapping[str, Any], *, recorded: bool) -> str:
    """Return the response text that the player shows: our own trainer's responses consist of thought and actions."""
    if recorded:
        return response_text(turn)
    return "" if turn.get("thought") or turn.get("actions") else turn.get("response") or ""
