"""Adapter for verifiers: installed environments, with their questions, conversations and rewards."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from gymnasium.error import ResetNeeded
from pydantic import Field, field_validator, model_validator

from envs.adapters.observed_env import ObservedEnv
from envs.adapters.packages import no_default_variant, no_such_variant
from envs.adapters.variant_arguments import Arguments, as_key
from envs.adapters.verifiers_episode import Episode, dialogue_text
from envs.adapters.verifiers_loading import get_seats, installed, load, questions
from envs.adapters.verifiers_tools import EpisodeError, get_toolsets
from envs.base import CallRecord, EnvSettings, EnvSpec, TextBoard, ToolStepInfo
from envs.support.global_random import OwnRandomness
from envs.support.reset_options import read_options
from envs.support.rng import SeededRng, Stream
from envs.text_roles import TextRole
from envs.tools.tool import MAX_RESULT, Toolbox
from envs.tools.tool_env import call_text

DEFAULT_TURNS = 20
MAX_TURNS = 100
INSTRUCTION = "Answer the messages."


class VerifiersSettings(EnvSettings):
    """Settings of the adapter; the environment's settings are its `arguments`."""

    id: Annotated[str, TextRole.PLAIN] = Field(
        "", description="Id of an installed environment, as `vf-eval` of verifiers reads it.", max_length=100
    )
    arguments: Arguments = Field(
        {},
        description="Settings of the environment, of its taskset or of its tasks, as in split=test.",
        max_length=30,
    )
    questions: int = Field(1000, ge=1, le=1_000_000, description="Number of its first questions that are used.")
    max_turns: int = Field(
        0,
        ge=0,
        le=MAX_TURNS,
        description="Replies and calls after which an episode is ended and scored; 0 = as the environment says, else "
        "20.",
    )
    max_result: int = Field(
        MAX_RESULT, ge=20, le=MAX_RESULT, description="Characters of a tool's result that the policy reads."
    )
    success: float = Field(
        1.0, description="An episode counts as successful if its reward is at least this.", allow_inf_nan=False
    )

    @field_validator("id")
    @classmethod
    def check_id(cls, value: str) -> str:
        """Require an installed environment."""
        if value and value not in installed():
            raise ValueError(no_such_variant("Verifiers", value, installed()))
        return value

    @model_validator(mode="after")
    def check_environment(self) -> Self:
        """Require an environment that loads with these arguments and can be played."""
        if self.id:
            load(self.id, as_key(self.arguments))
        return self


