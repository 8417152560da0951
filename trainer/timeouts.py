"""Time limits within a run. They depend on machines and networks, not on what is trained: an operator changes them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import isfinite

from envs.sandbox.client import TIMEOUT_VARIABLES

TIMEOUT_PREFIX = "ECHOSCOPE_TIMEOUT_"
"""Prefix of the environment variables that change the limits."""


@dataclass(frozen=True)
class Timeout:
    """A time limit: its environment variable, its default in seconds, and what it limits."""

    variable: str
    default: float
    meaning: str

    @property
    def seconds(self) -> float:
        """The current limit. Raises ValueError if the variable is not a positive number."""
        text = os.environ.get(self.variable, "").strip()
        try:
            seconds = float(text) if text else self.default
        except ValueError:
            seconds = 0.0
        if not (isfinite(seconds) and seconds > 0):
            raise ValueError(f"{self.variable} must be a number of seconds above 0, not {text!r}")
        return seconds

    def __str__(self) -> str:
        return f"{self.variable} = {self.seconds:g} seconds"


ENVIRONMENT_STEP = Timeout(
    TIMEOUT_VARIABLES["step_timeout"],
    10.0,
    "A reset or step of an environment that runs in a separate process (WebShop, environments of other packages). A "
    "longer one ends the trajectory.",
)
ENVIRONMENT_START = Timeout(
    TIMEOUT_VARIABLES["start_timeout"], 120.0, "Creating such an environment, with its modules and data."
)
ENGINE_SERVER = Timeout(
    "ECHOSCOPE_TIMEOUT_ENGINE_SERVER",
    300.0,
    "Unavailability of a server of `engine.urls`. Then the run ends.",
)
HOSTED_REQUEST = Timeout(
    "ECHOSCOPE_TIMEOUT_HOSTED_REQUEST", 120.0, "One request to a hosted model. It is then sent again."
)
HOSTED_WAIT = Timeout(
    "ECHOSCOPE_TIMEOUT_HOSTED_WAIT",
    60.0,
    "Pause before such a request is repeated. An endpoint that asks for a longer one ends the run.",
)
CLUSTER_START = Timeout(
    "ECHOSCOPE_TIMEOUT_CLUSTER_START", 600.0, "Waiting for the resources of a Ray cluster, and for actors to load."
)
CLUSTER_ACTOR = Timeout(
    "ECHOSCOPE_TIMEOUT_CLUSTER_ACTOR",
    1800.0,
    "A rollout actor without any turn, whose groups others then play, and learners without any progress, which then "
    "start again from the newest checkpoint.",
)
LEARNER_EXCHANGE = Timeout(
    "ECHOSCOPE_TIMEOUT_LEARNER_EXCHANGE", 1800.0, "Waiting of the learners for each other within an update."
)
TIMEOUTS = (
    ENVIRONMENT_STEP,
    ENVIRONMENT_START,
    ENGINE_SERVER,
    HOSTED_REQUEST,
    HOSTED_WAIT,
    CLUSTER_START,
    CLUSTER_ACTOR,
    LEARNER_EXCHANGE,
)


def check() -> None:
    """Raise ValueError if the variable of a limit is not a positive number."""
    for timeout in TIMEOUTS:
        _ = timeout.seconds
