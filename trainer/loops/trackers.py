"""Experiment trackers: TensorBoard, Weights & Biases, MLflow, trackio and OpenTelemetry, each through its own library.

They receive the events of the journal, which remains authoritative. A tracker's failure is reported once and never
stops a run. The libraries are optional (`pip install '.[trackers]'`) and imported only when enabled.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainer.config.dotted import leaves
from trainer.config.run import TrackerName
from trainer.journal.events import (
    Event,
    GroupStarted,
    Metrics,
    Notice,
    RunFinished,
    RunStarted,
    TrajectoryFinished,
    Turn,
)
from trainer.journal.writer import Journal
from trainer.loops.tracking.dialogues import SampledDialogues
from trainer.loops.tracking.traces import OpenTelemetry
from trainer.loops.tracking.tracker import PROJECT, TrackedRun, Tracker

RECORD = "trackers.json"
"""File in the run's folder with the run's id in each tracker, which a resumed run uses again."""
_MAX_FAILURES = 3  # consecutive failures after which a tracker is no longer used
_PARAMETER_BATCH = 100  # MLflow's maximum per request
_MAX_PARAMETER_LENGTH = 6000


class MissingTrackerError(ValueError):
    """The library of an enabled tracker is not installed. The message says what to install."""


class TensorBoard(Tracker):
    """Event files in the run's folder, `tensorboard/`; show them with `tensorboard --logdir`."""

    def __init__(self, place: TrackedRun) -> None:
        self.id = "tensorboard"
        purge = place.from_iteration + 1 if place.resumed else None
        module = import_module("torch.utils.tensorboard")
        self.writer = module.SummaryWriter(str(place.folder / "tensorboard"), purge_step=purge)
        if not place.resumed:
            self.writer.add_text("config", f"```json\n{json.dumps(place.config, indent=2)}\n```", 0)
            self.writer.flush()

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, iteration)
        self.writer.flush()

    def finish(self, end: RunFinished | None) -> None:
        if end is not None:
            for name, value in end.summary.items():
                self.writer.add_scalar(f"summary/{name}", value, end.iteration)
            self.writer.add_text("end", f"{end.reason}: {end.message}", end.iteration)
        self.writer.close()


class WandB(Tracker):
    """Weights & Biases. Its variables choose the destination: WANDB_MODE=offline, WANDB_API_KEY, WANDB_PROJECT, …"""

    def __init__(self, place: TrackedRun) -> None:
        library = import_module("wandb")
        self.run = library.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=place.title,
            id=place.id,
            dir=str(place.folder),
            resume="allow",
            config=dict(place.config),
            settings=library.Settings(console="off", disable_git=True, save_code=False, silent=True),
        )
        self.id = self.run.id
        self.run.define_metric("iteration")
        self.run.define_metric("*", step_metric="iteration")  # its own steps could not go back after a resume
        self.trees = import_module("wandb.sdk.data_types.trace_tree")
        self.dialogues = SampledDialogues()

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        self.run.log({"iteration": iteration, **values})

    def dialogue(self, event: GroupStarted | Turn | TrajectoryFinished) -> None:
        """Log some trajectories of each iteration as trace trees: an agent's span with a child span for each turn."""
        if (finished := self.dialogues.add(event)) is None:
            return
        dialogue, end = finished
        about = {**dialogue.about(end), "success": end.success, "total_reward": end.total_reward}
        kinds = self.trees.SpanKind
        root = self._span(dialogue.group.environment, kinds.AGENT, dialogue.group.time, end.time, about)
        began = dialogue.group.time
        for turn in dialogue.turns:
            span = self._span(f"turn {turn.turn + 1}", kinds.LLM, began, turn.time, {"reward": turn.reward})
            span.add_named_result({"state": dialogue.first_message(turn)}, {"response": turn.response})
            root.add_child_span(span)
            began = turn.time
        if dialogue.turns:
            root.add_named_result({"task": dialogue.group.prompt}, {"response": dialogue.turns[-1].response})
        tree = self.trees.WBTraceTree(root)
        self.run.log({"iteration": dialogue.group.iteration, f"trajectories/{dialogue.group.split}": tree})

    def _span(self, name: str, kind: Any, began: float, ended: float, attributes: dict[str, Any]) -> Any:
        return self.trees.Span(
            name=name,
            span_kind=kind,
            start_time_ms=int(began * 1000),
            end_time_ms=int(max(began, ended) * 1000),
            attributes=attributes,
        )

    def finish(self, end: RunFinished | None) -> None:
        if end is not None:
            self.run.summary.update({**end.summary, "reason": end.reason, "message": end.message})
        self.run.finish(exit_code=1 if end is not None and end.reason == "error" else 0)


