"""Evaluation section of RunConfig, and the parser of suite names."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import field_validator

import envs
from envs.text_roles import TextRole
from trainer.config.base import Section, setting
from trainer.config.conditions import EVALUATES, NOTHING_TRAINED, NoEffect, is_zero
from trainer.config.environment import validated_settings

MAX_NAME_LENGTH = 60
EVALUATION_SEED = 123
"""Seed of the fixed puzzles, of their dynamics and of the sampling of responses in evaluations."""


class EvaluationConfig(Section):
    """Evaluation on fixed initial states."""

    no_effect = (
        NoEffect((EVALUATES,), NOTHING_TRAINED, ("every",)),
        NoEffect((is_zero("evaluation.prompts"),), "evaluation.prompts is 0: no evaluation", except_for=("prompts",)),
    )

    prompts: int = setting(
        256,
        "Number of fixed puzzles, the same in every run; more of them follow the first ones.",
        unit="prompts",
        source="paper: 256",
        ge=0,
        le=100_000,
    )
    every: int = setting(
        10, "Iterations between evaluations; 0 = only before and after training.", unit="iterations", ge=0
    )
    temperature: float = setting(0.5, "Sampling temperature of the evaluation.", source="paper: 0.5", ge=0, le=10)
    samples_per_prompt: int = setting(
        1,
        "Attempts at each puzzle; above 1 also measures pass@k.",
        unit="trajectories",
        gt=0,
        le=1024,
    )
    suites: Annotated[list[str], TextRole.ENVIRONMENT] = setting(
        [],
        "Further environments to evaluate in, from the same seeds, as in LargeSokoban, FrozenLake:size=5:slippery=off. "
        "Each uses its recommended budgets.",
        source="paper: generalisation tests",
    )

    @field_validator("suites")
    @classmethod
    def check_suites(cls, value: list[str]) -> list[str]:
        """Require suites of registered environments without duplicates."""
        for text in value:
            parse_suite(text)
        if len(set(value)) < len(value):
            raise ValueError("lists the same suite twice")
        return value


def parse_suite(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a suite such as `FrozenLake` or `FrozenLake:size=5:slippery=off` into environment and settings.

    Raises:
        ValueError: unknown environment or setting, or a name that cannot be part of a metric's name.
    """
    name, *pairs = text.split(":")
    if name not in envs.names():
        raise ValueError(
            envs.unknown(name)
            if name in envs.missing_adapters()
            else f"unknown environment {name!r} in {text!r}; choose one of {', '.join(envs.names())}"
        )
    if "/" in text or len(text) > MAX_NAME_LENGTH:
        raise ValueError(f"{text!r} cannot name a suite: at most {MAX_NAME_LENGTH} characters, and no '/'")
    settings = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator:
            raise ValueError(f"{text!r}: write settings of a suite as {name}:setting=value, not {pair!r}")
        settings[key.strip()] = value.strip()
    try:
        return name, validated_settings(name, settings)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
