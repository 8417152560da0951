"""One attempt of a recorded run, while it is played."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, get_args

from echoscope.recording.call_values import CallValues
from echoscope.recording.harmless import OnceWarnings, harmless
from echoscope.recording.journal_writer import JournalWriter
from echoscope.recording.json_values import as_json, as_text, items_in
from echoscope.recording.observation_images import ImageInput, Reference, store_images
from echoscope.recording.recorded_actions import MAX_ACTIONS, action_record, board_record
from echoscope.recording.token_packing import MAX_PACKED, TokenColumns, pack
from echoscope.recording.token_values import TokenValues
from echoscope.recording.tool_calls import as_action, read_calls

End = Literal["terminated", "turns", "actions", "truncated", "interrupted"]
_CUT = re.compile(r"time|trunc|limit|length|max|abort|cut", re.IGNORECASE)
"""Terms for an end from outside, which `truncated` fits best."""
MAX_TURNS = 1000
"""Maximum number of turns in a trajectory that a site stores."""
MAX_TURN_TOKENS = 2_000_000
"""Maximum that keeps the tokens of MAX_TURNS turns within 32 bits."""
MAX_TERMS = 100


class Trajectory:
    """One attempt, while it is played. As a context manager it ends itself: with an error if one was raised.

    Without finish(), success is unknown. No method raises: what cannot be recorded is a RuntimeWarning.
    """

    def __init__(self, writer: JournalWriter, key: str, *, announced: bool = True) -> None:
        """
        Args:
            announced: True if the journal contains its group. Otherwise it cannot contain its turns or its end.
        """
        self._writer, self.key, self._announced = writer, key, announced
        self._turns = self._actions = self._tokens = 0
        self._reward: float | None = None
        self._token_data: TokenColumns | None = None
        self._ended = False

    @property
    def warnings(self) -> OnceWarnings:
        """Warnings of the run."""
        return self._writer.warnings

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
            self.finish(success=False, end="truncated", error=f"{type(error).__name__}: {as_text(error)}")

    @harmless
    def turn(
        self,
        *,
        state: str | None = "",
        response: str | None = "",
        images: ImageInput | Sequence[ImageInput] | None = (),
        thought: str | None = "",
        answer: str | None = None,
        actions: Sequence[str | Mapping[str, Any]] | None = (),
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

        Numbers and truth values may be numpy's or torch's. Non-finite numbers are unknown. Values of another type are
        converted, and what cannot be recorded is left out, with one warning for each argument.

        Args:
            state: the message that the policy read.
            images: what the policy saw in addition to the message, one image or a list of at most eight: bytes or path
                of a PNG, JPEG or WebP, a Pillow image, or a numpy array (height × width × 3, uint8). None: no image, as
                `env.render()` of Gymnasium returns without a render_mode.
            response: what the policy wrote; `thought` and `answer` are parts of it, the answer by default all of it.
            actions: names of executed actions, or mappings with the fields of docs/journal.md. Without any, the
                actions are the `tool_calls` among `extra`: mappings with `name`, `arguments`, `result` and `failed`, or
                in the form of chat APIs.
            reward: reward of the turn; `terms` name its parts. None: the sum of `terms`, or no reward without these.
            tokens: sampled tokens; None or 0 if unknown.
            logprob, entropy: their means, in nats.
            valid: whether the response keeps the format; `problem` is the reason why not. None: not judged, unless
                there is a problem.
            board: the state as text, if it differs from `state`.
            extra: anything else, stored with the turn: tool calls, scores of a judge, latency.
        """
        if self._ended or not self._announced or self._turns >= MAX_TURNS:
            self._warn_of_lost_turn()
            return
        values = CallValues(self.warnings, "turn")
        named = dict(list(values.numbers("terms", terms).items())[:MAX_TERMS])
        earned = values.number("reward", reward)
        if earned is None and reward is None and named:
            earned = values.number("the sum of terms", sum(named.values()))
        response, count = values.text("response", response), values.whole("tokens", tokens, 0, MAX_TURN_TOKENS)
        calls = items_in(actions) or [as_action(call) for call in read_calls(extra.get("tool_calls"))]
        if len(calls) > MAX_ACTIONS:
            values.warn("actions", f"A turn has {len(calls):,} actions: the first {MAX_ACTIONS} are recorded.")
        done = [action_record(action, values) for action in calls[:MAX_ACTIONS]]
        judged, why = values.flag("valid", valid), values.text("problem", problem)
        self._writer.write(
            "turn",
            trajectory=self.key,
            turn=self._turns,
            state=values.text("state", state),
            images=self._images(images, values) or None,
            response=response,
            thought=values.text("thought", thought),
            answer=response if answer is None else values.text("answer", answer),
            format_valid=False if judged is None and why else judged,
            problem=why or None,
            actions=done,
            reward=earned or 0.0,
            terms=named or ({} if earned is None else {"environment": earned}),
            tokens=count or None,
            truncated=values.flag("truncated", truncated) is True,
            logprob=values.number("logprob", logprob),
            entropy=values.number("entropy", entropy),
            board=board_record(board, values),
            extra=as_json(extra),
        )
        self._turns += 1
        self._actions += sum(action["status"] == "executed" for action in done)
        self._tokens += count or 0
        if earned is not None:
            self._reward = (self._reward or 0.0) + earned

    @harmless
    def finish(
        self,
        *,
        success: bool | None = None,
        end: End = "terminated",
        total_reward: float | None = None,
        error: str | None = None,
        **extra: Any,
    ) -> None:
        """End the trajectory; a second call changes nothing.

        Args:
            success: None if unknown; success rates leave it out.
            total_reward: by default the sum over its turns, or none if no turn has a reward.
        """
        if self._ended:
            return
        self._ended = True
        if not self._announced:
            return
        values = CallValues(self.warnings, "finish")
        nearest = "truncated" if _CUT.search(as_text(end)) else "terminated"
        self._writer.write(
            "trajectory_finished",
            trajectory=self.key,
            success=values.flag("success", success),
            end=values.choice("end", end, get_args(End), nearest),
            total_reward=values.number("total_reward", self._reward if total_reward is None else total_reward),
            turns=self._turns,
            actions=self._actions,
            tokens=self._tokens or None,
            error=None if error is None else values.text("error", error),
            extra=as_json(extra),
        )
        self._write_tokens()

    @harmless
    def tokens(
        self,
        ids: Sequence[int],
        *,
        sampled: Sequence[Any],
        texts: Sequence[str] | None = None,
        in_loss: Sequence[Any] | None = None,
        logprobs: Sequence[float] | None = None,
        trainer_logprobs: Sequence[float] | None = None,
        ratios: Sequence[float] | None = None,
        advantages: Sequence[float] | None = None,
        entropies: Sequence[float] | None = None,
        kinds: Sequence[str] | None = None,
        turns: Sequence[int] | None = None,
        restarts: Sequence[int] = (),
    ) -> None:
        """Record all tokens that the policy read and wrote, in order, once; before or after finish().

        The site's page of tokens shows them and checks the loss mask, the prompts and the mismatch of sampler and
        trainer. Every argument but `restarts` has an element for each token, or is None if it is not known; lists,
        numpy arrays and torch tensors will do. Numbers are read where the token was sampled.

        Args:
            sampled: true where the policy sampled the token.
            texts: what each token decodes to, such as `[tokenizer.decode([i]) for i in ids]`.
            in_loss: true where the loss of the update contained the token: the loss mask that was used.
            logprobs, trainer_logprobs: log-probabilities from sampler, and from trainer before the update, nats.
            ratios: importance ratios; None: of `trainer_logprobs` and `logprobs`.
            advantages: factors of the ratios.
            entropies: of the distributions that were sampled from, nats.
            kinds: "template", "system", "task", "observation", "response" or "other".
            turns: number of the turn of each token, from 0; None: each response is sampled without a gap.
            restarts: positions at which the policy began to read another context with nothing before it, for example
                because each turn has a separate prompt.
        """
        if self._token_data is not None or not self._announced:
            self.warnings.once("tokens", "The tokens of a trajectory are not recorded: it has some, or no group.")
            return
        columns = TokenValues(CallValues(self.warnings, "tokens"), ids, sampled).columns(
            texts=texts,
            in_loss=in_loss,
            logprobs=logprobs,
            trainer_logprobs=trainer_logprobs,
            ratios=ratios,
            advantages=advantages,
            entropies=entropies,
            kinds=kinds,
            turns=turns,
            restarts=restarts,
        )
        if columns is None:
            return
        self._token_data = columns
        if self._ended:
            self._write_tokens()

    def _write_tokens(self) -> None:
        """Write the tokens, which follow the end of the trajectory in the journal."""
        columns = self._token_data
        if columns is None:
            return
        data = pack(columns)
        if len(data) > MAX_PACKED:
            self.warnings.once("tokens", f"Tokens of a trajectory are not recorded: {len(data):,} bytes are too many.")
            return
        self._writer.write(
            "trajectory_tokens",
            trajectory=self.key,
            tokens=len(columns.places),
            unlearned="not_sent" if columns.advantages is None else None,
            mismatch=columns.mismatch(),
            k3=columns.k3(),
            wrong=columns.wrong(),
            data=data,
        )

    def _images(self, images: Any, values: CallValues) -> list[Reference]:
        try:
            return store_images(images, self._writer.folder)
        except Exception as error:  # noqa: BLE001 - of the file system, or of libraries that draw
            values.warn("images", f"The images of a turn are not recorded: {as_text(error)}")
            return []

    def _warn_of_lost_turn(self) -> None:
        if self._announced:
            why = "it has ended: begin another one" if self._ended else f"sites store at most {MAX_TURNS:,} of one"
            self.warnings.once(why, f"A turn of a trajectory is not recorded, as {why}. This warning is not repeated.")
