"""Where a game begins: an environment with its settings and budgets, and the seeds of its initial state.

An address names it in one word: `prompt=38` is one of the fixed exam, `seed=7` any state, `of=<slug>` a trajectory's.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from django.http import Http404, QueryDict

from envs.base import EnvSpec
from trainer.config.environment import by_environment
from trainer.config.evaluation import EvaluationConfig, parse_suite
from trainer.config.run import RunConfig
from trainer.seeds import Purpose, derive
from webapp.trajectories.models import Trajectory

PROMPTS = EvaluationConfig().prompts
EXAM_SEED = EvaluationConfig().seed
MAX_SEED = 2**31 - 1
KINDS = ("prompt", "seed", "of")


@dataclass(frozen=True)
class Start:
    """An initial state. `dynamics` draws what happens afterwards; None leaves it to `seed`. `query` is its address."""

    environment: str
    query: str
    seed: int
    max_turns: int
    max_actions_per_turn: int
    max_actions: int
    dynamics: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    prompt: int = 0
    of: str = ""

    @property
    def label(self) -> str:
        """What people call it."""
        if self.prompt:
            return f"prompt {self.prompt} of the fixed exam"
        return "the state of a trajectory" if self.of else f"seed {self.seed}"

    @property
    def key(self) -> str:
        """Its name among one person's games."""
        return f"{self.environment}?{self.query}"

    @property
    def budget(self) -> int:
        """Actions in all: turns that are always filled."""
        return min(self.max_actions, self.max_turns * self.max_actions_per_turn)


class NoSuchStart(ValueError):
    """The address names no state that can be played. The message says why, in words."""


def random_query() -> str:
    """The address of some prompt of the fixed exam, which runs are examined on, too."""
    return f"prompt={secrets.randbelow(PROMPTS) + 1}"


def wanted(given: QueryDict) -> str:
    """The start that a page or a form asks for, as `kind=value`; empty where none is named."""
    for kind in KINDS:
        value = given.get(kind, "").strip()
        if value:
            return f"{kind}={value}"
    return ""


def find(user: Any, spec: EnvSpec, name: str, query: str) -> Start:
    """The start of that address. Raises NoSuchStart in words, Http404 for a trajectory that the user may not see."""
    kind, _, value = query.partition("=")
    if kind == "of":
        return _of_trajectory(user, spec, name, value)
    if not (value.isascii() and value.isdecimal() and len(value) < 11):
        raise NoSuchStart(f"“{value[:40]}” is no {'prompt' if kind == 'prompt' else 'seed'}: give a whole number.")
    number = int(value)
    budgets = (spec.max_turns, spec.max_actions_per_turn, spec.max_actions)
    if kind == "seed":
        if number > MAX_SEED:
            raise NoSuchStart(f"A seed is at most {MAX_SEED:,}.")
        return Start(name, f"seed={number}", number, *budgets)
    if not 1 <= number <= PROMPTS:
        raise NoSuchStart(f"The fixed exam has the prompts 1 to {PROMPTS}.")
    seed, dynamics = (
        derive(EXAM_SEED, Purpose.EVALUATION, purpose, number - 1)
        for purpose in (Purpose.INITIAL_STATE, Purpose.DYNAMICS)
    )
    return Start(name, f"prompt={number}", seed, *budgets, dynamics=dynamics, prompt=number)


def _of_trajectory(user: Any, spec: EnvSpec, name: str, slug: str) -> Start:
    found = Trajectory.objects.visible_to(user).select_related("group", "run").filter(slug=slug[:24]).first()
    if found is None or found.group.environment != name:
        raise Http404("There is no such trajectory, or it belongs to a team you are not in.")
    config = RunConfig.model_validate(found.run.config)
    settings = _settings(config, name, found.group.suite)
    if settings.get("path"):
        raise NoSuchStart("That state comes from a file of the worker, which these pages do not read.")
    budgets = _budgets(config, spec, name, found.group.suite)
    return Start(name, f"of={found.slug}", found.group.seed, *budgets, settings=settings, of=found.slug)


def _settings(config: RunConfig, name: str, suite: str) -> dict[str, Any]:
    if suite in config.evaluation.suites:
        return parse_suite(suite)[1]
    if name == config.environment.name:
        return config.environment.settings
    return by_environment(config.environment.other_settings, "other_settings").get(name, {})


def _budgets(config: RunConfig, spec: EnvSpec, name: str, suite: str) -> tuple[int, int, int]:
    own = {
        "max_turns": spec.max_turns,
        "max_actions_per_turn": spec.max_actions_per_turn,
        "max_actions": spec.max_actions,
    }
    if suite not in config.evaluation.suites:
        if name == config.environment.name:
            own = {key: getattr(config.rollout, key) for key in own}
        else:
            own |= by_environment(config.environment.other_budgets, "other_budgets").get(name, {})
    return own["max_turns"], own["max_actions_per_turn"], own["max_actions"]
