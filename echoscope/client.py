"""API client: one method per operation of a site.

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
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from echoscope import models
from echoscope.evaluation_questions import EvaluationQuestions
from echoscope.journal import JournalUploads
from echoscope.launch_body import Priority, Visibility, requested, resource_fields
from echoscope.questions import Questions
from echoscope.studies import Studies
from echoscope.teamwork import AlertRules, TrajectoryAnnotations
from echoscope.transport import Transport, changes

WINDOW = 5000
"""Maximum number of iterations in one request for single points."""
Item = TypeVar("Item", bound=models.Answer)
Action = Literal["pause", "resume", "stop", "cancel", "undo-cancel"]
RunExport = Literal["parquet", "jsonl", "csv", "metrics.parquet", "metrics.csv", "journal"]
TrajectoryExport = Literal["json", "txt", "webp", "gif"]

__all__ = ["Action", "Client", "Priority", "RunExport", "TrajectoryExport", "Visibility"]


class Client(JournalUploads):
    """One site, used with one API token. All methods raise the exceptions of echoscope.errors.

    `url` begins with http:// or https://; anything else raises InvalidAddress immediately.
    """

    def __init__(
        self, url: str, token: str, *, timeout: float = 30.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.transport = Transport(url, token, timeout=timeout, sleep=sleep)
        self.studies = Studies(self.transport)
        self.annotations = TrajectoryAnnotations(self.transport)
        self.alerts = AlertRules(self.transport)
        self.questions = Questions(self.transport, sleep)
        self.evaluation_questions = EvaluationQuestions(self.transport, sleep)
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
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
        group: str | None = None,
        archived: bool | None = None,
    ) -> Iterator[models.Run]:
        """Yield the team's runs, newest first, fetched page by page during iteration.

        `archived` selects only archived runs, or only others; None: all.
        """
        filters = {"state": state, "environment": environment, "tag": tag, "author": author, "text": text}
        query = {**filters, "group": group, "archived": archived, "limit": 100}
        return self._pages("/runs", query, models.Run)

    def run(self, run: str) -> models.RunDetail:
        """Return a run with its configuration."""
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
        group: str = "",
        key: str | None = None,
    ) -> models.RunDetail:
        """Launch a run from a preset or a configuration, with dotted overrides.

        `queue` is a device class, `gpus` the number of GPUs on one worker; None uses the configuration's.

        `key` is an idempotency key: a request repeated within a day returns the same run. By default, a new key
        prevents a second launch after a broken connection.
        """
        body = requested(preset, config, overrides, visibility, group)
        return self._make("/runs", body | resource_fields(queue, gpus, priority), key)

    def launch_group(
        self,
        *,
        preset: str | None = None,
        config: Mapping[str, Any] | None = None,
        overrides: Mapping[str, Any] | None = None,
        arms: Sequence[str] = (),
        seeds: int = 3,
        group: str = "",
        visibility: Visibility = "team",
        queue: str | None = None,
        gpus: int | None = None,
        priority: Priority = "normal",
        key: str | None = None,
    ) -> models.Group:
        """Launch one run for each of the `arms`, as in ("starpo", "starpo_s"), and each of 1 to 5 seeds.

        All runs are launched or none. `group` is the name of the group; by default it is derived from the experiment.
        For the other arguments see `launch`.
        """
        body = requested(preset, config, overrides, visibility, group)
        body |= {"arms": list(arms), "seeds": seeds, **resource_fields(queue, gpus, priority)}
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        answer = self.transport.send("POST", "/groups", body=body, headers=headers, repeatable=True)
        return models.Group.model_validate(answer.json())

    def clone(
        self,
        run: str,
        overrides: Mapping[str, Any] | None = None,
        *,
        visibility: Visibility = "team",
        queue: str | None = None,
        gpus: int | None = None,
        priority: Priority = "normal",
        group: str = "",
        key: str | None = None,
    ) -> models.RunDetail:
        """Launch a run like an earlier one, with some settings changed. For the other arguments see `launch`."""
        body = requested(None, None, overrides, visibility, group) | resource_fields(queue, gpus, priority)
        return self._make(f"/runs/{run}/clone", body, key)

    def update(
        self,
        run: str,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        notes: str | None = None,
        archived: bool | None = None,
        visibility: Visibility | None = None,
        priority: Priority | None = None,
        group: str | None = None,
    ) -> models.RunDetail:
        """Change title, tags, notes (Markdown), visibility, priority or group, or archive an ended run.

        None leaves a field unchanged.
        """
        fields = {
            "title": title,
            "tags": None if tags is None else list(tags),
            "notes": notes,
            "archived": archived,
            "visibility": visibility,
            "priority": priority,
            "group": group,
        }
        body = {name: value for name, value in fields.items() if value is not None}
        answer = self.transport.send("PATCH", f"/runs/{run}", body=body, repeatable=True)
        return models.RunDetail.model_validate(answer.json())

    def control(self, run: str, action: Action) -> models.RunDetail:
        """Pause, resume, stop or cancel a run, or undo that. Raises Conflict if its state does not allow it."""
        answer = self.transport.send("POST", f"/runs/{run}/control", body={"action": action})
        return models.RunDetail.model_validate(answer.json())

    def change_settings(
        self, run: str, changes: Mapping[str, float], why: str = "", *, rewind_to: int | None = None
    ) -> models.SettingsChange:
        """Change settings of a training run from its next iteration on, as in {"optimizer.policy_lr": 5e-5}.

        With `rewind_to` the run goes back to the kept checkpoint of that iteration first; `changes` may then be empty.

        Raises Conflict if the run cannot change its settings or rewind, Invalid for a setting, value or checkpoint that
        is impossible.
        """
        body = {"changes": dict(changes), "why": why} | ({} if rewind_to is None else {"rewind_to": rewind_to})
        answer = self.transport.send("POST", f"/runs/{run}/changes", body=body)
        return models.SettingsChange.model_validate(answer.json())

    def settings_changes(self, run: str) -> list[models.SettingsChange]:
        """Return the changes of settings during training, the oldest first; `iteration` is None until the answer."""
        items = self.transport.send("GET", f"/runs/{run}/changes").json()["items"]
        return [models.SettingsChange.model_validate(item) for item in items]

    def delete(self, run: str) -> None:
        """Delete an ended run permanently."""
        self.transport.send("DELETE", f"/runs/{run}", query={"confirm": run})

    def config_yaml(self, run: str) -> str:
        """Return the configuration as YAML, for `python -m trainer train --config`."""
        return self.transport.send("GET", f"/runs/{run}/config.yaml").text

    def watch(self, run: str, *, every: float = 2.0) -> Iterator[models.RunDetail]:
        """Yield the run now and after each change, until it has ended or is paused."""
        return changes(partial(self.run, run), lambda now: now.ended or now.state == "paused", self._sleep, every)

    # Results of a run

    def metrics(self, run: str) -> list[models.Metric]:
        """Return metrics with their newest values."""
        return self._list(f"/runs/{run}/metrics", models.Metric)

    def points(
        self, run: str, names: Sequence[str], *, first: int = 0, last: int | None = None, buckets: int = 500
    ) -> dict[str, list[models.Point]]:
        """Return points of metrics by name. Longer ranges are reduced to minimum, maximum and last value per bucket."""
        query = {"name": list(names), "first": first, "last": last, "buckets": buckets}
        curves = self.transport.send("GET", f"/runs/{run}/metrics/points", query=query).json()
        return {curve["name"]: [models.Point.model_validate(point) for point in curve["points"]] for curve in curves}

    def history(self, run: str, name: str) -> Iterator[models.Point]:
        """Yield one point per iteration of a metric, for runs of any length."""
        newest = max((metric.last_iteration for metric in self.metrics(run) if metric.name == name), default=-1)
        for first in range(0, newest + 1, WINDOW):
            yield from self.points(run, [name], first=first, last=first + WINDOW - 1, buckets=WINDOW)[name]

    def alarms(self, run: str) -> list[models.Alarm]:
        """Return alarms of the Echo Trap detector, newest first."""
        return self._list(f"/runs/{run}/alarms", models.Alarm)

    def checkpoints(self, run: str) -> list[models.Checkpoint]:
        """Return stored checkpoints, oldest first."""
        return self._list(f"/runs/{run}/checkpoints", models.Checkpoint)

    def evaluations(self, run: str) -> list[models.Evaluation]:
        """Return evaluations by suite, oldest first."""
        return self._list(f"/runs/{run}/evaluations", models.Evaluation)

    def download_model(self, run: str, iteration: int, path: Path) -> Path:
        """Save the model of a checkpoint as a tar archive at `path`, which gets its name when it is complete."""
        return self.transport.download(f"/runs/{run}/checkpoints/{iteration}/model.tar", path)

    def generalization(self, run: str) -> models.Generalization:
        """Return the generalization matrix of a run. Raises NotFound for a run without one."""
        return self._get(f"/runs/{run}/generalization", models.Generalization)

    def compare(self, runs: Sequence[str]) -> models.Comparison:
        """Return results and differing settings of up to ten runs."""
        answer = self.transport.send("GET", "/compare", query={"run": list(runs)})
        return models.Comparison.model_validate(answer.json())

    def compare_puzzle(self, runs: Sequence[str], suite: str, number: int = 0) -> models.Puzzle:
        """Return the runs' attempts at one puzzle of a suite, counted from 0."""
        query = {"run": list(runs), "suite": suite, "number": number}
        return models.Puzzle.model_validate(self.transport.send("GET", "/compare/puzzle", query=query).json())

    def export(self, run: str, kind: RunExport, path: Path, **filters: Any) -> Path:
        """Save trajectories that match the filters (names as in /api/docs), metrics or the journal at `path`."""
        return self.transport.download(f"/runs/{run}/export/{kind}", path, filters)

    def export_blocks(self, run: str, kind: RunExport, **filters: Any) -> Iterator[bytes]:
        """Yield the same as export(), as it arrives."""
        return self.transport.stream(f"/runs/{run}/export/{kind}", filters)

    def log(self, run: str) -> str:
        """Return the end of the trainer's log."""
        return str(self.transport.send("GET", f"/runs/{run}/log").json()["text"])

    # Trajectories and their share links

    def trajectories(self, run: str, **filters: Any) -> Iterator[models.Trajectory]:
        """Yield trajectories that match the filters (names as in /api/docs), fetched page by page during iteration."""
        return self._pages(f"/runs/{run}/trajectories", {"limit": 100, **filters}, models.Trajectory)

    def trajectory(self, trajectory: str) -> models.TrajectoryDetail:
        """Return a trajectory with its turns."""
        return self._get(f"/trajectories/{trajectory}", models.TrajectoryDetail)

    def tokens(self, trajectory: str) -> models.TrajectoryTokens:
        """Return everything that the policy read and wrote, token by token; `message` says why it is missing."""
        return self._get(f"/trajectories/{trajectory}/tokens", models.TrajectoryTokens)

    def compute_tokens(self, trajectory: str) -> models.TokenState:
        """Request that a worker computes tokens that were not recorded, from the nearest kept checkpoint.

        Raises Conflict if they cannot be computed.
        """
        answer = self.transport.send("POST", f"/trajectories/{trajectory}/tokens")
        return models.TokenState.model_validate(answer.json())

    def export_trajectory(self, trajectory: str, kind: TrajectoryExport, path: Path) -> Path:
        """Save a trajectory as a document, a transcript or an animation at `path`."""
        return self.transport.download(f"/trajectories/{trajectory}/export/{kind}", path)

    def shares(self, trajectory: str) -> list[models.Share]:
        """Return share links of a trajectory, newest first."""
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
        """Create a link that shows the trajectory to anyone who has it, or return your open link of the same kind."""
        body = {
            "expires_at": expires_at.isoformat() if expires_at else None,
            "turn": turn,
            "action": action,
            "indexable": indexable,
        }
        answer = self.transport.send("POST", f"/trajectories/{trajectory}/shares", body=body, repeatable=True)
        return models.Share.model_validate(answer.json())

    def revoke(self, token: str) -> models.Share:
        """Revoke a share link immediately."""
        answer = self.transport.send("DELETE", f"/shares/{token}", repeatable=True)
        return models.Share.model_validate(answer.json())

    # Reports

    def reports(self, **filters: Any) -> Iterator[models.Report]:
        """Yield reports that match the filters (names as in /api/docs), newest first, fetched page by page."""
        return self._pages("/reports", {"limit": 100, **filters}, models.Report)

    def report(self, report: str) -> models.ReportDetail:
        """Return a report with its text."""
        return self._get(f"/reports/{report}", models.ReportDetail)

    def write_report(
        self, title: str, body: str = "", *, team: str | None = None, visibility: str = "team"
    ) -> models.ReportDetail:
        """Create a report; `body` is Markdown, in which an address of the site on a separate line is an embed."""
        sent = {"title": title, "body": body, "team": team, "visibility": visibility}
        answer = self.transport.send("POST", "/reports", body=sent)
        return models.ReportDetail.model_validate(answer.json())

    def update_report(self, report: str, **changes: Any) -> models.ReportDetail:
        """Change title, body or visibility. A title or body needs `version`, the version that was read."""
        answer = self.transport.send("PATCH", f"/reports/{report}", body=changes)
        return models.ReportDetail.model_validate(answer.json())

    # The site

    def me(self) -> models.Me:
        """Return owner and permissions of the token."""
        return self._get("/me", models.Me)

    def audit(self, team: str, **filters: Any) -> Iterator[models.AuditEntry]:
        """Yield entries of a team's audit log, newest first, for its admins; filters: person, action, since, until."""
        return self._pages(f"/teams/{team}/audit", {"limit": 100, **filters}, models.AuditEntry)

    def environments(self) -> list[models.Environment]:
        return self._list("/environments", models.Environment)

    def environment(self, name: str, *, id: str = "") -> models.EnvironmentDetail:
        """Return an environment with its rules and its settings' JSON Schema; `id` selects an adapter's variant."""
        return self._get(f"/environments/{name}", models.EnvironmentDetail, {"id": id or None})

    def presets(self) -> list[models.Preset]:
        return self._list("/presets", models.Preset)

    def preset(self, name: str) -> models.PresetDetail:
        """Return a preset with its configuration."""
        return self._get(f"/presets/{name}", models.PresetDetail)

    def language_models(self, *, preset: str = "") -> list[models.LanguageModel]:
        """Return models that runs can name, where they are installed, and with a preset if they fit each worker."""
        items = self.transport.send("GET", "/models", query={"preset": preset or None}).json()
        return [models.LanguageModel.model_validate(item) for item in items]

    def install_model(self, name: str, *, worker: str = "") -> models.LanguageModel:
        """Queue the download of a model of the catalogue; `language_models()` shows its progress."""
        answer = self.transport.send(
            "POST", f"/models/{name}/download", query={"worker": worker or None}, repeatable=True
        )
        return models.LanguageModel.model_validate(answer.json())

    def remove_model(self, name: str, *, worker: str = "") -> None:
        """Delete an installed model from a worker's folder, or cancel its download."""
        self.transport.send("DELETE", f"/models/{name}", query={"worker": worker or None})

    def workers(self) -> list[models.Worker]:
        return self._list("/workers", models.Worker)

    def _get(self, path: str, kind: type[Item], query: Mapping[str, Any] | None = None) -> Item:
        return kind.model_validate(self.transport.send("GET", path, query=query).json())

    def _list(self, path: str, kind: type[Item]) -> list[Item]:
        return [kind.model_validate(item) for item in self.transport.send("GET", path).json()]

    def _pages(self, path: str, query: Mapping[str, Any], kind: type[Item]) -> Iterator[Item]:
        yield from (kind.model_validate(item) for item in self.transport.items(path, query))

    def _make(self, path: str, body: dict[str, Any], key: str | None) -> models.RunDetail:
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        answer = self.transport.send("POST", path, body=body, headers=headers, repeatable=True)
        return models.RunDetail.model_validate(answer.json())
