"""One attempt of a recorded run, while it is played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from echoscope.recording.journal_writer import JournalWriter
from echoscope.recording.observation_images import ImageInput, store_images
from echoscope.recording.tool_calls import action_of, read_calls

End = Literal["terminated", "turns", "actions", "truncated", "interrupted"]


class Trajectory:
    """One attempt, while it is played. As a context manager it ends itself: with an error if one was raised.

    Without finish(), whether it succeeded is not known.
    """

    def __init__(self, writer: JournalWriter, key: str) -> None:
        self._writer, self.key = writer, key
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
        images: ImageInput | Sequence[ImageInput] | None = (),
        thought: str = "",
        answer: str | None = None,
        actions: Sequence[str | Mapping[str, Any]] = (),
        reward: float | None = None,
        terms: Mapping[str, float] | None = None,
        tokens: int | None = None,
        logprob: float | None = None,
        entropy: float | None = None,
        valid: bool | None = None,
        problem: str | None = None,
        board: str | None = None,
        truncated: bool = False,
        **extra: Any,
    ) -> None:
        """Record a turn.

        Args:
            state: the message that the policy read.
            images: what it saw besides the message, one image or a list of at most eight: bytes or path of a PNG, JPEG
                or WebP, an image of Pillow, or an array of numpy (height × width × 3, uint8). None: no image, as
                `env.render()` of Gymnasium returns without a render_mode.
            response: what it wrote; `thought` and `answer` are parts of it, the answer by default all of it.
            actions: names of executed actions, or mappings with the fields of docs/journal.md. Without any, the
                actions are the `tool_calls` among `extra`: mappings with `name`, `arguments`, `result` and `failed`, or
                as chat APIs have them.
            reward: of the turn; `terms` name its parts. None: the sum of `terms`; without these the turn has none.
            tokens: sampled tokens; None or 0: not known.
            logprob, entropy: their means, in nats.
            valid: whether the response keeps the format; `problem` is why it does not. None: not judged, unless there
                is a problem.
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
        seen = store_images(images, self._writer.folder)
        calls = [] if actions else [action_of(call) for call in read_calls(extra.get("tool_calls"))]
        done = [_action(action) for action in actions or calls]
        self._writer.write(
            "turn",
            trajectory=self.key,
            turn=self._turns,
            state=state,
            images=seen or None,
            response=response,
            thought=thought,
            answer=response if answer is None else answer,
            format_valid=False if valid is None and problem else valid,
            problem=problem,
            actions=done,
            reward=float(reward or 0.0),
            terms=dict(terms or ({} if reward is None else {"environment": float(reward)})),
            tokens=tokens or None,
            truncated=truncated,
            logprob=logprob,
            entropy=entropy,
            board=None if board is None else {"kind": "text", "text": board},
            extra=extra,
        )
        self._turns += 1
        self._actions += sum(action["status"] == "executed" for action in done)
        self._tokens += tokens or 0
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
        self._writer.write(
            "trajectory_finished",
            trajectory=self.key,
            success=success,
            end=end,
            total_reward=self._reward if total_reward is None else float(total_reward),
            turns=self._turns,
            actions=self._actions,
            tokens=self._tokens or None,
            error=error,
            extra=extra,
        )


def _action(action: str | Mapping[str, Any]) -> dict[str, Any]:
    given = {"text": action} if isinstance(action, str) else dict(action)
    text = str(given.get("text") or given.get("name") or "")
    return {"status": "executed", "name": text, "reward": 0.0, "effective": True} | given | {"text": text}