class MLflow(Tracker):
    """MLflow's tracking server at MLFLOW_TRACKING_URI; without one, files in the run's folder, `mlruns/`.

    The light client (`mlflow-skinny`) cannot write a database, and files only if MLFLOW_ALLOW_FILE_STORE says so; with
    the whole of MLflow the variable may name `sqlite:///…` as well. Names must not contain @: pass@2 becomes pass_at_2.
    """

    def __init__(self, place: TrackedRun) -> None:
        address = os.environ.get("MLFLOW_TRACKING_URI")
        if not address:
            address = (place.folder / "mlruns").absolute().as_uri()
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        self.entities = import_module("mlflow.entities")
        self.client = import_module("mlflow.tracking").MlflowClient(tracking_uri=address)
        if place.resumed:
            self.id = place.id
            self.client.update_run(self.id, status="RUNNING")
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        existing = self.client.get_experiment_by_name(name)
        experiment = existing.experiment_id if existing else self.client.create_experiment(name)
        self.id = self.client.create_run(experiment, run_name=place.title).info.run_id
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in leaves(place.config)}
        parameters = [self.entities.Param(key, text[:_MAX_PARAMETER_LENGTH]) for key, text in texts.items()]
        for start in range(0, len(parameters), _PARAMETER_BATCH):
            self.client.log_batch(self.id, params=parameters[start : start + _PARAMETER_BATCH])

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        entries = [
            self.entities.Metric(name.replace("@", "_at_"), value, now, iteration) for name, value in values.items()
        ]
        self.client.log_batch(self.id, metrics=entries)

    def finish(self, end: RunFinished | None) -> None:
        if end is None:
            return
        self.metrics(end.iteration, {f"summary/{name}": value for name, value in end.summary.items()})
        self.client.set_tag(self.id, "message", end.message)
        status = {"error": "FAILED", "interrupted": "KILLED"}.get(end.reason, "FINISHED")
        self.client.set_terminated(self.id, status=status)


class Trackio(Tracker):
    """trackio: a local database (TRACKIO_DIR); show it with `trackio show --project echoscope`."""

    def __init__(self, place: TrackedRun) -> None:
        self.library = import_module("trackio")
        self.id = place.id
        self.run = self.library.init(
            project=os.environ.get("TRACKIO_PROJECT", PROJECT),
            name=f"{place.title} [{place.id}]",  # trackio distinguishes runs only by name
            config=dict(place.config),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        self.dialogues = SampledDialogues()

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=iteration)

    def dialogue(self, event: GroupStarted | Turn | TrajectoryFinished) -> None:
        """Log some trajectories of each iteration as traces: the messages of a chat."""
        if (finished := self.dialogues.add(event)) is None:
            return
        dialogue, end = finished
        metadata = {
            **dialogue.about(end),
            "environment": dialogue.group.environment,
            "success": end.success,
            "total_reward": end.total_reward,
            "status": "error" if end.error else "ok",
            "duration_ms": round(1000 * max(0.0, end.time - dialogue.group.time)),
        }
        trace = self.library.Trace(dialogue.messages, metadata=metadata)
        self.run.log({f"trajectories/{dialogue.group.split}": trace}, step=dialogue.group.iteration)

    def finish(self, end: RunFinished | None) -> None:
        if end is not None and end.summary:
            self.run.log({f"summary/{name}": value for name, value in end.summary.items()}, step=end.iteration)
        self.run.finish()


