"""Recorder of runs that other trainers train: writes their journal, and sends it to a site while it grows.

import echoscope

run = echoscope.init("Wordle with GRPO", config={"lr": 1e-6}, folder="runs/wordle")
with run.trajectory(environment="Wordle", prompt="Guess the word.", iteration=3) as attempt:
    attempt.turn(state="_____", response="CRANE", reward=0.2)
    attempt.finish(success=False)
run.log({"my/loss": 0.3}, iteration=3)
run.finish()

Everything is written to `journal.jsonl` in the run's folder (docs/journal.md), and images of observations to files
in that folder, by any thread, and by any process that has attached to the folder. Without a site, send it later:
`python -m echoscope push runs/wordle`.
"""

from __future__ import annotations

import itertools
import math
import platform
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from echoscope.recording.call_values import MAX_COUNT, MAX_ITERATION, CallValues
from echoscope.recording.harmless import OnceWarnings, harmless, harmless_or
from echoscope.recording.journal_writer import JournalWriter
from echoscope.recording.json_values import as_json, as_text, items_in, number_in
from echoscope.recording.live_upload import LiveUpload
from echoscope.recording.phase_spans import PhaseSpans
from echoscope.recording.provenance import provenance
from echoscope.recording.recorded_actions import board_record
from echoscope.recording.settings_size import MAX_SETTINGS, shortened
from echoscope.recording.splits import Split
from echoscope.recording.system_watch import SystemWatch
from echoscope.recording.task_seed import task_seed
from echoscope.recording.trajectory import Trajectory
from echoscope.transport import check_address

MAX_MEMBERS = 4096
"""Maximum number of trajectories in a group that a site stores."""
MAX_GROUP = 10**6
MAX_METRICS = 1000
"""Maximum number of metrics in an event that a site stores."""
UNUSED_REASONS = (
    "filtered",
    "equal_rewards",
    "resampled",
    "zero_advantage",
    "clipped",
    "environment_error",
    "timeout",
    "empty",
    "critic_warmup",
    "stale",
    "too_long",
    "other",
)
"""Reasons for which an update learnt nothing from an attempt (docs/explorer.md)."""
MAX_TITLE, MAX_TAGS = 200, 20
"""Maximum length of a title, and number of tags of a run, that a site stores."""


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
    machine: bool = True,
) -> Recorder:
    """Begin a run, or continue the one in `folder`.

    Args:
        title: name of the run.
        config: any settings of the trainer, as JSON; stored unchanged.
        folder: folder of the journal; omitted: a new folder in `echoscope-runs`.
        environment: name of the task, for runs with a single task.
        iterations: planned iterations; 0 if unknown.
        from_iteration: finished iterations of the checkpoint that the run continues from; later iterations in `folder`
            are superseded, all of them with 0. Omitted: the last iteration with metrics, with a warning if there is a
            run in the folder already.
        url, token: site to which the journal is sent while it grows; omitted: nothing is sent.
        machine: record how the run was started (command line without values of secrets, commit, versions of libraries)
            and, with the metrics of each iteration, use of processor, memory and GPUs.

    Nothing else in the recorder raises: a folder that cannot be written is a RuntimeWarning as well.

    Raises:
        ValueError: one of `url` and `token` without the other, a `url` without http:// or https://, or from_iteration
            below 0.
    """
    start = number_in(from_iteration)
    if start is not None and start < 0:
        raise ValueError(f"from_iteration is a number of finished iterations, from 0 on, not {from_iteration}")
    if (url is None) != (token is None):
        raise ValueError("give both url and token of a site, or neither to record without one")
    if url is not None:
        check_address(url)
    run_folder = _path(folder) if folder is not None else Path("echoscope-runs") / uuid.uuid4().hex[:12]
    recorder = Recorder(JournalWriter(run_folder), environment)
    measured = machine is not False
    recorder.begin(title, config, iterations, from_iteration, tags, recorder.started_with() if measured else {})
    if measured:
        recorder.watch_system()
    if url is not None and token is not None:
        recorder._send(url, token)
    return recorder


def attach(folder: str | Path, *, environment: str = "") -> Recorder:
    """Open the run in a folder for another process. If init() has not begun it, nothing is recorded."""
    return Recorder(JournalWriter(_path(folder), begun=True), environment)


def _path(folder: Any) -> Path:
    return folder if issubclass(type(folder), Path) else Path(as_text(folder))


