"""Initial states of games: environment, settings, budgets and seeds.

A query names one: `prompt=38` of the fixed evaluation prompts, `seed=7` any state, `of=<slug>` that of a trajectory.
`id=Taxi-v4` before the first two chooses a variant of an adapter.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, QueryDict
from pydantic import ValidationError

from envs.base import EnvSpec
from trainer.config.evaluation import EVALUATION_SEED, EvaluationConfig
from trainer.config.removed import stored_config
from trainer.seeds import Purpose, derive
from webapp.runs.inputs import allowed_inputs
from webapp.trajectories.mistakes.budgets import get_budgets, get_settings
from webapp.trajectories.models import Trajectory

PROMPTS = EvaluationConfig().prompts
MAX_SEED = 2**31 - 1
KINDS = ("prompt", "seed", "of")


@dataclass(frozen=True)
class Start:
    """An initial state. `dynamics`: seed of later random events, default `seed`. `query` names it in URLs."""

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
    variant: str = ""

    @property
    def label(self) -> str:
        """Display name."""
        if self.prompt:
            return f"puzzle {self.prompt} of the evaluation"
        return "the puzzle of an attempt" if self.of else f"seed {self.seed}"

    @property
    def key(self) -> str:
        """Key among a user's games."""
        return f"{self.environment}?{self.query}"

    @property
    def budget(self) -> int:
        """Total number of actions, with every turn filled."""
        return min(self.max_actions, self.max_turns * self.max_actions_per_turn)


class NoSuchStart(ValueError):
    """The query names no playable state. The message gives the reason."""


def random_query(variant: str = "") -> str:
    """Query of a random prompt of the evaluation, which runs are evaluated on too."""
    return in_variant(variant, f"prompt={secrets.randbelow(PROMPTS) + 1}")


def in_variant(variant: str, query: str) -> str:
    """A query with the variant of an adapter, if there is one."""
    return f"{urlencode({'id': variant})}&{query}" if variant else query


def find_variant(user: Any, name: str, slug: str) -> str:
    """The variant of an adapter in which a trajectory was played, empty for the default one. Raises Http404."""
    trajectory = _visible(user, name, slug)
    try:
        config = stored_config(trajectory.run.config)
    except ValidationError:
        return ""
    return str(get_settings(config, name, trajectory.group.suite).get("id", ""))


def requested_start(query: QueryDict) -> str:
    """The start that a query or a form names, as `kind=value`; empty if it names none."""
    for kind in KINDS:
        value = query.get(kind, "").strip()
        if value:
            return f"{kind}={value}"
    return ""


def find(user: Any, spec: EnvSpec, name: str, query: str, variant: str = "") -> Start:
    """The start of the query. Raises NoSuchStart, or Http404 for a trajectory that the user may not see.

    Args:
        spec: of the environment, in that variant.
        query: `kind=value`.
        variant: of an adapter, empty for its default one; that of a trajectory is its own.
    """
    kind, _, value = query.partition("=")
    if kind == "of":
        return of_trajectory(_visible(user, name, value), spec)
    if not (value.isascii() and value.isdecimal() and len(value) < 11):
        raise NoSuchStart(f"“{value[:40]}” is not a {'puzzle' if kind == 'prompt' else 'seed'}: enter a whole number.")
    number = int(value)
    budgets = (spec.max_turns, spec.max_actions_per_turn, spec.max_actions)
    settings = {"id": variant} if variant else {}
    if kind == "seed":
        if number > MAX_SEED:
            raise NoSuchStart(f"A seed is at most {MAX_SEED:,}.")
        return Start(name, in_variant(variant, f"seed={number}"), number, *budgets, settings=settings, variant=variant)
    if not 1 <= number <= PROMPTS:
        raise NoSuchStart(f"The evaluation has the puzzles 1 to {PROMPTS}.")
    seed, dynamics = (
        derive(EVALUATION_SEED, Purpose.EVALUATION, purpose, number - 1)
        for purpose in (Purpose.INITIAL_STATE, Purpose.DYNAMICS)
    )
    return Start(
        name,
        in_variant(variant, f"prompt={number}"),
        seed,
        *budgets,
        dynamics=dynamics,
        settings=settings,
        prompt=number,
        variant=variant,
    )


def of_trajectory(trajectory: Trajectory, spec: EnvSpec) -> Start:
    """The initial state of a trajectory. Raises NoSuchStart. Select its group and run.

    Args:
        spec: of its environment.
    """
    name = trajectory.group.environment
    try:
        config = stored_config(trajectory.run.config)
    except ValidationError:
        raise NoSuchStart("This attempt is of a run of another version, whose settings are unknown here.") from None
    settings = get_settings(config, name, trajectory.group.suite)
    if allowed_inputs.names_files(name, settings):
        raise NoSuchStart("This puzzle comes from a file on the worker, which the site cannot read.")
    budgets = get_budgets(config, spec, name, trajectory.group.suite)
    return Start(name, f"of={trajectory.slug}", trajectory.group.seed, *budgets, settings=settings, of=trajectory.slug)


def _visible(user: Any, name: str, slug: str) -> Trajectory:
    trajectory = Trajectory.with_branches.visible_to(user).select_related("group", "run").filter(slug=slug[:24]).first()
    if trajectory is None or trajectory.group.environment != name:
        raise Http404("This attempt does not exist, or it belongs to a team you are not in.")
    return trajectory
