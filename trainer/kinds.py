"""Which class makes a run of each kind. What they do stands with them."""

from __future__ import annotations

from trainer.config import RunConfig
from trainer.evaluation_runs import EvaluationRun
from trainer.hosted.run import HostedEvaluationRun
from trainer.sft import SftRun
from trainer.starpo import Run

_CLASSES: dict[str, type[Run]] = {"train": Run, "evaluate": EvaluationRun, "sft": SftRun}


def run_class(config: RunConfig) -> type[Run]:
    """The class for `config.kind`, and for a hosted model."""
    if config.hosted.url:
        return HostedEvaluationRun
    return _CLASSES[config.kind]
