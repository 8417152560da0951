"""Records samples of TRL's GRPO and RLOO trainers by their reward functions.

from echoscope.integrations.trl_rewards import EchoscopeRewards

recording = EchoscopeRewards([correct, short], title="GRPO", folder="runs/grpo", success_at=1.0)
trainer = GRPOTrainer(…, reward_funcs=recording.functions, callbacks=[recording.callback])

TRL passes every reward function the prompts and completions of a step. The last function records them with all
rewards.
"""

from __future__ import annotations

import functools
import inspect
import math
import time
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from transformers import TrainerControl, TrainerState, TrainingArguments

from echoscope.integrations.metric_names import STANDARD_NAMES
from echoscope.integrations.sampled_groups import Sample, record_evaluation, record_samples, sample_metrics
from echoscope.integrations.token_pieces import TokenPieces
from echoscope.integrations.transformers_trainer import EchoscopeCallback
from echoscope.integrations.trl_tokens import METHOD, send_tokens
from echoscope.recording.harmless import OnceWarnings, harmless
from echoscope.recording.json_values import number_in
from echoscope.recording.trajectory import Trajectory

RewardFunction = Callable[..., Any]
"""Maps prompts and completions to one reward each; None if it does not apply to a completion. May be asynchronous."""
_PASSED = {"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments"}


