"""Courses of the pocket policy's warm-up: environments to learn, their demonstrator and the size of the model.

The general course teaches several environments to one policy. A policy of this size that learns only one environment
reads its states more reliably, so each of the other environments has a separate course.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from envs.base import GridBoard, TextEnv
from envs.demonstrators import (
    Demonstrator,
    TurnPlan,
    answer_to_another_question,
    find_demonstrator,
    random_action,
    random_click,
    shuffled_equation,
)
from envs.webshop import generated
from trainer.config.imitation import COURSE_ENVIRONMENTS
from trainer.config.imitation import Course as CourseName
from trainer.config.run import POCKET, EnvironmentConfig, RolloutConfig, RunConfig
from trainer.imitation.course_plans import (
    LAKE_PRACTICE,
    SHOPPING_PRACTICE,
    plan_calculation,
    plan_either_arm,
    plan_expression_search,
    plan_push,
    plan_shopping,
    plan_walk,
)
from trainer.imitation.recipe import Recipe
from trainer.policy import pocket

Tasks = Callable[[RolloutConfig], list[tuple[RunConfig, float]]]
"""Creates the run configurations to demonstrate and their shares, from common settings of rollouts."""
MakeDemonstrator = Callable[[np.random.Generator], Demonstrator]
"""Creates the demonstrator of one demonstration."""


@dataclass(frozen=True)
class Course:
    """Warm-up of a pocket policy: tasks, demonstrators and model size."""

    tasks: Tasks
    recipe: Recipe
    vocabulary: tuple[str, ...]
    """Environments whose vocabulary the tokenizer learns. Fixed, to be independent of installed packages."""
    words: Callable[[], Iterable[str]] = tuple
    """Returns words that the tokenizer learns as one token each."""
    demonstrator: MakeDemonstrator | None = None
    """Demonstrator for the course's environments; None: each environment's demonstrator."""
    practice: MakeDemonstrator | None = None
    """Demonstrator for single states, if it is a different one."""
    expert: MakeDemonstrator | None = None
    """Demonstrator with only the best strategy, for the SFT baseline."""
    vary: Callable[[np.random.Generator], dict[str, Any]] | None = None
    """Draws settings of the environment for each demonstration."""
    task_in_every_prompt: bool = False
    """Whether single states follow the task, as in play of one turn, or with a context window of one."""
    tokens: int = pocket.VOCABULARY
    """Size of the tokenizer's vocabulary."""
    distances: tuple[int, ...] = ()
    """Number of tokens that heads of the first layer initially look back, see pocket.look_back."""
    copies: bool = False
    """Whether the model starts with an induction head, see pocket.induction_head."""
    frequent: float = 0.0
    """Share of frequent tokens in the texts to copy, see copying_batch."""
    shape: Mapping[str, int] = field(default_factory=dict)
    """Changes to the model's configuration."""

    def demonstrator_for(self, seed: int, *, single_state: bool = False) -> Demonstrator | None:
        """Return the demonstrator of the demonstration with this seed, of a dialogue or of a single state."""
        makes = self.practice if single_state and self.practice else self.demonstrator
        return makes and makes(np.random.default_rng([seed, 2]))

    def expert_for(self, seed: int) -> Demonstrator | None:
        """Return the demonstrator of the best strategy for this seed; None: the environment's demonstrator."""
        return self.expert and self.expert(np.random.default_rng([seed, 2]))

    def varied(self, config: RunConfig, seed: int) -> RunConfig:
        """Return the configuration with the environment's settings drawn for the demonstration with this seed."""
        if self.vary is None:
            return config
        drawn = self.vary(np.random.default_rng([seed, 1]))
        settings = {**config.environment.settings, **drawn}
        environment = config.environment.model_copy(update={"settings": settings})
        return config.model_copy(update={"environment": environment})


def _general(rollout: RolloutConfig) -> list[tuple[RunConfig, float]]:
    bandit = rollout.model_copy(update={"max_turns": 1, "max_actions_per_turn": 1, "max_actions": 1})
    lake = rollout.model_copy(update={"max_actions_per_turn": 2})
    return [
        (RunConfig(environment=EnvironmentConfig(name="Sokoban"), rollout=rollout), 0.8),
        (RunConfig(environment=EnvironmentConfig(name="FrozenLake"), rollout=lake), 0.15),
        (RunConfig(environment=EnvironmentConfig(name="Bandit"), rollout=bandit), 0.05),
    ]


def _plan_generally(env: TextEnv, limit: int) -> TurnPlan:
    """Return the plan of the general course: in Sokoban one push at a time, elsewhere the environment's plan."""
    board = env.board()
    if isinstance(board, GridBoard) and board.theme == "sokoban":
        return plan_push(env, limit)
    return find_demonstrator(env).plan(env, limit)


_GENERAL = Demonstrator(_plan_generally, random_action)


def _only(name: str, settings: Mapping[str, Any] | None = None, **budgets: int) -> Tasks:
    """Return the tasks of a course with one environment."""

    def tasks(rollout: RolloutConfig) -> list[tuple[RunConfig, float]]:
        environment = EnvironmentConfig(name=name, settings=dict(settings or {}))
        return [(RunConfig(environment=environment, rollout=rollout.model_copy(update=budgets)), 1.0)]

    return tasks


_CONSONANTS, _VOWELS = "bcdfghjklmnpqrstvwxyz", "aeiou"


def _drawn_name(rng: np.random.Generator) -> str:
    """Draw a name of 4 to 9 letters, mostly alternating between consonants and vowels, so that it looks like a word."""
    vowel = bool(rng.random() < 0.4)
    letters = []
    for _ in range(int(rng.integers(4, 10))):
        letters.append(str(rng.choice(list(_VOWELS if vowel else _CONSONANTS))))
        vowel = vowel != (rng.random() < 0.85)
    return "".join(letters).capitalize()


