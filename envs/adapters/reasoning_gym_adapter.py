"""Adapter for reasoning-gym: each generator poses questions of one turn, judged by its scorer."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Annotated, Any, ClassVar, Self

from gymnasium.error import ResetNeeded
from pydantic import Field, field_validator, model_validator

from envs.adapters.boards.question_grids import answer_grid, question_grid
from envs.adapters.packages import no_such_variant
from envs.adapters.variant_arguments import Arguments, as_key, from_key
from envs.base import EnvSettings, EnvSpec, Hint, StepInfo, TextBoard, TextEnv
from envs.spaces import AnyText
from envs.support.global_random import OwnRandomness
from envs.support.reset_options import read_options
from envs.support.rng import SeededRng, Stream
from envs.text_roles import TextRole

FULL_SCORE = 1.0 - 1e-6
INSTRUCTION = "Answer the question with the result alone, in the form that it asks for."
RESERVED = ("seed", "size")
"""Arguments of every generator that only the adapter sets."""


class ReasoningGymSettings(EnvSettings):
    """Settings of the adapter; the generator's settings are its `arguments`."""

    id: Annotated[str, TextRole.PLAIN] = Field(
        "chain_sum", description="Name of the generator, as in its `create_dataset`.", max_length=100
    )
    arguments: Arguments = Field(
        {}, description="Arguments of the generator, as in min_terms=2, max_terms=4.", max_length=30
    )

    @field_validator("id")
    @classmethod
    def check_id(cls, value: str) -> str:
        """Require a registered generator."""
        if value not in _generators():
            raise ValueError(no_such_variant("ReasoningGym", value, _generators()))
        return value

    @model_validator(mode="after")
    def check_arguments(self) -> Self:
        """Require arguments that the generator accepts."""
        if reserved := [name for name in self.arguments if name in RESERVED]:
            raise ValueError(f"arguments: {reserved[0]} is set for each question by the seed of its trajectory")
        _check_arguments(self.id, as_key(self.arguments))
        return self


def _generators() -> dict[str, tuple[type[Any], type[Any]]]:
    """Return class and configuration class of each generator."""
    import_module("reasoning_gym")
    registered: dict[str, tuple[type[Any], type[Any]]] = import_module("reasoning_gym.factory").DATASETS
    return {name: pair for name, pair in sorted(registered.items()) if name != "composite"}


def _dataset(generator: str, arguments: Mapping[str, Any], seed: int) -> Any:
    return import_module("reasoning_gym").create_dataset(generator, **arguments, seed=seed, size=1)


@lru_cache(maxsize=256)
def _check_arguments(generator: str, arguments: str) -> None:
    """Raise ValueError for arguments that the generator's configuration rejects."""
    _, configuration = _generators()[generator]
    given = from_key(arguments)
    accepted = [name for name in inspect.signature(configuration).parameters if name not in RESERVED]
    for name in given:
        if name not in accepted:
            raise ValueError(f"arguments: {generator} has no {name!r}: choose among {', '.join(accepted)}")
    try:
        made = configuration(**given, seed=0, size=1)
        if hasattr(made, "validate"):
            made.validate()
    except (AssertionError, TypeError, ValueError) as error:
        raise ValueError(f"arguments: {generator} refuses them: {error}") from None


def _category(dataset: type[Any]) -> str:
    return dataset.__module__.split(".")[1]


@lru_cache(maxsize=256)
def _description(generator: str) -> EnvSpec:
    dataset, _ = _generators()[generator]
    about = inspect.cleandoc(dataset.__doc__ or "").split("\n\n")[0]
    summary = " ".join(about.split()) if dataset.__doc__ else f"Questions of the kind {_category(dataset)}"
    return EnvSpec(
        name="ReasoningGym",
        title=f"{generator} (reasoning-gym)",
        summary=f"{summary[:200].rstrip('.')}.",
        instruction=INSTRUCTION,
        vocabulary={},
        actions=(),
        max_turns=1,
        max_actions_per_turn=1,
        max_actions=1,
        success="The scorer of the generator gives the answer its full score.",
    )


class ReasoningGym(TextEnv):
    """A question of a generator; the reward of an answer is its score, 0 to 1."""

    Settings: ClassVar[type[EnvSettings]] = ReasoningGymSettings
    settings: ReasoningGymSettings

    @classmethod
    def describe(cls, settings: EnvSettings) -> EnvSpec:
        assert isinstance(settings, ReasoningGymSettings)
        return _description(settings.id)

    @classmethod
    @lru_cache(maxsize=1)
    def variants(cls) -> dict[str, str]:
        return {name: _category(dataset) for name, (dataset, _) in _generators().items()}

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        self.env_spec = self.describe(self.settings)
        self.action_space = AnyText()
        self.observation_space = AnyText()
        self._entry: dict[str, Any] | None = None
        self._answer: str | None = None
        self._score, self._unreadable = 0.0, ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        read_options(options)
        if seed is None:
            seed = int(self.np_random.integers(2**62))
        self._randomness = OwnRandomness(seed, Stream.START)
        with self._randomness.installed():
            number = SeededRng(seed, Stream.START).below(2**32)
            self._dataset = _dataset(self.settings.id, self.settings.arguments, number)
            self._entry = self._dataset[0]
        self._answer, self._score, self._unreadable = None, 0.0, ""
        return self.render(), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        entry = self._question()
        if self._answer is not None:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        self._answer = action
        with self._randomness.installed():
            try:
                self._score = float(self._dataset.score_answer(action.strip(), entry))
            except Exception as error:  # noqa: BLE001 - some scorers raise on an answer that they cannot read
                self._unreadable = f"the scorer could not read the answer: {type(error).__name__}: {error}"
        return self.render(), self._score, True, False, self._info()

    def render(self) -> str:
        """Return the question, and after the answer also its score."""
        question = str(self._question()["question"])
        return question if self._answer is None else f"{question}\n{self._verdict}"

    def board(self) -> TextBoard:
        """Return the question, with the answer and its score, and next to it the grid of either, if there is one."""
        entry = self._question()
        text, grid = str(entry["question"]), None
        if self._answer is not None:
            text += f"\n\nAnswer: {self._answer[:400]}\n{self._verdict}"
            grid = answer_grid(self.settings.id, entry, self._answer)
        return TextBoard(text=text, grid=grid or question_grid(self.settings.id, entry))

    def hint(self) -> Hint | None:
        """Return the answer; None if the generator knows none."""
        answer = self._question()["answer"]
        if self._answer is not None:
            return Hint(distance=0) if self._solved else Hint(solvable="no", reason="the answer was wrong")
        return None if answer is None else Hint(actions=[str(answer)], distance=1)

    @property
    def _solved(self) -> bool:
        return self._answer is not None and self._score >= FULL_SCORE

    @property
    def _verdict(self) -> str:
        reason = f" ({self._unreadable[:200]})" if self._unreadable else ""
        return f"Score: {self._score:g}{reason}"

    def _question(self) -> dict[str, Any]:
        if self._entry is None:
            raise ResetNeeded("call reset() first")
        return self._entry

    def _info(self) -> dict[str, Any]:
        return StepInfo(success=self._solved, effective=self._answer is not None, valid=True).model_dump()
