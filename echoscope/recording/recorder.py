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
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from echoscope.recording.journal_writer import JournalWriter, finite
from echoscope.recording.live_upload import LiveUpload
from echoscope.recording.observation_images import ImageInput, store_images
from echoscope.recording.task_seed import task_seed
from echoscope.recording.tool_calls import action_of, read_calls

Split = Literal["train", "eval"]
End = Literal["terminated", "turns", "actions", "truncated", "interrupted"]
MAX_MEMBERS = 4096
"""Trajectories of a group that a site stores."""


def init(
    title: str,
    *,
    config: Mapping[str, Any] | None = None,
    folder: str | Path | None = None,
    environment: str = "",
    iterations: int = 0,
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
        url, token: of a site, to which the journal is sent while it grows; omitted: nothing is sent.
    Raises:
        ValueError: settings that are not JSON, or one of `url` and `token` without the other.
    """
    if (url is None) != (token is None):
        raise ValueError("give both url and token of a site, or neither to record without one")
    place = Path(folder) if folder is not None else Path("echoscope-runs") / uuid.uuid4().hex[:12]
    writer = JournalWriter(place)
    settings: dict[str, Any] = {"name": title, "tags": list(tags), "recorded": finite(dict(config or {}))}
    if environment:
        settings["environment"] = {"name": environment}
    writer.write(
        "run_started",
        attempt=writer.attempts + 1,
        from_iteration=writer.last_iteration,
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

    def log(self, values: Mapping[str, float], *, iteration: int, **extra: Any) -> None:
        """Record metrics of an iteration, from 1 (0: before training), under any names; those not finite are left out.

        Names of docs/metrics.md, such as reward/mean, are drawn with their titles and units.
        """
        known = {name: float(value) for name, value in values.items() if _is_finite(value)}
        if known:
            self._writer.write(
                "metrics",
                iteration=iteration,
                values=known,
                extra=extra,
            )

    def notice(self, message: str, *, level: Literal["info", "warning", "error"] = "info", **extra: Any) -> None:
        """Record a message for people."""
        self._writer.write("notice", level=level, message=message, extra=extra)

    def group(
        self,
        size: int,
        *,
        prompt: str,
        iteration: int,
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
        return [Trajectory(self, member) for member in members]

    def trajectory(self, *, prompt: str, iteration: int, **group: Any) -> Trajectory:
        """Begin a group of one trajectory; for the other arguments see `group`."""
        return self.group(1, prompt=prompt, iteration=iteration, **group)[0]

    def evaluation(
        self,
        suite: str,
        *,
        iteration: int,
        prompts: int,
        trajectories: int,
        successes: int,
        mean_reward: float,
        mean_turns: float = 0.0,
        final: bool = False,
        **extra: Any,
    ) -> None:
        """Record the result of a suite of prompts; its interval is Wilson's, of 95 %.

        Args:
            iteration: finished iterations; 0: before training, or no training at all.
            trajectories: attempts at all prompts together.
        Raises:
            ValueError: numbers that do not belong together.
        """
        if not 0 <= successes <= trajectories or not 1 <= prompts <= trajectories:
            raise ValueError(
                f"{successes} successes of {trajectories} trajectories from {prompts} prompts: there are at least as "
                "many trajectories as prompts, and at most as many successes"
            )
        low, high = _wilson(successes, trajectories)
        self._writer.write(
            "evaluation",
            iteration=iteration,
            suite=suite,
            prompts=prompts,
            samples=max(1, round(trajectories / prompts)),
            success=successes / trajectories,
            success_low=low,
            success_high=high,
            mean_reward=float(mean_reward),
            mean_turns=float(mean_turns),
            mean_actions=0.0,
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
        words = {"completed": "The run is complete.", "interrupted": "The run was interrupted.", "error": "It failed."}
        self._writer.write(
            "run_finished",
            reason=reason,
            iteration=self._writer.last_iteration,
            message=message or words[reason],
            summary={name: float(value) for name, value in (summary or {}).items() if _is_finite(value)},
        )
        if self.upload is not None:
            self.upload.finish(timeout)

    def _write(self, kind: str, **fields: Any) -> None:
        self._writer.write(kind, **fields)


class Trajectory:
    """One attempt, while it is played. As a context manager it ends itself: with an error if one was raised.

    Without finish(), whether it succeeded is not known.
    """

    def __init__(self, run: Recorder, key: str) -> None:
        self._run, self.key = run, key
        self._turns = self._actions = self._tokens = 0
        self._reward: float | None = None
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        if error is None:
            self.finish(success=None)
        else:
            self.finish(success=False, end="truncated", error=f"{type(error).__name__}: {error}")

    def turn(
        self,
        *,
        state: str,
        response: str,
        images: ImageInput | Sequence[ImageInput] = (),
        thought: str = "",
        answer: str | None = None,
        actions: Sequence[str | Mapping[str, Any]] = (),
        reward: float | None = None,
        terms: Mapping[str, float] | None = None,
        tokens: int = 0,
        logprob: float | None = None,
        entropy: float | None = None,
        valid: bool = True,
        problem: str | None = None,
        board: str | None = None,
        truncated: bool = False,
        **extra: Any,
    ) -> None:
        """Record a turn.

        Args:
            state: the message that the policy read.
            images: what it saw beside the message, one image or a list of at most eight: bytes or path of a PNG, JPEG
                or WebP, an image of Pillow, or an array of numpy (height × width × 3, uint8).
            response: what it wrote; `thought` and `answer` are parts of it, the answer by default all of it.
            actions: names of executed actions, or mappings with the fields of docs/journal.md. Without any, the
                actions are the `tool_calls` among `extra`: mappings with `name`, `arguments`, `result` and `failed`, or
                as chat APIs have them.
            reward: of the turn; `terms` name its parts. None: the sum of `terms`; without these the turn has none.
            tokens: sampled tokens.
            logprob, entropy: their means, in nats.
            valid: whether the response keeps the format; `problem` says why not.
            board: the state as text, where it differs from `state`.
            extra: anything else, kept with the turn: tool calls, scores of a judge, latency.
        Raises:
            RuntimeError: the trajectory has ended.
            ValueError: an image is none, or too large, or there are too many. Nothing is recorded then.
        """
        if self._ended:
            raise RuntimeError("this trajectory has ended: begin another one")
        if reward is None and terms:
            reward = sum(terms.values())
        seen = store_images(images, self._run.folder)
        calls = [] if actions else [action_of(call) for call in read_calls(extra.get("tool_calls"))]
        done = [_action(action) for action in actions or calls]
        self._run._write(
            "turn",
            trajectory=self.key,
            turn=self._turns,
            state=state,
            images=seen or None,
            response=response,
            thought=thought,
            answer=response if answer is None else answer,
            format_valid=valid,
            problem=problem,
            actions=done,
            reward=float(reward or 0.0),
            terms=dict(terms or ({} if reward is None else {"environment": float(reward)})),
            tokens=tokens,
            truncated=truncated,
            logprob=logprob,
            entropy=entropy,
            board=None if board is None else {"kind": "text", "text": board},
            extra=extra,
        )
        self._turns += 1
        self._actions += sum(action["status"] == "executed" for action in done)
        self._tokens += tokens
        if reward is not None:
            self._reward = (self._reward or 0.0) + float(reward)

    def finish(
        self,
        *,
        success: bool | None,
        end: End = "terminated",
        total_reward: float | None = None,
        error: str | None = None,
        **extra: Any,
    ) -> None:
        """End the trajectory; a second call changes nothing.

        Args:
            success: None: not known; success rates leave it out.
            total_reward: by default the sum of its turns', or none if no turn has one.
        """
        if self._ended:
            return
        self._ended = True
        self._run._write(
            "trajectory_finished",
            trajectory=self.key,
            success=success,
            end=end,
            total_reward=self._reward if total_reward is None else float(total_reward),
            turns=self._turns,
            actions=self._actions,
            tokens=self._tokens,
            error=error,
            extra=extra,
        )


def _action(action: str | Mapping[str, Any]) -> dict[str, Any]:
    given = {"text": action} if isinstance(action, str) else dict(action)
    text = str(given.get("text") or given.get("name") or "")
    return {"status": "executed", "name": text, "reward": 0.0, "effective": True} | given | {"text": text}


def _wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's interval of a success rate, 95 %."""
    z, rate = 1.959964, successes / trials
    middle = rate + z * z / (2 * trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def _is_finite(value: Any) -> bool:
    try:
        return abs(float(value)) < float("inf")
    except (TypeError, ValueError):
        return False