def _unrecorded_trajectory(recorder: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Trajectory:
    unannounced: Trajectory = recorder._unannounced()
    return unannounced


def _unrecorded(recorder: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Trajectory]:
    """Return trajectories for the caller's loop, in place of a group that cannot be recorded."""
    size = number_in(args[0] if args else kwargs.get("size", 1))
    count = int(size) if size is not None and 0 <= size <= MAX_GROUP else 0
    return [recorder._unannounced() for _ in range(count)]


class Recorder:
    """A run that is being recorded. All methods may be called by any thread.

    No method raises: what cannot be recorded is a RuntimeWarning that says what to do, once.
    """

    def __init__(self, writer: JournalWriter, environment: str) -> None:
        self._writer = writer
        self._environment = CallValues(writer.warnings, "init").short("environment", environment)
        self.upload: LiveUpload | None = None
        self._system: SystemWatch | None = None
        self._phases = PhaseSpans()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, such as one in another process: it records, and only the original uploads."""
        return self.__dict__ | {"upload": None, "_system": None, "_phases": PhaseSpans()}

    @property
    def warnings(self) -> OnceWarnings:
        """Warnings of the run."""
        return self._writer.warnings

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
            self.finish(reason="error", message=f"{type(error).__name__}: {as_text(error)}")

    def begin(
        self,
        title: Any,
        config: Any = None,
        iterations: Any = 0,
        from_iteration: Any = None,
        tags: Any = (),
        started_with: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the start of the run, or of another attempt at it; without it, nothing can be recorded."""
        try:
            self._begin(title, config, iterations, from_iteration, tags, started_with or {})
        except Exception as error:  # noqa: BLE001 - a journal without its first event cannot be read
            self._writer.give_up(error)

    def _begin(
        self,
        title: Any,
        config: Any,
        iterations: Any,
        from_iteration: Any,
        tags: Any,
        started_with: Mapping[str, Any],
    ) -> None:
        values, writer = CallValues(self.warnings, "init"), self._writer
        given = values.whole("from_iteration", from_iteration, 0, MAX_ITERATION)
        start = writer.last_iteration if given is None else given
        if writer.attempts and given is None:
            self.warnings.once(
                "attempt",
                f"There is a run in {self.folder} already: this is attempt {writer.attempts + 1} at it, after "
                f"iteration {start}. Pass from_iteration= to continue after another iteration, or another folder= for "
                "a new run.",
            )
        given_settings = {} if config is None else as_json(config)
        if not isinstance(given_settings, dict):
            given_settings = {"value": given_settings}
        settings: dict[str, Any] = {
            "name": values.short("title", title, MAX_TITLE),
            "tags": [values.short("a tag", tag) for tag in items_in(tags)[:MAX_TAGS]],
            "recorded": self._fitting(given_settings, values),
        }
        if self._environment:
            settings["environment"] = {"name": self._environment}
        if started_with:
            settings["started_with"] = dict(started_with)
        writer.write(
            "run_started",
            attempt=writer.attempts + 1,
            from_iteration=start,
            evaluated_iteration=start or None,  # evaluations up to this iteration remain valid
            iterations=values.whole("iterations", iterations, 0, MAX_COUNT) or 0,
            title=settings["name"],
            config=settings,
            device="",
            parameters=0,
            versions={"python": platform.python_version()},
        )

    @harmless_or(lambda recorder, args, kwargs: {})
    def started_with(self) -> dict[str, Any]:
        """Return how the run was started; empty if that cannot be found out."""
        return provenance()

    @harmless
    def watch_system(self) -> None:
        """Record use of processor, memory and GPUs with the metrics of each iteration from now on."""
        if self._system is None:
            self._system = SystemWatch()

    @contextmanager
    def phase(self, kind: str) -> Iterator[None]:
        """Record what the block is spent on, for the page about where the time went.

        with run.phase("rollout"):
            ...

        The phases of an iteration are written by its first log(). Exceptions of the block pass through.

        Args:
            kind: rollout, update, evaluate, checkpoint, or any other word.
        """
        began = self._phases.begin()
        try:
            yield
        finally:
            self.end_phase(kind, began)

    @harmless
    def end_phase(self, kind: str, began: float) -> None:
        """Record a phase that ends now and began at this time of `time.monotonic`, where `phase` has no block."""
        self._phases.end(CallValues(self.warnings, "phase").short("kind", kind), began)

    def _fitting(self, settings: dict[str, Any], values: CallValues) -> dict[str, Any]:
        """Return the settings, cut with a warning where sites would not store them."""
        if (short := shortened(settings)) != settings:
            values.warn(
                "config",
                f"The settings have more than the {MAX_SETTINGS:,} characters that sites store: their longest values "
                "are cut.",
            )
        return short

    @harmless
    def _send(self, url: str, token: str) -> None:
        self.upload = LiveUpload(self.folder, url, token, self.warnings)

    def _unannounced(self) -> Trajectory:
        return Trajectory(self._writer, "", announced=False)

    @harmless
    def log(self, values: Mapping[str, Any] | None, *, iteration: int | None = None, **extra: Any) -> None:
        """Record metrics of an iteration, from 1 (0: before training), under any names.

        Names in docs/metrics.md, such as reward/mean, are drawn with their titles and units. If success/rate,
        reward/mean or reward/in_group_std is never given, it is computed from the recorded attempts.

        Other values than finite numbers are left out, with a RuntimeWarning for each name. NaN and infinity are gaps of
        the metric's curve, the first of which is recorded as a notice.

        Args:
            values: numbers, including numpy's and torch's. Numbers in nested mappings are named by their path, as in
                train/loss.
            iteration: omitted: the iteration of the newest training group, or without any the one after the last
                iteration with metrics.
            extra: anything else, stored with the metrics.
        """
        given = CallValues(self.warnings, "log")
        if not isinstance(values, Mapping):
            given.numbers("values", values)
            values = {}
        named = {given.short("the name of a metric", name): value for name, value in _flat(values)}
        numbers = {name: number_in(value) for name, value in named.items()}
        known = {name: number for name, number in numbers.items() if number is not None and math.isfinite(number)}
        gaps = {name: number for name, number in numbers.items() if number is not None and not math.isfinite(number)}
        number = given.whole("iteration", iteration, 0, MAX_ITERATION)
        if self._system is not None:
            known = {**self._system.collect(), **known}
        for at in range(0, max(1, len(known)), MAX_METRICS):
            part = dict(itertools.islice(known.items(), at, at + MAX_METRICS))
            self._writer.write_metrics(part, number, {} if at else as_json(extra), {} if at else gaps)
        if (lap := self._phases.take()) is not None:
            done = self._writer.last_iteration if number is None else number
            self._writer.write("timeline", iteration=done, part="iteration", **lap)
        for name, value in named.items():
            if name not in known:
                self.warnings.once(f"metric {name}", _left_out(name, value, numbers[name]))

    @harmless
    def used(
        self,
        trained: Sequence[Trajectory],
        *,
        iteration: int | None = None,
        **unused: Sequence[Trajectory],
    ) -> None:
        """Record which attempts of an iteration its update learnt from, and why not from the others.

        run.used(kept, filtered=dropped, stale=old)

        Args:
            trained: attempts that the update learnt from.
            iteration: omitted: the iteration of the newest training group.
            unused: all other attempts of the iteration, by one of UNUSED_REASONS; any other reason is `other`.
        """
        values = CallValues(self.warnings, "used")
        others: dict[str, list[str]] = {}
        for name, attempts in unused.items():
            reason = values.choice("a reason", name, UNUSED_REASONS, nearest="other")
            others.setdefault(reason, []).extend(_keys(attempts, values))
        self._writer.write(
            "attempts_used",
            iteration=values.whole("iteration", iteration, 0, MAX_ITERATION),
            trained=len(_keys(trained, values)),
            unused=others,
        )

    @harmless
    def notice(self, message: str, *, level: Literal["info", "warning", "error"] = "info", **extra: Any) -> None:
        """Record a message for people."""
        values = CallValues(self.warnings, "notice")
        chosen = values.choice("level", level, ("info", "warning", "error"))
        self._writer.write("notice", level=chosen, message=values.text("message", message), extra=as_json(extra))

    @harmless_or(_unrecorded)
    def group(
        self,
        size: int,
        *,
        prompt: str | None = "",
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
            prompt: the task, as the policy reads it before the first state.
            iteration: omitted: the iteration of the newest training group, as in log(), or the next one if that has
                metrics; without any group, the one after the last iteration with metrics. In the split eval: the number
                of finished iterations, which is 0 without training.
            seed: seed of the initial state: groups with the same seed are attempts at the same task. Omitted, groups
                with the same environment, prompt and board are.
            suite: name of the evaluation, for the split eval.
            board: the initial state as text.
            extra: anything else, stored with the group.
        """
        values = CallValues(self.warnings, "group")
        count = values.whole("size", size, 1, MAX_GROUP) or 0
        if count > MAX_MEMBERS:
            values.warn("size", f"A group has {count:,} trajectories: sites store {MAX_MEMBERS:,}, which are recorded.")
        members = [uuid.uuid4().hex[:16] for _ in range(min(count, MAX_MEMBERS))]
        named = values.short("environment", environment) or self._environment or "Task"
        task, drawn = values.text("prompt", prompt), board_record("" if board is None else board, values)
        number = values.seed(seed)
        if members:
            self._writer.write(
                "group_started",
                iteration=values.whole("iteration", iteration, 0, MAX_ITERATION),
                split=values.split(split),
                suite=values.short("suite", suite) or None,
                environment=named,
                seed=task_seed(named, task, _board_text(drawn)) if number is None else number,
                prompt=task,
                board=drawn,
                members=members,
                extra=as_json(extra),
            )
        announced = [Trajectory(self._writer, member) for member in members]
        return announced + [self._unannounced() for _ in range(count - len(members))]

    @harmless_or(_unrecorded_trajectory)
    def trajectory(self, *, prompt: str | None = "", iteration: int | None = None, **group: Any) -> Trajectory:
        """Begin a group of one trajectory, for evaluations and loops without groups; for the arguments see `group`."""
        return self.group(1, prompt=prompt, iteration=iteration, **group)[0]

    @harmless
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
        """Record the result of a suite of prompts; its interval is Wilson's, at 95 %.

        Args:
            iteration: finished iterations; 0 before training, or without any training.
            trajectories: number of attempts at all prompts together.
            mean_reward, mean_turns, mean_actions: omitted: means of its recorded attempts, if there are any.
        """
        values = CallValues(self.warnings, "evaluation")
        count = values.whole("trajectories", trajectories, 1, MAX_COUNT)
        tasks = values.whole("prompts", prompts, 1, MAX_COUNT)
        won = values.whole("successes", successes, 0, MAX_COUNT)
        done = values.whole("iteration", iteration, 0, MAX_ITERATION)
        if count is None or tasks is None or won is None or done is None or won > count or tasks > count:
            values.warn(
                "result",
                f"An evaluation of iteration {iteration} with {successes} successes of {trajectories} trajectories "
                f"from {prompts} prompts is not recorded: there are at least as many trajectories as prompts, and at "
                "most as many successes.",
            )
            return
        named = values.short("suite", suite)
        low, high = _wilson(won, count)
        means = self._writer.evaluation_means(named, done)
        self._writer.write(
            "evaluation",
            iteration=done,
            suite=named,
            prompts=tasks,
            samples=max(1, round(count / tasks)),
            success=won / count,
            success_low=low,
            success_high=high,
            mean_reward=means.reward if mean_reward is None else values.number("mean_reward", mean_reward),
            mean_turns=means.turns if mean_turns is None else values.number("mean_turns", mean_turns),
            mean_actions=means.actions if mean_actions is None else values.number("mean_actions", mean_actions),
            final=values.flag("final", final) is True,
            extra=as_json(extra),
        )

    @harmless
    def finish(
        self,
        *,
        reason: Literal["completed", "interrupted", "error"] = "completed",
        message: str = "",
        summary: Mapping[str, float] | None = None,
        timeout: float = 60.0,
    ) -> None:
        """End the run, and wait at most `timeout` seconds until a site has everything."""
        values = CallValues(self.warnings, "finish")
        messages = {
            "completed": "The run is complete.",
            "interrupted": "The run was interrupted.",
            "error": "It failed.",
        }
        why = values.choice("reason", reason, tuple(messages))
        try:
            self._writer.write_totals()
            self._writer.write(
                "run_finished",
                reason=why,
                iteration=self._writer.last_iteration,
                message=values.text("message", message) or messages[why],
                summary=values.numbers("summary", summary),
            )
        finally:
            if self._system is not None:
                self._system.close()
            if self.upload is not None:
                self.upload.finish(values.number("timeout", timeout) or 0.0)


def _keys(attempts: Any, values: CallValues) -> list[str]:
    """Return the ids of attempts in the journal."""
    known = [attempt.key for attempt in items_in(attempts) if isinstance(attempt, Trajectory) and attempt.key]
    if len(known) < len(items_in(attempts)):
        values.warn("attempts", "used() takes lists of the attempts of group() or trajectory(): others are left out.")
    return known


def _flat(values: Mapping[Any, Any], prefix: str = "", depth: int = 8) -> Iterator[tuple[str, Any]]:
    """Yield names and values, with values of nested mappings under their path."""
    for name, value in values.items():
        path = f"{prefix}{as_text(name)}"
        if isinstance(value, Mapping) and value and depth:
            yield from _flat(value, f"{path}/", depth - 1)
        else:
            yield path, value


def _board_text(board: Mapping[str, Any] | None) -> str:
    """Return the text of a board, which distinguishes tasks without a seed."""
    return str((board or {}).get("text", (board or {}).get("rows", "")))


def _wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a success rate."""
    z, rate = 1.959964, successes / trials
    middle = rate + z * z / (2 * trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def _left_out(name: str, value: Any, number: float | None) -> str:
    """Return the warning about a value that log() does not record."""
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
