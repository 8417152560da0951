"""Rollout section of RunConfig: groups, budgets of an episode, prompt and sampling."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import field_validator

from envs.text_roles import TextRole
from envs.tools.call_formats import CallFormat
from trainer.config.base import Section, setting
from trainer.config.conditions import ONLY_TRAINING, TRAINS_NOT, NoEffect
from trainer.config.environment import BUDGETS

SYSTEM = "You solve tasks step by step."
"""Default system message; the pocket policy is warmed up with it."""
MAX_SYSTEM = 4000
"""Maximum number of characters in a system message."""
RESERVED_KWARGS = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "documents",
        "max_length",
        "messages",
        "padding",
        "raise_exception",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "strftime_now",
        "tokenize",
        "tokenizer_kwargs",
        "tools",
        "truncation",
    }
)
"""Arguments of the rendering that are not variables of a template, or that the trainer sets."""
OWN_BUDGET = "empty = as the environment recommends"
"""Help of the budgets. RunConfig fills them in, because this section has no access to the environment."""


class RolloutConfig(Section):
    """Rollout before each update: groups, budgets of an episode, sampling."""

    no_effect = (
        NoEffect(
            (TRAINS_NOT,),
            ONLY_TRAINING,
            ("groups", "group_size", "temperature", "max_staleness"),
        ),
    )

    groups: int = setting(8, "P: puzzles per iteration.", unit="groups", source="paper: 8", gt=0, le=4096)
    group_size: int = setting(16, "N: attempts at each puzzle.", unit="trajectories", source="paper: 16", gt=0, le=4096)
    max_turns: int = setting(
        5,
        f"Maximum turns of a trajectory; {OWN_BUDGET}, as for the other budgets.",
        unit="turns",
        source="paper: 5",
        gt=0,
        le=BUDGETS["max_turns"],
    )
    max_actions_per_turn: int = setting(
        5,
        f"Maximum actions executed per turn; {OWN_BUDGET}.",
        unit="actions",
        source="paper: 5",
        gt=0,
        le=BUDGETS["max_actions_per_turn"],
    )
    max_actions: int = setting(
        10,
        f"Maximum actions of a trajectory; {OWN_BUDGET}.",
        unit="actions",
        source="paper: 10",
        gt=0,
        le=BUDGETS["max_actions"],
    )
    max_response_tokens: int = setting(
        96, "Maximum length of a response; longer ones are cut.", unit="tokens", gt=0, le=16_384
    )
    temperature: float = setting(1.0, "Sampling temperature.", source="RAGEN code: 1.0", gt=0, le=10)
    think: bool = setting(True, "Prompt for a thought before the answer.", source="paper: on")
    format_line: Literal["auto", "placeholders", "words", "example", "paper"] = setting(
        "auto",
        "How the prompt explains the format of an answer. placeholders: one line with the tags around “thought” and "
        "“action”, which language models copy word by word; words: sentences without anything to copy; example: a "
        "solver's thought and actions in another puzzle where the environment has a demonstrator, and words; paper: "
        "the bracketed placeholders of the paper, repeated at each turn, after a task with the content of its prompts "
        "(Bandit, Sokoban, FrozenLake and their variants; others keep their own). auto: placeholders for the pocket "
        "policy, which was taught with them, and example for other models. Responses end after </answer>, except with "
        "placeholders; the end token that follows is not sampled and not trained on, as after a response that was cut.",
        source="paper: appendix E; RAGEN code: cuts responses after the answer",
        added=True,
    )
    system: Annotated[str, TextRole.PLAIN] = setting(
        SYSTEM,
        "System message before the task; empty = none, where some chat templates insert one of their own. The built-in "
        "pocket policy was taught with the default.",
        source="paper: appendix E",
        added=True,
    )
    chat_template_kwargs: Annotated[dict[str, Any], TextRole.PLAIN] = setting(
        {},
        "Variables of the model's chat template, as in enable_thinking=false (Qwen3).",
        added=True,
    )
    tool_calls: Literal[CallFormat, "auto", "native"] = setting(
        "auto",
        "How tools are called, in environments that have some: in the format of a family of models (hermes: also Qwen "
        "and Granite 4), or as an answer. auto: the one that reads a trial call as the model's chat template writes "
        "it, else answers, as for hosted models and the pocket policy. native: in the fields tools and tool_calls of a "
        "hosted model's API.",
        added=True,
    )
    max_staleness: int = setting(
        0,
        "Updates by which the weights that sampled a token may be behind those that it updates. 0: rollouts and "
        "updates take turns. Above 0, later rollouts are played during the update: needs cluster.rollout_actors and "
        "algorithm.tis_cap. Late updates overshoot sooner: about half of the optimizer.policy_lr of a run at 0.",
        unit="updates",
        source="AReaL: η",
        added=True,
        ge=0,
        le=64,
    )
    groups_per_session: int = setting(
        0,
        "Groups that an engine samples together; 0 = all that one engine plays. The last bits of log-probabilities "
        "depend on the rows of a batch: with the same number above 0, any number of engines gives identical runs.",
        unit="groups",
        added=True,
        ge=0,
        le=4096,
    )
    context_turns: int = setting(
        0,
        "Number of most recent turns kept in the prompt after the task (0 = all). Rewards, turn numbers and budgets "
        "still cover the whole dialogue.",
        unit="turns",
        source="RAGEN code: max_context_window",
        ge=0,
        le=100,
    )

    @field_validator("system")
    @classmethod
    def check_system(cls, value: str) -> str:
        """Require printable text of limited length; normalise line ends and surrounding white space."""
        text = value.replace("\r\n", "\n").strip()
        if len(text) > MAX_SYSTEM:
            raise ValueError(
                f"must have at most {MAX_SYSTEM} characters, not {len(text)}: a task belongs in environment.instruction"
            )
        for character in text:
            if character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cs"):
                raise ValueError(f"must not contain the control character {character!r}: remove it")
        return text

    @field_validator("chat_template_kwargs", mode="before")
    @classmethod
    def normalize_kwargs(cls, value: Any) -> Any:
        """Convert texts, as forms send them, to numbers and switches."""
        if isinstance(value, str):
            name, sign, given = value.partition("=")
            example = f"{name.strip()}: {given.strip()}" if sign else "enable_thinking: false"
            raise ValueError(f"must be a mapping of variables, as in {{{example}}}, not {value[:100]!r}")
        if not isinstance(value, Mapping):
            return value
        return {str(name): _scalar(given) for name, given in value.items()}

    @field_validator("chat_template_kwargs")
    @classmethod
    def check_kwargs(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Require names and plain values of variables that the trainer does not determine."""
        for name, given in value.items():
            if not name.isidentifier() or len(name) > 100:
                raise ValueError(f"{name[:100]!r} cannot be the name of a variable")
            if name in RESERVED_KWARGS:
                raise ValueError(f"may not set {name}, which the trainer determines")
            if not isinstance(given, bool | int | float | str) or (isinstance(given, float) and not isfinite(given)):
                raise ValueError(f"{name} must be a number, a text, true or false, not {given!r}")
        return value

    @property
    def trajectories(self) -> int:
        """Trajectories per iteration."""
        return self.groups * self.group_size

    @property
    def stops_at_answer(self) -> bool:
        """True if a response ends after its answer, of which a model that copies placeholders writes more than one."""
        return self.format_line not in ("auto", "placeholders")


_SWITCHES = {"true": True, "on": True, "false": False, "off": False, "": False}


def _scalar(given: Any) -> Any:
    """Convert a variable's text that is a number or a switch."""
    if not isinstance(given, str):
        return given
    if (word := given.strip().lower()) in _SWITCHES:
        return _SWITCHES[word]
    try:
        return int(word)
    except ValueError:
        return given
