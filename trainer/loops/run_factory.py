"""Which class makes a run of each kind. What they do stands with them."""

from __future__ import annotations

from trainer.config.run import RunConfig
from trainer.loops.evaluate import EvaluationRun
from trainer.loops.evaluate_hosted import HostedEvaluationRun
from trainer.loops.sft import SftRun
from trainer.loops.train import TrainRun

_CLASSES: dict[str, type[TrainRun]] = {"train": TrainRun, "evaluate": EvaluationRun, "sft": SftRun}


def run_class(config: RunConfig) -> type[TrainRun]:
    """The class for `config.kind`, and for a hosted model."""
    if config.hosted.url:
        return HostedEvaluationRun
    return _CLASSES[config.kind]
