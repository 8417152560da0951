"""The client: a method for each operation of the API. How requests are sent is in transport.py, journals in journal.py.

from echoscope.client import Client

with Client("https://echoscope.example", token) as site:
    run = site.launch(preset="sokoban-starpo_s-pocket", overrides={"iterations": 20})
    for run in site.watch(run.slug):
        print(run.iteration, run.state)
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from echoscope import models
from echoscope.journal import push
from echoscope.transport import Transport

WINDOW = 5000
"""Iterations that one request can tell one by one."""
Item = TypeVar("Item", bound=models.Answer)
Visibility = Literal["private", "team", "link"]
Action = Literal["pause", "resume", "stop", "cancel"]
Priority = Literal["low", "normal", "high"]


class Client:
    """One site, on behalf of one API token. Everything raises the exceptions of echoscope.errors."""

    def __init__(
        self, url: str, token: str, *, timeout: float = 30.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.transport = Transport(url, token, timeout=timeout, sleep=sleep)
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self.transport.close()

    # Runs

    def runs(
        self,
        *,
        state: str | None = None,
        environment: str | None = None,
        tag: str | None = None,
        author: str | None = None,
        text: str | None = None,
    ) -> Iterator[models.Run]:
        """The team's runs, newest first, fetched page by page as they are looked at."""
        query = {"state": state, "environment": environment, "tag": tag, "author": author, "text": text, "limit": 100}
        return self._pages("/runs", query, models.Run)

    def run(self, run: str) -> models.RunDetail:
        """One run with its configuration."""
        return self._get(f"/runs/{run}", models.RunDetail)

    def launch(
        self,
        *,
        preset: str | None = None,
        config: Mapping[str, Any] | None = None,
        overrides: Mapping[str, Any] | None = None,
        visibility: Visibility = "team",
        queue: str | None = None,
        gpus: int | None = None,
        priority: Priority = "normal",
        key: str | None = None,
    ) -> models.RunDetail:
        """A new run from a preset or a configuration, with dotted overrides.

        `queue` is a device class, `gpus` how many of one worker; None: as the configuration suggests.

        `key` names the request: sent again within a day, it gives the same run. Without one, the client makes its own,
        so that a broken connection launches nothing twice.
        """
        body = {"overrides": dict(overrides or {}), "visibility": visibility, **_asked(queue, gpus, priority)}
        if preset is not None:
            body["preset"] = preset
        if config is not None:
            body["config"] = dict(config)
        return self._make("/runs", body, key)

    def clone(
        self,
        run: str,
        overrides: Mapping[str, Any] | None = None,
        *,
        visibility: Visibility = "team",
        queue: str | None = None,
        gpus: int | None = None,
        priority: Priority = "normal",
        key: str | None = None,
    ) -> models.RunDetail:
        """A new run like another, with some settings changed."""
        body = {"overrides": dict(overrides or {}), "visibility": visibility, **_asked(queue, gpus, priority)}
        return self._make(f"/runs/{run}/clone", body, key)

    def update(
        self,
        run: str,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        visibility: Visibility | None = None,
        priority: Priority | None = None,
    ) -> models.RunDetail:
        """Change title, tags, visibility or priority; what is None stays."""
        given = {
            "title": title,
            "tags": None if tags is None else list(tags),
            "visibility": visibility,
            "priority": priority,
        }
        body = {name: value for name, value in given.items() if value is not None}
        answer = self.transport.send("PATCH", f"/runs/{run}", body=body, repeatable=True)
        return models.RunDetail.model_validate(answer.json())

    def control(self, run: str, action: Action) -> models.RunDetail:
        """Pause, resume, stop or cancel. Raises Conflict when the run cannot do that now."""
        answer = self.transport.send("POST", f"/runs/{run}/control", body={"action": action})
        return models.RunDetail.model_validate(answer.json())

    def delete(self, run: str) -> None:
        """Delete a run that has ended, for good."""
        self.transport.send("DELETE", f"/runs/{run}", query={"confirm": run})

    def config_yaml(self, run: str) -> str:
        """What `python -m trainer train --config` takes."""
        return self.transport.send("GET", f"/runs/{run}/config.yaml").text

    def watch(self, run: str, *, every: float = 2.0) -> Iterator[models.RunDetail]:
        """The run now, and again each time it has changed, until it has ended or is paused."""
        shown: models.RunDetail | None = None
        while True:
            now = self.run(run)
            if now != shown:
                yield now
                shown = now
            if now.ended or now.state == "paused":
                return
            self._sleep(every)

    # What a run produced

    def metrics(self, run: str) -> list[models.Metric]:
        """The metrics it has, with their newest values."""
        return self._list(f"/runs/{run}/metrics", models.Metric)

    def points(
        self, run: str, names: Sequence[str], *, first: int = 0, last: int | None = None, buckets: int = 500
    ) -> dict[str, list[models.Point]]:
        """Points of metrics by name. Ranges longer than `buckets` come as minimum, maximum and last of each bucket."""
        query = {"name": list(names), "first": first, "last": last, "buckets": buckets}
        curves = self.transport.send("GET", f"/runs/{run}/metrics/points", query=query).json()
        return {curve["name"]: [models.Point.model_validate(point) for point in curve["points"]] for curve in curves}

    def history(self, run: str, name: str) -> Iterator[models.Point]:
        """Every iteration of one metric as a point of its own, however long the run is."""
        newest = max((metric.last_iteration for metric in self.metrics(run) if metric.name == name), default=-1)
        for first in range(0, newest + 1, WINDOW):
            yield from self.points(run, [name], first=first, last=first + WINDOW - 1, buckets=WINDOW)[name]

    def alarms(self, run: str) -> list[models.Alarm]:
        """Of the Echo Trap watch, newest first."""
        return self._list(f"/runs/{run}/alarms", models.Alarm)

    def checkpoints(self, run: str) -> list[models.Checkpoint]:
        """On disk, oldest first."""
        return self._list(f"/runs/{run}/checkpoints", models.Checkpoint)

    def evaluations(self, run: str) -> list[models.Evaluation]:
        """By suite, oldest first."""
        return self._list(f"/runs/{run}/evaluations", models.Evaluation)

    def log(self, run: str) -> str:
        """The end of the trainer's log."""
        return str(self.transport.send("GET", f"/runs/{run}/log").json()["text"])

    # Trajectories and their share links

    def trajectories(self, run: str, **filters: Any) -> Iterator[models.Trajectory]:
        """Those that the filters ask for (names as in /api/docs), fetched page by page as they are looked at."""
        return self._pages(f"/runs/{run}/trajectories", {"limit": 100, **filters}, models.Trajectory)

    def trajectory(self, trajectory: str) -> models.TrajectoryDetail:
        """One with its turns."""
        return self._get(f"/trajectories/{trajectory}", models.TrajectoryDetail)

    def shares(self, trajectory: str) -> list[models.Share]:
        """Its share links, newest first."""
        return self._list(f"/trajectories/{trajectory}/shares", models.Share)

    def share(
        self,
        trajectory: str,
        *,
        expires_at: datetime | None = None,
        turn: int | None = None,
        action: int | None = None,
        indexable: bool = False,
    ) -> models.Share:
        """A link that shows it to everybody who has it. Your open link of the same kind is given again."""
        body = {
            "expires_at": expires_at.isoformat() if expires_at else None,
            "turn": turn,
            "action": action,
            "indexable": indexable,
        }
        answer = self.transport.send("POST", f"/trajectories/{trajectory}/shares", body=body, repeatable=True)
        return models.Share.model_validate(answer.json())

    def revoke(self, token: str) -> models.Share:
        """Close a share link for good."""
        answer = self.transport.send("DELETE", f"/shares/{token}", repeatable=True)
        return models.Share.model_validate(answer.json())

    # The site

    def me(self) -> models.Me:
        """Whose token it is, and what it allows."""
        return self._get("/me", models.Me)

    def environments(self) -> list[models.Environment]:
        return self._list("/environments", models.Environment)

    def environment(self, name: str) -> models.EnvironmentDetail:
        """Its rules, and the JSON Schema of its settings."""
        return self._get(f"/environments/{name}", models.EnvironmentDetail)

    def presets(self) -> list[models.Preset]:
        return self._list("/presets", models.Preset)

    def preset(self, name: str) -> models.PresetDetail:
        """With its configuration."""
        return self._get(f"/presets/{name}", models.PresetDetail)

    def workers(self) -> list[models.Worker]:
        return self._list("/workers", models.Worker)

    # Runs trained elsewhere

    def push_journal(
        self,
        path: str | Path,
        *,
        follow: bool = False,
        run: str | None = None,
        title: str = "",
        visibility: Visibility = "team",
        skip_bad_lines: bool = False,
        progress: Callable[[models.RunDetail, int, int], None] | None = None,
    ) -> models.RunDetail:
        """Send a run's journal (its folder, or the file), from where the site's knowledge of it ends.

        `follow` goes on while the journal grows, until its run has ended; an exception such as KeyboardInterrupt ends
        it in order. `progress` is told the run, the bytes known to the site and the size of the file.
        """
        return push(
            self,
            Path(path),
            follow=follow,
            run=run,
            title=title,
            visibility=visibility,
            skip_bad_lines=skip_bad_lines,
            progress=progress,
            sleep=self._sleep,
        )

    def import_journal(self, data: bytes, *, packed: bool, key: str, **query: Any) -> models.RunDetail:
        """A new run from the beginning of a journal; `packed` with gzip."""
        headers = {"Content-Type": _media(packed), "Idempotency-Key": key}
        answer = self.transport.send(
            "POST", "/runs/import", query=query, content=data, headers=headers, repeatable=True
        )
        return models.RunDetail.model_validate(answer.json())

    def append_journal(self, run: str, offset: int, data: bytes, *, packed: bool, **query: Any) -> models.Journal:
        """The next piece of a journal. Raises Conflict with details["offset"] when another is due."""
        answer = self.transport.send(
            "PUT",
            f"/runs/{run}/journal",
            query={"offset": offset, **query},
            content=data,
            headers={"Content-Type": _media(packed)},
            repeatable=True,
        )
        return models.Journal.model_validate(answer.json())

    def _get(self, path: str, kind: type[Item]) -> Item:
        return kind.model_validate(self.transport.send("GET", path).json())

    def _list(self, path: str, kind: type[Item]) -> list[Item]:
        return [kind.model_validate(item) for item in self.transport.send("GET", path).json()]

    def _pages(self, path: str, query: Mapping[str, Any], kind: type[Item]) -> Iterator[Item]:
        cursor: str | None = None
        while True:
            page = self.transport.send("GET", path, query={**query, "cursor": cursor}).json()
            yield from (kind.model_validate(item) for item in page["items"])
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _make(self, path: str, body: dict[str, Any], key: str | None) -> models.RunDetail:
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        answer = self.transport.send("POST", path, body=body, headers=headers, repeatable=True)
        return models.RunDetail.model_validate(answer.json())


def _asked(queue: str | None, gpus: int | None, priority: Priority) -> dict[str, Any]:
    """What differs from what a configuration suggests: an older site knows nothing else."""
    given = {"queue": queue, "gpus": gpus, "priority": None if priority == "normal" else priority}
    return {name: value for name, value in given.items() if value is not None}


def _media(packed: bool) -> str:
    return "application/gzip" if packed else "application/x-ndjson"
