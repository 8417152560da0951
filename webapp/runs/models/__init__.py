"""Tables of runs: the runs themselves, workers, progress of runs, and results."""

from webapp.runs.models.model_store_models import StoredModel
from webapp.runs.models.progress_models import (
    Alarm,
    EchoTrapState,
    EventBatch,
    LogLine,
    MetricPoint,
    Notice,
    Rewind,
    SettingsChange,
    TimelinePart,
)
from webapp.runs.models.request_models import WorkerRequest
from webapp.runs.models.result_models import Checkpoint, Evaluation, GeneralizationMatrix
from webapp.runs.models.training_run_models import Run, RunQuerySet, readable_by
from webapp.runs.models.worker_models import DeviceUse, Worker

__all__ = [
    "Alarm",
    "Checkpoint",
    "DeviceUse",
    "EchoTrapState",
    "Evaluation",
    "EventBatch",
    "GeneralizationMatrix",
    "LogLine",
    "MetricPoint",
    "Notice",
    "Rewind",
    "Run",
    "RunQuerySet",
    "SettingsChange",
    "StoredModel",
    "TimelinePart",
    "Worker",
    "WorkerRequest",
    "readable_by",
]