class _SamplesCallback(EchoscopeCallback):
    """Records metrics over the completions of a step or an evaluation, in addition to the trainer's logs.

    Attributes:
        sampled: completions since the last step.
        evaluated: completions since the last evaluation.
        suite: name of the evaluation.
        end_tokens: ids that end a completion; empty if unknown.
        times_phases: whether rollouts can be distinguished from updates, so that the phases of a step are recorded.
    """

    standard_names: ClassVar[Mapping[str, str]] = {
        name: standard for name, standard in STANDARD_NAMES.items() if name != "reward"
    }
    """Without `reward`, the trainer's mean over several steps: reward/mean is the mean of one step's completions."""

    def __init__(self, *args: Any, suite: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.suite = suite
        self.end_tokens: set[int] = set()
        self.sampled: list[Sample] = []
        self.evaluated: list[Sample] = []
        self.times_phases = False
        self._phase = ("", 0.0)

    @harmless
    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        self.end_tokens = _end_tokens(kwargs.get("model"), kwargs.get("processing_class"))

    @harmless
    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.times_phases:
            self.switch_phase("update")

    @harmless
    def switch_phase(self, kind: str) -> None:
        """End the present phase of the timeline and begin another one; "" begins none."""
        (ended, began), self._phase = self._phase, (kind, time.monotonic())
        if ended and self.run is not None:
            self.run.end_phase(ended, began)

    @harmless
    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.times_phases:
            self.switch_phase("")
        sampled, self.sampled = self.sampled, []
        if self.run is not None:
            self.run.log(sample_metrics(sampled), iteration=state.global_step)

    @harmless
    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        evaluated, self.evaluated = self.evaluated, []
        if self.run is not None:
            record_evaluation(self.run, evaluated, iteration=state.global_step, suite=self.suite)


class EchoscopeRewards:
    """Reward functions that record what they reward.

    Attributes:
        functions: to be passed as `reward_funcs`, with the names of the original functions.
        callback: to be passed in `callbacks`; it begins and ends the run, and records the trainer's logs, mean and
            spread of the rewards, the success rate, and the results of evaluations.
    """

    def __init__(
        self,
        functions: RewardFunction | Sequence[RewardFunction],
        *,
        title: str = "",
        folder: str | Path | None = None,
        environment: str = "",
        weights: Sequence[float] | None = None,
        success_at: float = 1.0,
        url: str | None = None,
        token: str | None = None,
    ) -> None:
        """
        Args:
            functions: plain functions; reward models, which TRL evaluates itself, are passed to the trainer together
                with `functions` of this object and are not recorded.
            weights: the trainer's `reward_weights`; omitted: 1 each.
            success_at: sum of rewards from which a completion counts as a success.
            title, folder, environment, url, token: as in echoscope.init.
        Raises:
            ValueError: the numbers of weights and functions differ, or something is not a function.
        """
        given = [functions] if callable(functions) else list(functions)
        for function in given:
            if not callable(function):
                raise ValueError(f"{function!r} is no reward function: pass names of reward models to the trainer")
        if not given or (weights is not None and len(weights) != len(given)):
            raise ValueError(
                f"{len(given)} reward functions and {len(weights or [])} weights: give one weight for each"
            )
        self.warnings = OnceWarnings()
        self._environment, self._success_at = environment, success_at
        self.callback = _SamplesCallback(
            title, folder=folder, environment=environment, url=url, token=token, suite=environment or "Evaluation"
        )
        self._weights = list(weights) if weights is not None else [1.0] * len(given)
        names = [str(getattr(function, "__name__", type(function).__name__)) for function in given]
        self._names = _told_apart(names)
        self._rewards: dict[int, list[Any]] = {}
        self._attempts: list[Trajectory] = []
        self._lengths: list[int] = []
        self.functions: list[RewardFunction] = [
            self._recording(number, names[number], original) for number, original in enumerate(given)
        ]

    def _recording(self, number: int, given_name: str, function: RewardFunction) -> RewardFunction:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                result: Awaitable[Any] = function(*args, **kwargs)
                rewards = _lasting(await result)
                self._record_completions(number, rewards, kwargs)
                return rewards

            return awaited

        @functools.wraps(function, updated=())
        def called(*args: Any, **kwargs: Any) -> Any:
            rewards = _lasting(function(*args, **kwargs))
            self._record_completions(number, rewards, kwargs)
            return rewards

        called.__name__ = given_name
        return called

    @harmless
    def _record_completions(self, number: int, rewards: Sequence[Any], given: dict[str, Any]) -> None:
        """Keep the rewards of one function; with all functions' rewards, record the completions."""
        self._rewards[number] = list(rewards)
        if len(self._rewards) < len(self._names):
            return
        by_function, self._rewards = self._rewards, {}
        run, state = self.callback.run, given.get("trainer_state")
        if run is None:  # not the main process, or no training yet
            return
        step, evaluating = getattr(state, "global_step", 0) or 0, self.callback.evaluating
        samples = self._samples(by_function, given)
        self._attempts = record_samples(
            run,
            samples,
            iteration=step if evaluating else step + 1,
            environment=self._environment,
            split="eval" if evaluating else "train",
            suite=self.callback.suite if evaluating else "",
        )
        self._lengths = [sample.tokens for sample in samples]
        (self.callback.evaluated if evaluating else self.callback.sampled).extend(samples)

    def watch_tokens(self, trainer: Any) -> None:
        """Record also the tokens of prompts and completions, with the loss mask and the advantages of the trainer.

        The time of a step is then recorded as well, divided into rollout and update.

        Call it once between the trainer's construction and `train()`. Log-probabilities are recorded where the trainer
        computes them: the sampler's with vLLM, its own with several updates for a generation.
        """
        prepare = getattr(trainer, METHOD, None)
        if not callable(prepare):
            self.warnings.once("watch", f"{type(trainer).__name__} has no {METHOD} here: no tokens are recorded.")
            return
        pieces = TokenPieces(getattr(trainer, "processing_class", None))

        @functools.wraps(prepare)
        def prepared(*args: Any, **kwargs: Any) -> Any:
            self._attempts = []
            phase = "" if self.callback.evaluating else "rollout"
            self.callback.switch_phase(phase)
            batch = prepare(*args, **kwargs)
            self.callback.switch_phase(phase and "update")
            self._send(batch, pieces)
            return batch

        self.callback.times_phases = True

        setattr(trainer, METHOD, prepared)

    @harmless
    def _send(self, batch: Any, pieces: TokenPieces) -> None:
        attempts, self._attempts = self._attempts, []
        if attempts:
            send_tokens(batch, attempts, self._lengths, pieces)

    def _samples(self, by_function: dict[int, list[Any]], given: dict[str, Any]) -> list[Sample]:
        prompts, completions = given.get("prompts") or [], given.get("completions") or []
        ids = given.get("completion_ids") or [[]] * len(completions)
        columns = {
            name: values
            for name, values in given.items()
            if name not in _PASSED and isinstance(values, list) and len(values) == len(completions)
        }
        samples = []
        for at, completion in enumerate(completions):
            terms, unknown = self._terms({number: rewards[at] for number, rewards in sorted(by_function.items())})
            ended = not self.callback.end_tokens or not ids[at] or ids[at][-1] in self.callback.end_tokens
            samples.append(
                Sample(
                    prompt=prompts[at],
                    completion=completion,
                    terms=terms,
                    success=sum(terms.values()) >= self._success_at if terms and not unknown else None,
                    tokens=len(ids[at]),
                    truncated=not ended,
                    extra={name: values[at] for name, values in columns.items()},
                )
            )
        return samples

    def _terms(self, rewards: Mapping[int, Any]) -> tuple[dict[str, float], list[str]]:
        """Return a completion's weighted rewards by function name, and the functions without a finite reward."""
        numbers = {number: number_in(reward) for number, reward in rewards.items() if reward is not None}
        terms = {
            self._names[number]: reward * self._weights[number]
            for number, reward in numbers.items()
            if reward is not None and math.isfinite(reward)
        }
        unknown = [self._names[number] for number in numbers if self._names[number] not in terms]
        for name in unknown:
            self.warnings.once(
                f"reward of {name}",
                f"The reward function {name} returned a reward that is no finite number: the completion is recorded "
                "without it, and its success as not known. Return None where the function does not apply. This warning "
                "is not repeated.",
            )
        return terms, unknown


def _lasting(rewards: Any) -> Any:
    """Return the rewards, an iterator as a list: the trainer reads rewards after they have been recorded."""
    kind = type(rewards)
    is_iterator = issubclass(kind, Iterator) and kind not in weakref.ProxyTypes  # which have the methods of all types
    return list(rewards) if is_iterator else rewards


def _told_apart(names: Sequence[str]) -> list[str]:
    """Return the names with numbers where functions share one, such as lambdas: each has a term of the reward."""
    counts = Counter[str]()
    unique = []
    for name in names:
        counts[name] += 1
        unique.append(name if counts[name] == 1 else f"{name} {counts[name]}")
    return unique


def _end_tokens(model: Any, processing_class: Any) -> set[int]:
    """Return ids of the tokens that end a completion, from the model's generation settings and the tokenizer."""
    tokenizer = getattr(processing_class, "tokenizer", processing_class)
    known = [getattr(getattr(model, "generation_config", None), "eos_token_id", None)]
    known.append(getattr(tokenizer, "eos_token_id", None))
    ids = [token_id for value in known for token_id in (value if isinstance(value, list) else [value])]
    return {token_id for token_id in ids if isinstance(token_id, int)}
