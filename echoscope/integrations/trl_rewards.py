"""What TRL's GRPO and RLOO trainers sample, recorded by their reward functions.

from echoscope.integrations.trl_rewards import EchoscopeRewards

recording = EchoscopeRewards([correct, short], title="GRPO", folder="runs/grpo", success_at=1.0)
trainer = GRPOTrainer(…, reward_funcs=recording.functions, callbacks=[recording.callback])

TRL passes every reward function the prompts and completions of a step. The last one of them records these with all
rewards.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerControl, TrainerState, TrainingArguments

from echoscope.integrations.sampled_groups import Sample, record_evaluation, record_samples, sample_metrics
from echoscope.integrations.transformers_trainer import EchoscopeCallback
from echoscope.recording.content_blocks import ConversationError

RewardFunction = Callable[..., Any]
"""Prompts and completions to one reward each; None: it does not apply to the completion. It may be asynchronous."""
_PASSED = {"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments"}


class _SamplesCallback(EchoscopeCallback):
    """Records what the completions of a step, or of an evaluation, amount to, beside the trainer's logs.

    Attributes:
        sampled: completions since the last step.
        evaluated: completions since the last evaluation.
        suite: name of the evaluation.
    """

    def __init__(self, *args: Any, suite: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.suite = suite
        self.sampled: list[Sample] = []
        self.evaluated: list[Sample] = []

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        sampled, self.sampled = self.sampled, []
        if self.run is not None:
            self.run.log(sample_metrics(sampled), iteration=state.global_step)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        evaluated, self.evaluated = self.evaluated, []
        if self.run is not None:
            record_evaluation(self.run, evaluated, iteration=state.global_step, suite=self.suite)


class EchoscopeRewards:
    """Reward functions that record what they reward.

    Attributes:
        functions: to be passed as `reward_funcs`, with the names of the original ones.
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
            functions: plain functions; reward models, which TRL evaluates itself, are passed to the trainer beside
                `functions` of this object and are not recorded.
            weights: the trainer's `reward_weights`; omitted: 1 each.
            success_at: sum of rewards from which on a completion counts as a success.
            title, folder, environment, url, token: as those of echoscope.init.
        Raises:
            ValueError: another number of weights than of functions, or something that is no function.
        """
        given = [functions] if callable(functions) else list(functions)
        for function in given:
            if not callable(function):
                raise ValueError(f"{function!r} is no reward function: pass names of reward models to the trainer")
        if not given or (weights is not None and len(weights) != len(given)):
            raise ValueError(
                f"{len(given)} reward functions and {len(weights or [])} weights: give one weight for each"
            )
        self._environment, self._success_at = environment, success_at
        self.callback = _SamplesCallback(
            title, folder=folder, environment=environment, url=url, token=token, suite=environment or "Evaluation"
        )
        self._weights = list(weights) if weights is not None else [1.0] * len(given)
        self._names = [getattr(function, "__name__", type(function).__name__) for function in given]
        self._rewards: dict[int, list[Any]] = {}
        self.functions: list[RewardFunction] = [self._recording(number, one) for number, one in enumerate(given)]

    def _recording(self, number: int, function: RewardFunction) -> RewardFunction:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                result: Awaitable[Any] = function(*args, **kwargs)
                rewards = await result
                self._note(number, rewards, kwargs)
                return rewards

            return awaited

        @functools.wraps(function, updated=())
        def called(*args: Any, **kwargs: Any) -> Any:
            rewards = function(*args, **kwargs)
            self._note(number, rewards, kwargs)
            return rewards

        called.__name__ = self._names[number]
        return called

    def _note(self, number: int, rewards: Sequence[Any], given: dict[str, Any]) -> None:
        """Keep the rewards of one function; with those of all, record the completions."""
        self._rewards[number] = list(rewards)
        if len(self._rewards) < len(self._names):
            return
        by_function, self._rewards = self._rewards, {}
        run, state = self.callback.run, given.get("trainer_state")
        if run is None:  # not the main process, or no training yet
            return
        try:
            step, evaluating = getattr(state, "global_step", 0) or 0, self.callback.evaluating
            samples = self._samples(by_function, given)
            record_samples(
                run,
                samples,
                iteration=step if evaluating else step + 1,
                environment=self._environment,
                split="eval" if evaluating else "train",
                suite=self.callback.suite if evaluating else "",
            )
            (self.callback.evaluated if evaluating else self.callback.sampled).extend(samples)
        except (ConversationError, OSError) as error:  # training goes on
            warnings.warn(f"The completions of a step were not recorded: {error}", RuntimeWarning, stacklevel=3)

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
            terms = {
                self._names[number]: float(rewards[at]) * self._weights[number]
                for number, rewards in sorted(by_function.items())
                if rewards[at] is not None
            }
            samples.append(
                Sample(
                    prompt=prompts[at],
                    completion=completion,
                    terms=terms,
                    success=sum(terms.values()) >= self._success_at if terms else None,
                    tokens=len(ids[at]),
                    extra={name: values[at] for name, values in columns.items()},
                )
            )
        return samples
