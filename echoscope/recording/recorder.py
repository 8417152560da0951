"""Recorder of runs that other trainers train: writes their journal, and sends it to a site while it grows.

import echoscope

run = echoscope.init("Wordle with GRPO", config={"lr": 1e-6}, folder="runs/wordle")
with run.trajectory(environment="Wordle", prompt="Guess the word.", iteration=3) as attempt:
    attempt.turn(state="_____", response="CRANE", reward=0.2)
    attempt.finish(success=False)
run.log({"my/loss": 0.3}, iteration=3)
run.finish()

Everything is written to `journal.jsonl` in the run's folder (docs/journal.md), and images of observations to files
beside it, by any thread, and by any process that has attached to the folder. Without a site, send it later:
`python -m echoscope push runs/wordle`.
"""

from __future__ import annotations

import math
import platform
import uuid
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from echoscope.recording.journal_writer import JournalWriter, finite
from echoscope.recording.live_upload import LiveUpload
from echoscope.recording.task_seed import task_seed
from echoscope.recording.trajectory import Trajectory
from echoscope.transport import check_address

Split = Literal["train", "eval"]
MAX_MEMBERS = 4096
"""Trajectories of a group that a site stores."""


def init(
    title: str,
    *,
    config: Mapping[str, Any] | None = None,
    folder: str | Path | None = None,
    environment: str = "",
    iterations: int = 0,
    from_iteration: int | None = None,
    tags: Sequence[str] = (),
    url: str | None = None,
    token: str | None = None,
) -> Recorder:
    """Begin a run, or continue the one in `folder`.

    Args:
        title: shown as the run's name.
        config: any settings of the trainer, as JSON has them; kept as they are.
        folder: of the journal; omitted: a new one below `echoscope-runs`.
        environment: name of the task, for runs with a single one.
        iterations: planned iterations; 0: unknown.
        from_iteration: finished iterations of the checkpoint that the run continues from: what `folder` has of later
            ones is superseded. 0: all of it is. Omitted: the last iteration with metrics, with a warning if there is a
            run in the folder already.
        url, token: of a site, to which the journal is sent while it grows; omitted: nothing is sent.
    Raises:
        ValueError: settings that are not JSON, one of `url` and `token` without the other, a `url` without http:// or
            https://, or iterations below 0.
    """
    if from_iteration is not None and from_iteration < 0:
        raise ValueError(f"from_iteration is a number of finished iterations, from 0 on, not {from_iteration}")
    if (url is None) != (token is None):
        raise ValueError("give both url and token of a site, or neither to record without one")
    if url is not None:
        check_address(url)
    place = Path(folder) if folder is not None else Path("echoscope-runs") / uuid.uuid4().hex[:12]
    writer = JournalWriter(place)
    settings: dict[str, Any] = {"name": title, "tags": list(tags), "recorded": finite(dict(config or {}))}
    if environment:
        settings["environment"] = {"name": environment}
    start = writer.last_iteration if from_iteration is None else from_iteration
    if writer.attempts and from_iteration is None:
        warnings.warn(
            f"There is a run in {place} already: this is attempt {writer.attempts + 1} at it, after iteration {start}. "
            "Pass from_iteration= to continue after another iteration, or another folder= for a new run.",
            RuntimeWarning,
            stacklevel=2,
        )
    writer.write(
        "run_started",
        attempt=writer.attempts + 1,
        from_iteration=start,
        evaluated_iteration=start or None,  # evaluations up to there remain valid
        iterations=iterations,
        title=title,
        config=settings,
        device="",
        parameters=0,
        versions={"python": platform.python_version()},
    )
    recorder = Recorder(writer, environment)
    if url is not None and token is not None:
        recorder.upload = LiveUpload(place, url, token)
    return recorder


def attach(folder: str | Path, *, environment: str = "") -> Recorder:
    """The run in a folder, for another process of the same run. Raises FileNotFoundError if init() has not begun it."""
    place = Path(folder)
    if not (place / JournalWriter.FILE).exists():
        raise FileNotFoundError(f"There is no run in {place}: call echoscope.init(…, folder={str(place)!r}) first.")
    return Recorder(JournalWriter(place), environment)


