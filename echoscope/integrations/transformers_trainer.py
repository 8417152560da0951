"""Callback of transformers' `Trainer` and of the trainers that inherit from it, such as TRL's.

from echoscope.integrations.transformers_trainer import EchoscopeCallback

trainer = Trainer(…, callbacks=[EchoscopeCallback("My run", folder="runs/mine")])
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import echoscope.recording.recorder as recorder
from echoscope.integrations.metric_names import STANDARD_NAMES, with_standard_names
from echoscope.recording.harmless import OnceWarnings, harmless
from echoscope.recording.recorder import Recorder
from echoscope.transport import check_address

NOT_METRICS = {"epoch", "step", "total_flos"}


class EchoscopeCallback(TrainerCallback):
    """Records the settings, logs and end of a training, in the main process of a distributed training.

    No failure in it reaches the trainer: it becomes a RuntimeWarning.

    Attributes:
        standard_names: names of the trainer's metrics that are recorded a second time.
        run: the recorder, from the beginning of the training; the given one if `run` was given.
    """

    standard_names: ClassVar[Mapping[str, str]] = STANDARD_NAMES

    def __init__(
        self,
        title: str = "",
        *,
        run: Recorder | None = None,
        folder: str | Path | None = None,
        environment: str = "",
        url: str | None = None,
        token: str | None = None,
    ) -> None:
        """
        Args:
            title: title of the run; empty: the trainer's `run_name`.
            run: a run that was begun with echoscope.init; the callback then neither begins nor ends a run.
            folder, environment, url, token: as in echoscope.init.
        Raises:
            ValueError: a `url` without http:// or https://.
        """
        if url is not None:
            check_address(url)
        self.warnings = OnceWarnings()
        self.run = run
        self._own = run is None
        self._begin: dict[str, Any] = {"folder": folder, "environment": environment, "url": url, "token": token}
        self._title = title
        self._model: Any = None

    @property
    def evaluating(self) -> bool:
        """True while the trainer is evaluating: it switches the model before and after."""
        return self._model is not None and not self._model.training

    @harmless
    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin the run with the trainer's settings."""
        self._model = kwargs.get("model")
        if not state.is_world_process_zero or not self._own:
            return
        config: dict[str, Any] = getattr(getattr(self._model, "config", None), "to_diff_dict", dict)()
        self.run = recorder.init(
            self._title or getattr(args, "run_name", None) or "Training",
            config={"trainer": args.to_sanitized_dict(), "model": config},
            iterations=state.max_steps if state.max_steps > 0 else 0,
            from_iteration=state.global_step,  # iteration of the checkpoint that it resumes from
            **self._begin,
        )

    @harmless
    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record the logged numbers at the trainer's global step: under their names, and standard names if known."""
        if self.run is None or not state.is_world_process_zero or not logs:
            return
        values = {name: value for name, value in logs.items() if name not in NOT_METRICS}
        self.run.log(with_standard_names(values, self.standard_names), iteration=state.global_step)

    @harmless
    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """End the run, complete or stopped before its last step."""
        if self.run is None or not state.is_world_process_zero or not self._own:
            return
        stopped = 0 < state.global_step < state.max_steps
        self.run.finish(
            reason="interrupted" if stopped else "completed",
            message=f"Stopped at step {state.global_step:,} of {state.max_steps:,}." if stopped else "",
        )
