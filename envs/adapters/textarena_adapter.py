"""Adapter for TextArena's games for one player."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from envs.adapters.boards.textarena_boards import draw_board
from envs.adapters.observed_env import ObservedEnv
from envs.adapters.packages import no_such_variant
from envs.adapters.variant_arguments import Arguments, as_key, from_key
from envs.base import EnvSettings, EnvSpec, GridBoard, TextBoard
from envs.support.global_random import OwnRandomness
from envs.support.reset_options import read_options
from envs.support.rng import Stream
from envs.text_roles import TextRole

MAX_TURNS = 100
DEFAULT_TURNS = 20
FULL_REWARD = 1.0
_VARIANTS = ("-raw", "-train")
"""Endings of the ids of the same games with other wrappers."""
_SINGLE_PLAYER = re.compile(r"\bSinglePlayerState\(")
_SEED = 0


class TextArenaSettings(EnvSettings):
    """Settings of the adapter; the game's settings are its `arguments`."""

    id: Annotated[str, TextRole.PLAIN] = Field(
        "TowerOfHanoi-v0", description="Id of a game for one player, as `textarena.make` reads it.", max_length=100
    )
    arguments: Arguments = Field({}, description="Arguments of the game, as in num_disks=4.", max_length=20)

    @field_validator("id")
    @classmethod
    def check_id(cls, value: str) -> str:
        """Require a registered game for one player."""
        if value not in TextArena.variants():
            if value in _registered():
                raise ValueError(f"{value} is not a game for one player, or a variant with other wrappers")
            raise ValueError(no_such_variant("TextArena", value, TextArena.variants()))
        return value

    @model_validator(mode="after")
    def check_game(self) -> Self:
        """Require a game that can be made."""
        _description(self.id, as_key(self.arguments))
        return self


def _registered() -> dict[str, Any]:
    import_module("textarena")
    registry: dict[str, Any] = import_module("textarena.envs.registration").ENV_REGISTRY
    return registry


@lru_cache(maxsize=256)
def _is_for_one(entry_point: str) -> bool:
    """Return True if a game's module uses the state for one player, according to its source: importing some modules
    downloads data."""
    root = import_module("textarena").__file__
    _, *parts = entry_point.partition(":")[0].split(".")
    source = Path(root or "").parent.joinpath(*parts).with_suffix(".py")
    return source.is_file() and bool(_SINGLE_PLAYER.search(source.read_text(encoding="utf-8")))


def _make(game: str, arguments: Mapping[str, Any]) -> Any:
    """Make the game without wrappers. Raises ValueError if it cannot be made."""
    package = import_module("textarena")
    try:
        made = package.make(game, **arguments)
        while isinstance(made, package.Wrapper):  # they put the whole conversation into every observation
            made = made.env
        return made
    except LookupError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{game} needs data that are not on this machine: {reason[:300]}") from None
    except Exception as error:  # noqa: BLE001 - code of other packages: its error is the reason of the refusal
        raise ValueError(f"{game} cannot be made: {type(error).__name__}: {error}") from None


def _reset(game: Any, seed: int) -> None:
    game.reset(num_players=1, seed=seed)


@lru_cache(maxsize=256)
def _description(game: str, arguments: str) -> EnvSpec:
    """Describe a game. Raises ValueError if it cannot be made or started."""
    made = _make(game, from_key(arguments))
    try:
        with OwnRandomness(_SEED, Stream.START).installed():
            _reset(made, _SEED)
    except Exception as error:  # noqa: BLE001 - as above
        raise ValueError(f"{game} cannot be started: {type(error).__name__}: {error}") from None
    limit = made.state.max_turns
    turns = min(int(limit), MAX_TURNS) if limit else DEFAULT_TURNS
    title = game.partition("-v")[0]
    return EnvSpec(
        name="TextArena",
        title=f"{game} (TextArena)",
        summary=f"The game {title} of TextArena.",
        instruction=_rules(_messages(made)),
        vocabulary={},
        actions=(),
        max_turns=turns,
        max_actions_per_turn=1,
        max_actions=turns,
        success="The game ended with its full reward.",
    )


def _messages(game: Any) -> list[tuple[str, str]]:
    """Return (kind, text) of the messages to the player since the last call."""
    _, messages = game.get_observation()
    return [(kind.name, str(text).strip("\n")) for _, text, kind in messages]


def _rules(messages: list[tuple[str, str]]) -> str:
    return "\n".join(text for kind, text in messages if kind == "PROMPT") or "Play the game."


class TextArena(ObservedEnv):
    """A game for one player.

    Its opening messages, with the rules, are the instruction; states are its messages since the last action, below its
    newest board."""

    Settings: ClassVar[type[EnvSettings]] = TextArenaSettings
    settings: TextArenaSettings

    @classmethod
    def describe(cls, settings: EnvSettings) -> EnvSpec:
        assert isinstance(settings, TextArenaSettings)
        return _description(settings.id, as_key(settings.arguments))

    @classmethod
    @lru_cache(maxsize=1)
    def variants(cls) -> dict[str, str]:
        return {
            name: spec.entry_point.split(".")[2]
            for name, spec in _registered().items()
            if isinstance(spec.entry_point, str) and not name.endswith(_VARIANTS) and _is_for_one(spec.entry_point)
        }

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        self.env_spec = self.describe(self.settings)
        self._game = _make(self.settings.id, self.settings.arguments)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**62))
        dynamics = read_options(options).get("dynamics_seed")
        with OwnRandomness(seed, Stream.START).installed():
            _reset(self._game, seed)
            messages = _messages(self._game)
        self._randomness = OwnRandomness(seed if dynamics is None else int(dynamics), Stream.DYNAMICS)
        self.env_spec = self.env_spec.model_copy(update={"instruction": _rules(messages)})
        self._board, self._over, self._success = "", False, False
        self._text = self._read(messages)
        return self._text, self._info(effective=False)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._text_before_step()
        state = self._game.state
        errors = state.error_count
        with self._randomness.installed():
            done, _ = self._game.step(action=action)
            messages = _messages(self._game)
        self._over = bool(done)
        reward = 0.0
        if self._over:
            rewards, _ = self._game.close()
            value = (rewards or {}).get(0, 0.0)
            reward = float(value) if isinstance(value, int | float) else 0.0  # a few games give the reason in its place
            self._success = reward >= FULL_REWARD
        self._text = self._read(messages)
        return self._text, reward, self._over, False, self._info(effective=state.error_count <= errors)

    def board(self) -> GridBoard | TextBoard:
        """Return the game's grid if it has one, else the newest text."""
        text = super().board()
        return draw_board(self._game) or text

    def _read(self, messages: list[tuple[str, str]]) -> str:
        boards = [text for kind, text in messages if kind == "GAME_BOARD"]
        self._board = boards[-1] if boards else self._board
        news = [text for kind, text in messages if kind not in ("PROMPT", "PLAYER_ACTION", "GAME_BOARD") and text]
        if self._over and (reason := self._game.state.game_info[0].get("reason")):
            news.append(str(reason))
        return "\n".join(part for part in [self._board, *news] if part) or "The game begins."