class Recorder:
    """A run that is being recorded. All methods may be called by any thread."""

    def __init__(self, writer: JournalWriter, environment: str) -> None:
        self._writer, self._environment = writer, environment
        self._warned: set[str] = set()
        """Names of metrics for which a warning was emitted."""
        self.upload: LiveUpload | None = None

    @property
    def folder(self) -> Path:
        """Folder of the journal."""
        return self._writer.folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self.finish(reason="error", message=f"{type(error).__name__}: {error}")

    def log(self, values: Mapping[str, float], *, iteration: int | None = None, **extra: Any) -> None:
        """Record metrics of an iteration, from 1 (0: before training), under any names.

        Names of docs/metrics.md, such as reward/mean, are drawn with their titles and units. Of success/rate,
        reward/mean and reward/in_group_std, those that are never given are computed from the recorded attempts.

        What is no finite number is left out, with a RuntimeWarning for each name. NaN and infinity are gaps of the
        metric's curve, the first of which is recorded as a notice.

        Args:
            values: numbers, also those of numpy and torch.
            iteration: omitted: that of the newest group of the split train; without any, the one after the last
                iteration with metrics.
            extra: anything else, kept with the metrics.
        """
        numbers = {str(name): number_in(value) for name, value in values.items()}
        known = {name: number for name, number in numbers.items() if number is not None and math.isfinite(number)}
        gaps = {name: number for name, number in numbers.items() if number is not None and not math.isfinite(number)}
        self._writer.write_metrics(known, iteration, extra, gaps)
        for name, value in values.items():
            if str(name) not in known and str(name) not in self._warned:
                self._warned.add(str(name))
                warnings.warn(_left_out(str(name), value, numbers[str(name)]), RuntimeWarning, stacklevel=2)

    def notice(self, message: str, *, level: Literal["info", "warning", "error"] = "info", **extra: Any) -> None:
        """Record a message for people."""
        self._writer.write("notice", level=level, message=message, extra=extra)

    def group(
        self,
        size: int,
        *,
        prompt: str,
        iteration: int | None = None,
        environment: str = "",
        seed: int | None = None,
        split: Split = "train",
        suite: str = "",
        board: str = "",
        **extra: Any,
    ) -> list[Trajectory]:
        """Begin a group: `size` attempts at the same prompt. Each is a context manager, in any thread.

        Args:
            prompt: the task, as it is read before the first state.
            iteration: omitted: that of the newest group of the split train, as in log(), or the next one if that has
                metrics; without any group, the one after the last iteration with metrics. Of the split eval: the number
                of finished iterations, which is 0 without training.
            seed: of the initial state: groups with the same one are attempts at the same task. Omitted, those of the
                same environment, prompt and board are.
            suite: name of the evaluation, for the split eval.
            board: the initial state as text.
            extra: anything else, kept with the group.
        Raises:
            ValueError: a size that a site does not store.
        """
        if not 1 <= size <= MAX_MEMBERS:
            raise ValueError(f"a group has 1 to {MAX_MEMBERS:,} trajectories, not {size}")
        members = [uuid.uuid4().hex[:16] for _ in range(size)]
        named = environment or self._environment or "Task"
        self._writer.write(
            "group_started",
            iteration=iteration,
            split=split,
            suite=suite or None,
            environment=named,
            seed=task_seed(named, prompt, board) if seed is None else seed,
            prompt=prompt,
            board={"kind": "text", "text": board},
            members=members,
            extra=extra,
        )
        return [Trajectory(self._writer, member) for member in members]

    def trajectory(self, *, prompt: str, iteration: int | None = None, **group: Any) -> Trajectory:
        """Begin a group of one trajectory, for evaluations and loops without groups; for the arguments see `group`."""
        return self.group(1, prompt=prompt, iteration=iteration, **group)[0]

    def evaluation(
        self,
        suite: str,
        *,
        iteration: int,
        prompts: int,
        trajectories: int,
        successes: int,
        mean_reward: float | None = None,
        mean_turns: float | None = None,
        mean_actions: float | None = None,
        final: bool = False,
        **extra: Any,
    ) -> None:
        """Record the result of a suite of prompts; its interval is Wilson's, of 95 %.

        Args:
            iteration: finished iterations; 0: before training, or no training at all.
            trajectories: attempts at all prompts together.
            mean_reward, mean_turns, mean_actions: omitted: those of its recorded attempts, if there are any.
        Raises:
            ValueError: numbers that do not belong together.
        """
        if not 0 <= successes <= trajectories or not 1 <= prompts <= trajectories:
            raise ValueError(
                f"{successes} successes of {trajectories} trajectories from {prompts} prompts: there are at least as "
                "many trajectories as prompts, and at most as many successes"
            )
        low, high = _wilson(successes, trajectories)
        means = self._writer.evaluation_means(suite, iteration)
        self._writer.write(
            "evaluation",
            iteration=iteration,
            suite=suite,
            prompts=prompts,
            samples=max(1, round(trajectories / prompts)),
            success=successes / trajectories,
            success_low=low,
            success_high=high,
            mean_reward=means.reward if mean_reward is None else float(mean_reward),
            mean_turns=means.turns if mean_turns is None else float(mean_turns),
            mean_actions=means.actions if mean_actions is None else float(mean_actions),
            final=final,
            extra=extra,
        )

    def finish(
        self,
        *,
        reason: Literal["completed", "interrupted", "error"] = "completed",
        message: str = "",
        summary: Mapping[str, float] | None = None,
        timeout: float = 60.0,
    ) -> None:
        """End the run, and wait at most `timeout` seconds until a site has everything."""
        self._writer.write_totals()
        words = {"completed": "The run is complete.", "interrupted": "The run was interrupted.", "error": "It failed."}
        self._writer.write(
            "run_finished",
            reason=reason,
            iteration=self._writer.last_iteration,
            message=message or words[reason],
            summary={
                name: number
                for name, value in (summary or {}).items()
                if (number := number_in(value)) is not None and math.isfinite(number)
            },
        )
        if self.upload is not None:
            self.upload.finish(timeout)


def _wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's interval of a success rate, 95 %."""
    z, rate = 1.959964, successes / trials
    middle = rate + z * z / (2 * trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def number_in(value: Any) -> float | None:
    """The value as a number, which may be NaN or infinite; None: it is no number."""
    try:
        return float(value)
    except OverflowError:  # an integer
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError, RuntimeError):  # the last one for tensors of several elements
        return None


def _left_out(name: str, value: Any, number: float | None) -> str:
    """Warning about a value that log() does not record."""
    if number is not None:
        return (
            f"{name} is not a finite number ({number}) and is not recorded: its curve has a gap. Later values of it "
            "that are not finite are left out without a warning."
        )
    kind = "None" if value is None else "a text" if isinstance(value, str) else f"of type {type(value).__name__}"
    return (
        f"{name} is {kind} and is not recorded: log() takes numbers. Pass settings as config= of echoscope.init, and "
        "anything else as a further keyword of log() or turn(), which is kept as extra of the event."
    )
