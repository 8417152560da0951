"""Adapter for OpenEnv: environments on a server of that protocol, with actions and observations as text."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar

from gymnasium.error import ResetNeeded
from pydantic import Field, field_validator

from envs.adapters.observed_env import ObservedEnv
from envs.adapters.openenv_actions import ActionReader, UnreadableActionError
from envs.adapters.openenv_client import (
    ActionRefusedError,
    Observation,
    OpenEnvConnection,
    OpenEnvError,
    ServerDescription,
    describe_server,
    server_address,
)
from envs.adapters.packages import no_default_variant
from envs.adapters.variant_arguments import Arguments
from envs.base import EnvSettings, EnvSpec
from envs.support.reset_options import read_options
from envs.support.rng import SeededRng, Stream
from envs.text_roles import TextRole

SERVERS = "ECHOSCOPE_OPENENV_URLS"
"""Variable with the addresses of servers that are listed as variants, separated by commas."""
DEFAULT_TURNS = 20
MAX_TEXT = 20_000
"""Maximum characters of a state; longer observations are cut."""
RESERVED = ("seed", "episode_id")
"""Arguments of every reset that only the adapter sets."""
_MAX_SEED = 2**31
_descriptions: dict[str, ServerDescription] = {}
"""Descriptions by address, fetched once per process, before the processes of a run's environments are forked."""


class OpenEnvSettings(EnvSettings):
    """Settings of the adapter; the environment's settings are the server's, and its reset's `arguments`."""

    id: Annotated[str, TextRole.URL] = Field(
        "", description="Address of the server, as in http://localhost:8000.", max_length=300
    )
    action_field: Annotated[str, TextRole.PLAIN] = Field(
        "",
        description="Field of an action that the text of the agent fills; empty = the only one, or the only required "
        "one; with several, the agent writes a JSON object.",
        max_length=100,
    )
    observation_field: Annotated[str, TextRole.PLAIN] = Field(
        "", description="Field of an observation that the agent reads; empty = all of them.", max_length=100
    )
    arguments: Arguments = Field({}, description="Arguments of the server's reset besides the seed.", max_length=20)
    success: float = Field(
        1.0, description="An episode counts as successful if its last reward is at least this.", allow_inf_nan=False
    )
    timeout: float = Field(
        8.0,
        ge=0.1,
        le=3600,
        description="Seconds for an answer of the server; below the limit of a step.",
    )

    @field_validator("id")
    @classmethod
    def check_id(cls, value: str) -> str:
        """Require the address of a server."""
        return server_address(value) if value.strip() else ""

    @field_validator("arguments")
    @classmethod
    def check_arguments(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Require arguments that are not the adapter's."""
        if reserved := [name for name in value if name in RESERVED]:
            raise ValueError(f"{reserved[0]} is set for each episode by the adapter")
        return value


class OpenEnv(ObservedEnv):
    """An environment of an OpenEnv server, on which each episode is a separate session over a WebSocket.

    If the server is unavailable, hangs or breaks the protocol, the reset or step fails with a sentence.
    """

    Settings: ClassVar[type[EnvSettings]] = OpenEnvSettings
    settings: OpenEnvSettings

    @classmethod
    def describe(cls, settings: EnvSettings) -> EnvSpec:
        """Describe the environment without its server, which only the process of an episode connects to."""
        assert isinstance(settings, OpenEnvSettings)
        address = settings.id.partition("://")[2]
        return EnvSpec(
            name="OpenEnv",
            title=f"{address} (OpenEnv)" if address else "OpenEnv",
            summary="An environment of an OpenEnv server.",
            instruction="Reach the goal of the environment.",
            vocabulary={},
            actions=(),
            max_turns=DEFAULT_TURNS,
            max_actions_per_turn=1,
            max_actions=DEFAULT_TURNS,
            success=f"The episode ended with a reward of at least {settings.success:g}.",
        )

    @classmethod
    def replay_problem(cls, settings: EnvSettings) -> str:
        return "its states are on a server of OpenEnv, where actions may have effects that playing again would repeat"

    @classmethod
    def variants(cls) -> dict[str, str]:
        listed = [entry.strip().rstrip("/") for entry in os.environ.get(SERVERS, "").split(",")]
        return {address: "OpenEnv server" for address in listed if address}

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        if not self.settings.id:
            raise ValueError(no_default_variant("OpenEnv"))
        self.env_spec = self.describe(self.settings)
        self._connection: OpenEnvConnection | None = None

    def prepare(self) -> None:
        """Fetch the description of the server, if it answers; an unavailable server may be back at the next reset."""
        with suppress(OpenEnvError):
            self._server()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        read_options(options)
        if seed is None:
            seed = int(self.np_random.integers(2**62))
        self.close()
        self._connection = OpenEnvConnection(self.settings.id, self.settings.timeout)
        self._reader = self._action_reader(self._server())
        number = SeededRng(seed, Stream.START).below(_MAX_SEED)
        self._seen = self._connection.reset(seed=number, **self.settings.arguments)
        self._over, self._success = self._seen.done, False
        self._text = self._read(self._seen)
        return self._text, self._info(effective=False)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        previous_text = self._text_before_step()
        if self._connection is None:
            raise ResetNeeded("the environment was closed: call reset() before the next step()")
        try:
            self._seen = self._connection.step(self._reader.read(action))
        except (UnreadableActionError, ActionRefusedError) as error:
            self._text = f"{self._read(self._seen)}\nThe action had no effect: {error}"
            return self._text, 0.0, False, False, self._info(effective=False, valid=False)
        self._text = self._read(self._seen)
        self._over = self._seen.done
        self._success = self._over and self._seen.reward >= self.settings.success
        if self._over:
            self.close()  # frees the session for another trajectory
        return self._text, self._seen.reward, self._over, False, self._info(effective=self._text != previous_text)

    def close(self) -> None:
        """End the session at the server."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _server(self) -> ServerDescription:
        address = self.settings.id
        if address not in _descriptions:
            _descriptions[address] = describe_server(address, self.settings.timeout)
        return _descriptions[address]

    def _action_reader(self, server: ServerDescription) -> ActionReader:
        """Return the reader of the server's actions, and add their form to the instruction."""
        try:
            reader = ActionReader(server.action_schema, self.settings.action_field)
        except ValueError as error:
            raise OpenEnvError(f"the OpenEnv server {self.settings.id} cannot be played: {error}") from None
        task = server.about or self.describe(self.settings).instruction
        title = f"{server.name} (OpenEnv)" if server.name else self.env_spec.title
        self.env_spec = self.env_spec.model_copy(
            update={"title": title, "instruction": f"{task}\n{reader.instruction}"}
        )
        return reader

    def _read(self, seen: Observation) -> str:
        """Return the chosen field of an observation, the only field with text, or all fields by name."""
        if name := self.settings.observation_field:
            if name not in seen.fields:
                raise OpenEnvError(
                    f"observations of {self.settings.id} have no field {name!r}: choose among "
                    f"{', '.join(seen.fields) or 'none'} (setting observation_field)"
                )
            return _cut(_text(seen.fields[name]))
        shown = _shown(seen.fields)
        if len(shown) == 1:
            return _cut(_text(*shown.values()))
        return _cut("\n".join(f"{name}: {_text(value)}" for name, value in shown.items()) or "(no observation)")


def _shown(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an observation that are not empty."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}) and name != "metadata"}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
