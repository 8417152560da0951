"""An environment that fails in every possible way, as set by its settings. For tests only."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from envs.base import EnvSettings, EnvSpec, Hint, StepInfo, TextBoard, TextEnv
from envs.spaces import ActionNames


class TroubleSettings(EnvSettings):
    """When (make, reset, step, render, board, hint, info; empty = never) and how it fails."""

    when: str = ""
    how: str = Field("loop", description="One of the functions below.")
    every: int = Field(1, description="Only where the dynamics seed is a multiple of this.")
    note: str = Field("", description="A file in which processes that were started are noted down.")


def loop() -> None:
    while True:
        pass


def sleep() -> None:
    time.sleep(3600)


def search() -> None:
    """Minutes in C without releasing Python's lock."""
    re.match(r"(a|aa|a?a)+$", "a" * 60 + "b")


def leave() -> None:
    os._exit(3)


def die() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def quit() -> None:
    sys.exit("enough")


def fail() -> None:
    raise RuntimeError("the pipe\nis broken")


class Trouble(TextEnv):
    """Counts its steps by the action "Go". By default it fails at the second call, and never right after a reset."""

    Settings: ClassVar[type[EnvSettings]] = TroubleSettings
    settings: TroubleSettings

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        self.env_spec = EnvSpec(
            name="Trouble",
            title="Trouble",
            summary="It breaks.",
            instruction="Go.",
            vocabulary={},
            actions=("Go",),
            max_turns=5,
            max_actions_per_turn=5,
            max_actions=10,
            success="It went eight steps.",
        )
        self.action_space = ActionNames(("Go",))
        self.steps, self.chosen, self.child = 0, True, 0
        if self.settings.note and self.settings.when == "make":
            self._note(os.getpid())
        self._trouble("make")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.chosen = (options or {}).get("dynamics_seed", 0) % self.settings.every == 0
        self.steps, self.seed = 0, seed
        if self.settings.note:
            self.child = subprocess.Popen(["sleep", "600"]).pid
            self._note(os.getpid(), self.child)
        self._trouble("reset")
        return self.render(), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == "Stop":
            return self.render(), 0.0, False, False, self._info() | {"valid": False}
        self.steps += 1
        if self.steps == 2:
            self._trouble("step")
        info = self._info()
        if self.steps == 2 and self.settings.when == "info" and self.chosen:
            del info["valid"]
        return self.render(), 1.0, self.steps == 8, False, info

    def render(self) -> str:
        self._trouble_later("render")
        return f"start {self.seed}, steps {self.steps}, \ud83d"

    def board(self) -> TextBoard:
        self._trouble_later("board")
        return TextBoard(text="o" * self.steps)

    def hint(self) -> Hint:
        self._trouble_later("hint")
        return Hint(actions=["Go"], distance=8 - self.steps)

    def _note(self, *processes: int) -> None:
        with Path(self.settings.note).open("a") as file:
            file.write(" ".join(map(str, processes)) + "\n")

    def _info(self) -> dict[str, Any]:
        return StepInfo(success=self.steps == 8, effective=True, valid=True).model_dump()

    def _trouble_later(self, now: str) -> None:
        if self.steps == 2:
            self._trouble(now)

    def _trouble(self, now: str) -> None:
        if self.settings.when == now and self.chosen:
            globals()[self.settings.how]()


class Silent(Trouble):
    """Never fails, and has a solver without advice."""

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        self.env_spec = self.env_spec.model_copy(update={"name": "Silent"})

    def render(self) -> str:
        return "..."

    def hint(self) -> Hint:
        return Hint(solvable="unknown")