class Verifiers(ObservedEnv):
    """An environment of verifiers: the seed chooses a question, the action is the agent's reply.

    Single-turn environments end with the reply; others answer it with a message. With tools, an action can be a call,
    as in `envs.tools.calls`, whose result is the next state. The reward comes at the end, as scored by tasks and
    environment.
    """

    Settings: ClassVar[type[EnvSettings]] = VerifiersSettings
    settings: VerifiersSettings
    variables: ClassVar[tuple[str, ...]] = ("HF_HOME", "HF_HUB_OFFLINE", "HF_DATASETS_CACHE", "HF_DATASETS_OFFLINE")

    @classmethod
    def describe(cls, settings: EnvSettings) -> EnvSpec:
        assert isinstance(settings, VerifiersSettings)
        turns = _turns(settings)
        return EnvSpec(
            name="Verifiers",
            title=f"{settings.id} (verifiers)" if settings.id else "Verifiers",
            summary=f"The environment {settings.id} of verifiers." if settings.id else "An environment of verifiers.",
            instruction=INSTRUCTION,
            vocabulary={},
            actions=(),
            max_turns=turns,
            max_actions_per_turn=1,
            max_actions=turns,
            success=f"The environment gave a reward of at least {settings.success:g}.",
        )

    @classmethod
    def replay_problem(cls, settings: EnvSettings) -> str:
        assert isinstance(settings, VerifiersSettings)
        tools = settings.id and get_toolsets(load(settings.id, as_key(settings.arguments)))
        return f"the tools of {settings.id} may have effects, which calling them again would repeat" if tools else ""

    @classmethod
    def variants(cls) -> dict[str, str]:
        return installed()

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        if not self.settings.id:
            raise ValueError(no_default_variant("Verifiers"))
        self.env_spec = self.describe(self.settings)
        self._episode: Episode | None = None
        self._toolbox = Toolbox([])

    def prepare(self) -> None:
        """Load the questions, once for all processes of a run."""
        self._questions()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**62))
        dynamics = read_options(options).get("dynamics_seed")
        tasks = self._questions()
        task = tasks[SeededRng(seed, Stream.START).below(len(tasks))]
        self.close()
        self._randomness = OwnRandomness(seed if dynamics is None else int(dynamics), Stream.DYNAMICS)
        self._episode = Episode(load(self.settings.id, as_key(self.settings.arguments)), task, _turns(self.settings))
        self._over = self._success = False
        messages = self._run("starting", self._episode.start)
        if self._episode.over:
            raise RuntimeError(f"{self.settings.id} ended an episode before the first reply")
        tools = self._episode.tools
        self._toolbox = Toolbox(tools, self.settings.max_result)
        changes = {"instruction": self._episode.system or INSTRUCTION, "tools": tuple(tool.spec for tool in tools)}
        self.env_spec = self.env_spec.model_copy(update=changes)
        self._text = self._question = self._board = self._run("showing the question", lambda: dialogue_text(messages))
        return self._text, self._info(effective=False)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        previous_text = self._text_before_step()
        if self._episode is None:
            raise ResetNeeded("the environment was closed: call reset() before the next step()")
        episode = self._episode
        call = self._run("calling a tool", lambda: self._toolbox.execute(action)) if self._toolbox.tools else None
        messages = self._run("answering", lambda: episode.reply(action if call is None else call))
        if call is not None:
            previous_text = call.result
            self._board = f"{self._question}\n\n{call_text(call, self._toolbox.specs)}"
        if not episode.over:
            self._text = self._run("answering", lambda: dialogue_text(messages))
            if call is None:
                self._question = self._board = self._text
            return self._text, 0.0, False, False, self._step_info(call)
        reward: float = self._run("scoring", lambda: episode.reward)
        self._over, self._success = True, reward >= self.settings.success
        self._text = f"{previous_text}\nScore: {reward:g}"
        self._board = f"{self._board}\nScore: {reward:g}"
        return self._text, reward, True, False, self._step_info(call)

    def board(self) -> TextBoard:
        """Return the newest message, and below it the last tool call with its result."""
        self.render()
        return TextBoard(text=self._board)

    def _step_info(self, call: CallRecord | None) -> dict[str, Any]:
        info = self._info(effective=call is None or not call.failed)
        return info if call is None else ToolStepInfo(**info, call=call).model_dump()

    def close(self) -> None:
        """Abandon an episode that is not over."""
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    def _questions(self) -> tuple[Any, ...]:
        return questions(self.settings.id, as_key(self.settings.arguments), self.settings.questions)

    def _run(self, doing: str, part: Any) -> Any:
        """Run code of the environment with its own generators. Raises RuntimeError with its reason."""
        try:
            with self._randomness.installed():
                return part()
        except EpisodeError as error:
            raise RuntimeError(f"{self.settings.id} cannot be played: {error}") from None
        except Exception as error:
            raise RuntimeError(f"{self.settings.id} failed while {doing}: {type(error).__name__}: {error}") from error


def _turns(settings: VerifiersSettings) -> int:
    """Return the number of replies and calls in an episode: one, or as many as settings and environment allow."""
    if not settings.id:
        return DEFAULT_TURNS
    env = load(settings.id, as_key(settings.arguments))
    (seat,) = get_seats(env).values()
    if type(env).__name__ == "SingleAgentEnv" and not get_toolsets(env):
        return 1
    return settings.max_turns or min(seat.max_turns or DEFAULT_TURNS, MAX_TURNS)