def _drawn_names(rng: np.random.Generator) -> dict[str, Any]:
    """Draw two names, so that the policy learns to spell any; in a third of the cases keep the environment's names."""
    if rng.random() < 1 / 3:
        return {}
    low, high = _drawn_name(rng), _drawn_name(rng)
    return {} if low == high else {"low_name": low, "high_name": high}


COUNTDOWN = {"max_numbers": 3, "largest": 12, "max_target": 24, "operators": "+-"}
"""Problems of the pocket presets: three small numbers to add and subtract."""

_WEBSHOP_PRODUCTS = 50
WEBSHOP = {"products": _WEBSHOP_PRODUCTS, "hints": "-", "results_per_page": 4, "longest_text": 600}
"""The shop of the pocket presets: few products, and pages that a policy of this size can read."""


def _product_ids() -> list[str]:
    return [product.asin.lower() for product in generated.catalogue(_WEBSHOP_PRODUCTS).products]


def get_expert(config: RunConfig, seed: int) -> Demonstrator | None:
    """Return the demonstrator that an SFT run imitates in its environment; None: the environment's demonstrator.

    The built-in pocket policy imitates the best strategy of its course, in the words that it was taught.

    Args:
        config: configuration of the run, as if it had one environment.
        seed: seed of the demonstration.
    """
    course = config.warmup.course
    taught = config.policy.model == POCKET and config.environment.name in COURSE_ENVIRONMENTS[course]
    return COURSES[course].expert_for(seed) if taught else None


COURSES: dict[CourseName, Course] = {
    "general": Course(
        tasks=_general,
        recipe=Recipe(single_state_steps=900, steps=450, refine_steps=700, noisy_steps=80, noise=0.6, batch=32),
        vocabulary=COURSE_ENVIRONMENTS["general"],
        demonstrator=lambda rng: _GENERAL,
        expert=lambda rng: _GENERAL,
    ),
    "frozen_lake": Course(
        tasks=_only("FrozenLake", max_turns=10, max_actions_per_turn=1, max_actions=10),
        recipe=Recipe(single_state_steps=4000, steps=300, batch=8),
        vocabulary=("FrozenLake",),
        demonstrator=lambda rng: Demonstrator(partial(plan_walk, rng=rng), random_action),
        practice=lambda rng: Demonstrator(partial(plan_walk, rng=rng, strategies=LAKE_PRACTICE), random_action),
        expert=lambda rng: Demonstrator(partial(plan_walk, rng=rng, strategies={"Safest": 1.0}), random_action),
        vary=lambda rng: {"frozen": float(rng.uniform(0.5, 0.9))},  # more holes, which the policy must learn to read
        distances=(1, 5),  # a row of the lake and its line break are five tokens
    ),
    "bandit": Course(
        tasks=_only("Bandit", max_turns=1, max_actions_per_turn=1, max_actions=1),
        recipe=Recipe(copying_steps=300, single_state_steps=4000, steps=0, batch=16),
        vocabulary=("Bandit", "BanditRev"),  # the names of BanditTest are spelled, like all unseen names
        demonstrator=lambda rng: Demonstrator(partial(plan_either_arm, rng=rng), random_action),
        expert=lambda rng: Demonstrator(partial(plan_either_arm, rng=rng, best=True), random_action),
        vary=_drawn_names,
        task_in_every_prompt=True,
        copies=True,
        shape={"hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 3},
    ),
    "countdown": Course(
        tasks=_only(
            "Countdown", COUNTDOWN, max_response_tokens=160, max_turns=1, max_actions_per_turn=1, max_actions=1
        ),
        recipe=Recipe(single_state_steps=2000, steps=0, batch=16),
        vocabulary=("Countdown",),
        demonstrator=lambda rng: Demonstrator(partial(plan_expression_search, rng=rng), shuffled_equation),
        expert=lambda rng: Demonstrator(partial(plan_expression_search, rng=rng, patience=1.0), shuffled_equation),
        task_in_every_prompt=True,
    ),
    "webshop": Course(
        tasks=_only("WebShop", WEBSHOP, max_turns=9, max_actions_per_turn=1, max_actions=9, context_turns=1),
        recipe=Recipe(copying_steps=800, single_state_steps=2100, steps=300, batch=8, learning_rate=1e-3),
        vocabulary=("WebShop",),
        words=_product_ids,
        demonstrator=lambda rng: Demonstrator(partial(plan_shopping, rng=rng), random_click),
        practice=lambda rng: Demonstrator(partial(plan_shopping, rng=rng, diligence=SHOPPING_PRACTICE), random_click),
        expert=lambda rng: Demonstrator(partial(plan_shopping, rng=rng, diligence=1.0), random_click),
        task_in_every_prompt=True,
        tokens=1344,
        distances=(1, 5),  # from "next >" to the first result are five tokens
        copies=True,
        frequent=0.35,
    ),
    "calculator": Course(
        tasks=_only("ToolCalculator", max_turns=4, max_actions_per_turn=1, max_actions=4),
        recipe=Recipe(copying_steps=300, steps=3000, batch=16, learning_rate=4e-3),
        vocabulary=("ToolCalculator",),
        demonstrator=lambda rng: Demonstrator(partial(plan_calculation, rng=rng), answer_to_another_question),
        expert=lambda rng: Demonstrator(partial(plan_calculation, rng=rng, trust=1.0), answer_to_another_question),
        copies=True,
        shape={"hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 3},
    ),
}
