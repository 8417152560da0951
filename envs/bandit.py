"""Two-armed bandit environments: a low arm with a sure reward, a high arm with a rare large one.

The low arm pays a fixed amount; the high arm pays 1 with some probability, independent at every pull. An episode is one
pull. Success means that the high arm was pulled, whatever it paid.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from gymnasium.error import ResetNeeded
from pydantic import Field, model_validator

from envs.base import (
    Arm,
    ArmsBoard,
    Claim,
    EnvSettings,
    EnvSpec,
    GridBoard,
    Hint,
    PageBoard,
    TextBoard,
    TextEnv,
)
from envs.claims.bandit_claims import read_bandit_claims
from envs.spaces import ActionNames, text_space
from envs.support.reset_options import read_options
from envs.support.rng import SeededRng, Stream, dynamics_rng
from envs.text_roles import TextRole

HIGH_REWARD = 1.0


class BanditSettings(EnvSettings):
    """Settings of the two arms."""

    low_name: Annotated[str, TextRole.PLAIN] = Field(
        "Phoenix", min_length=1, max_length=40, description="Arm with the certain reward."
    )
    high_name: Annotated[str, TextRole.PLAIN] = Field(
        "Dragon", min_length=1, max_length=40, description="Arm that pays 1 or nothing."
    )
    low_reward: float = Field(
        0.15, ge=0, le=1, description="Reward of the low arm (paper: 0.15; its published code: 0.1)."
    )
    high_probability: float = Field(0.25, ge=0, le=1, description="Probability that the high arm pays 1.")

    @model_validator(mode="after")
    def distinct(self) -> Self:
        if self.low_name.strip().lower() == self.high_name.strip().lower():
            raise ValueError("the two arms need different names")
        for name in (self.low_name, self.high_name):
            if name != name.strip() or not name.isprintable() or set(name) & set("|<>"):
                raise ValueError(
                    f"{name!r} cannot be the name of an arm: remove |, < and >, line breaks and surrounding spaces"
                )
        return self


class Bandit(TextEnv):
    """Pull one of two arms. The seed determines the order of the names, both in the text and among the actions."""

    Settings: ClassVar[type[EnvSettings]] = BanditSettings
    trusted = True
    settings: BanditSettings
    NAME: ClassVar[str] = "Bandit"
    SUMMARY: ClassVar[str] = "Choose between an arm that pays little for sure and one that pays much but rarely."

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        arms = (self.settings.low_name, self.settings.high_name)
        self.env_spec = EnvSpec(
            name=self.NAME,
            title=self.NAME,
            summary=self.SUMMARY,
            instruction="Pull one arm: one pays little but surely, the other much but rarely. Their names are a clue.",
            paper_instruction=_paper_instruction(*arms),
            vocabulary={},
            actions=tuple(sorted(arms)),
            max_turns=1,
            max_actions_per_turn=1,
            max_actions=1,
            success="The arm that pays much, but rarely, was pulled.",
        )
        self.action_space: ActionNames = ActionNames(self.env_spec.actions)
        self.observation_space = text_space([*arms, "Arms: , points.0123456789-e"], max_length=120)
        self._arms: list[str] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = read_options(options)
        if seed is None:
            seed = int(self.np_random.integers(2**62))
        arms = [self.settings.low_name, self.settings.high_name]
        self._arms = SeededRng(seed, Stream.START).sample(arms, 2)
        order = {"actions": tuple(self._arms), "paper_instruction": _paper_instruction(*self._arms)}
        self.env_spec = self.env_spec.model_copy(update=order)
        self._dynamics = dynamics_rng(seed, options)
        self._pulled: str | None = None
        self._paid = 0.0
        return self.render(), self._info(valid=True)

    def reseed(self, seed: int) -> None:
        self._dynamics = SeededRng(seed, Stream.DYNAMICS)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not self._arms:
            raise ResetNeeded("call reset() first")
        if self._pulled is not None:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        name = self.action_space.action_name(action)
        if name is None:
            return self.render(), 0.0, False, False, self._info(valid=False)
        self._pulled = name
        if name == self.settings.low_name:
            self._paid = self.settings.low_reward
        else:
            self._paid = HIGH_REWARD * (self._dynamics.uniform() < self.settings.high_probability)
        return self.render(), self._paid, True, False, self._info(valid=True)

    def render(self) -> str:
        """Describe the arms in order, and after the pull its reward."""
        if self._pulled is not None:
            return f"{self._pulled}: {self._paid} points"
        return f"Arms: {', '.join(self._arms)}"

    def board(self) -> ArmsBoard:
        """Return the arms in the order of the text."""
        return ArmsBoard(
            arms=[
                Arm(name=name, pulls=1, total=self._paid, last=self._paid) if name == self._pulled else Arm(name=name)
                for name in self._arms
            ]
        )

    @classmethod
    def read_claims(cls, thought: str, board: GridBoard | ArmsBoard | PageBoard | TextBoard) -> list[Claim] | None:
        """Read claims about names, order, pulls and payments of the arms."""
        return read_bandit_claims(thought, board)

    def hint(self) -> Hint:
        """Return the arm with the higher expected value, and that value; after the pull, whether it was that arm."""
        if self._pulled == self.settings.low_name:
            return Hint(value=0.0, solvable="no", reason="the low arm was pulled")
        if self._pulled is not None:
            return Hint(value=0.0, distance=0)
        expected = {
            self.settings.low_name: self.settings.low_reward,
            self.settings.high_name: HIGH_REWARD * self.settings.high_probability,
        }
        value = max(expected.values())
        return Hint(actions=[name for name in self._arms if expected[name] == value], value=value)

    def _info(self, *, valid: bool) -> dict[str, Any]:
        success = self._pulled == self.settings.high_name
        pulled = self._pulled is not None
        return {"success": success, "effective": pulled, "valid": valid, "actual": None}  # fields of StepInfo


def _paper_instruction(first: str, second: str) -> str:
    """Return the content of the paper's prompt (appendix E.1), in which only the names hint at the arms' pay."""
    return (
        f"This is a game with a bandit: earn as much as you can by your choice of an arm. There are two arms, {first} "
        f"and {second}. Each pays by a distribution of its own, which its name has to do with. Think about what each "
        "name stands for, to guess how that arm may pay. Then name the arm that you expect to pay more on average, "
        f"{first} or {second}: <answer>{first}</answer> or <answer>{second}</answer>."
    )


class BanditRevSettings(BanditSettings):
    """Settings of Bandit with exchanged names."""

    low_name: Annotated[str, TextRole.PLAIN] = Field(
        "Dragon", min_length=1, max_length=40, description="Arm with the certain reward."
    )
    high_name: Annotated[str, TextRole.PLAIN] = Field(
        "Phoenix", min_length=1, max_length=40, description="Arm that pays 1 or nothing."
    )


class BanditRev(Bandit):
    """Bandit with exchanged names, which mislead a policy that learned their meaning."""

    Settings = BanditRevSettings
    NAME = "BanditRev"
    SUMMARY = "Bandit with the names of its arms exchanged, for what a policy does when the clue turned round."


class BanditTestSettings(BanditSettings):
    """Settings of Bandit with other names."""

    low_name: Annotated[str, TextRole.PLAIN] = Field(
        "Librarian", min_length=1, max_length=40, description="Arm with the certain reward."
    )
    high_name: Annotated[str, TextRole.PLAIN] = Field(
        "Trader", min_length=1, max_length=40, description="Arm that pays 1 or nothing."
    )


class BanditTest(Bandit):
    """Bandit with names that a policy trained on Bandit has not seen."""

    Settings = BanditTestSettings
    NAME = "BanditTest"
    SUMMARY = "Bandit with arms of names that the policy did not train on."