TRACKERS: dict[TrackerName, tuple[Callable[[TrackedRun], Tracker], str, str]] = {
    "tensorboard": (TensorBoard, "tensorboard", "tensorboard"),
    "wandb": (WandB, "wandb", "wandb"),
    "mlflow": (MLflow, "mlflow", "mlflow-skinny"),
    "trackio": (Trackio, "trackio", "trackio"),
    "opentelemetry": (
        OpenTelemetry,
        "opentelemetry.exporter.otlp.proto.http",
        "opentelemetry-exporter-otlp-proto-http",
    ),
}
"""Tracker, required module, and the package that provides it, by name."""


def attach(journal: Journal, names: Sequence[TrackerName], folder: Path) -> None:
    """Send the events of a journal to the named trackers from now on.

    Raises:
        MissingTrackerError: a library is not installed.
    """
    for name in names:
        _, module, package = TRACKERS[name]
        if not _is_installed(module):
            raise MissingTrackerError(
                f"trackers: {name} was requested, but its library is not installed. Install it (pip install {package}, "
                f"or all of them: pip install '.[trackers]') or remove {name} from trackers"
            )
    if names:
        journal.listeners.append(Trackers(names, folder, journal))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


class Trackers:
    """Journal listener that sends settings, metrics, dialogues and the summary of a run to its trackers."""

    def __init__(self, names: Sequence[TrackerName], folder: Path, journal: Journal) -> None:
        self.names, self.folder, self.journal = list(dict.fromkeys(names)), folder, journal
        self.open: dict[TrackerName, Tracker] = {}
        self.failures: dict[TrackerName, int] = {}
        self._reported: set[TrackerName] = set()

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._close(None)
                for name in self.names:
                    self._try(name, partial(self._open, name, event))
            case Metrics() if event.values:
                for name, tracker in list(self.open.items()):
                    self._try(name, partial(tracker.metrics, event.iteration, event.values))
            case GroupStarted() | Turn() | TrajectoryFinished():
                for name, tracker in list(self.open.items()):
                    if type(tracker).dialogue is not Tracker.dialogue:
                        self._try(name, partial(tracker.dialogue, event))
            case RunFinished():
                self._close(event)

    def _open(self, name: TrackerName, start: RunStarted) -> None:
        ids = _recorded_ids(self.folder)
        run = TrackedRun(
            folder=self.folder,
            title=start.title,
            config=start.config,
            id=ids.get(name) or uuid.uuid4().hex[:8],
            resumed=name in ids,
            from_iteration=start.from_iteration,
        )
        self.open[name] = TRACKERS[name][0](run)
        if ids.get(name) != self.open[name].id:
            (self.folder / RECORD).write_text(json.dumps(ids | {name: self.open[name].id}, indent=2) + "\n")

    def _close(self, end: RunFinished | None) -> None:
        while self.open:
            name, tracker = self.open.popitem()
            self._try(name, partial(tracker.finish, end))

    def _try(self, name: TrackerName, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 a third-party library, perhaps over a network; its error is reported
            self.failures[name] = self.failures.get(name, 0) + 1
            if self.failures[name] >= _MAX_FAILURES:
                self.open.pop(name, None)
            if name not in self._reported:
                self._reported.add(name)
                reason = str(error).strip().partition("\n")[0] or type(error).__name__
                message = (
                    f"{name} rejected an event: {reason}. The run continues, and its journal is complete. "
                    f"After {_MAX_FAILURES} consecutive failures nothing more is sent to it."
                )
                self.journal.write(Notice(level="warning", message=message))
        else:
            self.failures[name] = 0


def _recorded_ids(folder: Path) -> dict[str, str]:
    ids: dict[str, str] = json.loads((folder / RECORD).read_text()) if (folder / RECORD).exists() else {}
    return ids
