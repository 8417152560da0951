"""Base of environments with tools: a question, calls whose results are the next states, and one answer."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from gymnasium.error import ResetNeeded
from pydantic import Field

from envs.base import CallRecord, EnvSettings, EnvSpec, Hint, StepInfo, TextBoard, TextEnv, ToolSpec, ToolStepInfo
from envs.spaces import AnyText
from envs.support.json_records import RecordsError, read_records, stamp
from envs.support.reset_options import read_options
from envs.support.rng import SeededRng, Stream
from envs.tools.calls import ToolCall, compact_text
from envs.tools.tool import MAX_RESULT, Tool, Toolbox

MAX_QUESTION = 20_000
RIGHT, WRONG = "Correct!", "Incorrect."
UNREADABLE = "unreadable call"
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?")
_SHOWN = 400
"""Maximum characters of an answer on the board."""


class ToolSettings(EnvSettings):
    """Settings of all environments with tools."""

    max_calls: int = Field(3, ge=1, le=50, description="Calls that may precede the answer.")
    call_cost: float = Field(0.0, ge=0, le=1, description="What each call takes off the reward of 1.")
    max_result: int = Field(
        1000, ge=20, le=MAX_RESULT, description="Characters of a result that the policy reads; longer ones are cut."
    )


@dataclass(frozen=True)
class Task:
    """A question, its answer, and calls that lead to it, in order; none if they are unknown."""

    question: str
    answer: str
    calls: tuple[ToolCall, ...] = ()


def same_answer(one: str, other: str) -> bool:
    """Return True if two answers are equal: as numbers, else as text without case, white space and full stop."""
    numbers = _number(one), _number(other)
    if None not in numbers:
        return numbers[0] == numbers[1]
    return _normalized(one) == _normalized(other)


def _number(text: str) -> Fraction | None:
    text = text.strip().rstrip(".")
    return Fraction(text.replace(",", "")) if len(text) <= 100 and _NUMBER.fullmatch(text) else None


def _normalized(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


def read_tasks(path: Path) -> tuple[Task, ...]:
    """Return the questions in a file, cached until it changes. Raises RecordsError naming file and line."""
    return _read_tasks(path, stamp(path))


@lru_cache(maxsize=4)
def _read_tasks(path: Path, _: tuple[int, int]) -> tuple[Task, ...]:
    tasks = []
    for line, record in read_records(path):
        question, answer = record.get("question"), record.get("answer")
        if not isinstance(question, str) or not question.strip() or len(question) > MAX_QUESTION:
            raise RecordsError(path, line, f"question must be a text of 1 to {MAX_QUESTION} characters")
        if not isinstance(answer, str | int | float) or isinstance(answer, bool) or not str(answer).strip():
            raise RecordsError(path, line, "answer must be a text or a number")
        tasks.append(Task(question.strip(), str(answer).strip()))
    if not tasks:
        raise RecordsError(path, None, 'contains no question; write one per line: {"question": "…", "answer": "…"}')
    return tuple(tasks)


def call_text(call: CallRecord, specs: Mapping[str, ToolSpec]) -> str:
    """Return a call and its result, as shown by boards."""
    headline = compact_text(ToolCall(call.tool, call.arguments), specs) if call.tool else UNREADABLE
    return f"{'✗' if call.failed else '▸'} {headline}\n{call.result}"


class ToolEnv(TextEnv):
    """A question that is answered with tools.

    An action is a call, as in `envs.tools.calls`, or else the answer. The state after a call is its result, so that the
    dialogue contains the question and all results. The answer ends the episode: reward 1 if it is right, less the cost
    of calls. A call when only an answer is left ends the episode without reward.
    """

    Settings: ClassVar[type[EnvSettings]] = ToolSettings
    settings: ToolSettings
    about: ClassVar[dict[str, str]]
    """`name`, `title`, `summary` and `instruction` of the description."""

    @classmethod
    def describe(cls, settings: EnvSettings) -> EnvSpec:
        return cls(settings).env_spec

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        self._toolbox = Toolbox([], self.settings.max_result)
        budget = self.settings.max_calls + 1
        self.env_spec = EnvSpec(
            **self.about,
            vocabulary={},
            actions=(),
            max_turns=min(budget, 100),
            max_actions_per_turn=1,
            max_actions=budget,
            success="The answer is right.",
        )
        self._offer(self.make_tools())
        self.action_space = AnyText()
        self.observation_space = AnyText()
        self._task: Task | None = None

    @abstractmethod
    def make_tools(self) -> Sequence[Tool]:
        """Return the tools; empty if they are known only at a reset."""

    @abstractmethod
    def draw(self, rng: SeededRng) -> Task:
        """Return the task of an episode."""

    def _offer(self, tools: Sequence[Tool]) -> None:
        """Let the policy call these tools from the next action on."""
        self._toolbox = Toolbox(tools, self.settings.max_result)
        self.env_spec = self.env_spec.model_copy(update={"tools": tuple(tool.spec for tool in tools)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = read_options(options, {"question": "a text", "answer": "anything"})
        if seed is None:
            seed = int(self.np_random.integers(2**62))
        if "question" in options:
            self._task = Task(str(options["question"]), str(options["answer"]))
        else:
            self._task = self.draw(SeededRng(seed, Stream.START))
        self._calls: list[CallRecord] = []
        self._answer: str | None = None
        return self.render(), self._info(effective=False)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        task = self.task
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        call = self._toolbox.execute(action)
        if call is None:
            self._answer = action.strip()
            reward = 1.0 if same_answer(self._answer, task.answer) else 0.0
            return self.render(), reward, True, False, self._info(effective=True)
        self._calls.append(call)
        info = self._info(effective=not call.failed, call=call)
        return self.render(), -self.settings.call_cost, False, self._over, info

    def render(self) -> str:
        """Return the question; after a call its result; after the answer the verdict."""
        if self._answer is not None:
            return RIGHT if self._solved else WRONG
        return self._calls[-1].result if self._calls else self.task.question

    def board(self) -> TextBoard:
        """Return the question, the last call with its result, and the answer with its verdict."""
        parts = [self.task.question]
        if len(self._calls) > 1:
            parts.append(f"{len(self._calls) - 1} earlier call{'s' if len(self._calls) > 2 else ''}")
        parts += [call_text(call, self._toolbox.specs) for call in self._calls[-1:]]
        if self._answer is not None:
            shown = self._answer if len(self._answer) <= _SHOWN else f"{self._answer[:_SHOWN]}…"
            parts.append(f"Answer: {shown}\n{RIGHT if self._solved else WRONG}")
        return TextBoard(text="\n\n".join(parts))

    def hint(self) -> Hint:
        """Return the next call of the task that has no result yet, or the answer."""
        task = self.task
        if self._answer is not None:
            return Hint(distance=0) if self._solved else Hint(solvable="no", reason="the answer was wrong")
        if self._over:
            return Hint(solvable="no", reason="no tries are left")
        done = [(call.tool, call.arguments) for call in self._calls if not call.failed]
        left = [call for call in task.calls if (call.name, call.arguments) not in done]
        if len(left) > self.settings.max_calls - len(self._calls):
            left = []
        actions = [compact_text(left[0], self._toolbox.specs)] if left else [task.answer]
        return Hint(actions=actions, distance=len(left) + 1)

    @property
    def task(self) -> Task:
        """Return the task of this episode."""
        if self._task is None:
            raise ResetNeeded("call reset() first")
        return self._task

    @property
    def _over(self) -> bool:
        return self._answer is not None or len(self._calls) > self.settings.max_calls

    @property
    def _solved(self) -> bool:
        return self._answer is not None and same_answer(self._answer, self.task.answer)

    def _info(self, *, effective: bool, call: CallRecord | None = None) -> dict[str, Any]:
        info = StepInfo(success=self._solved, effective=effective, valid=True)
        return info.model_dump() if call is None else ToolStepInfo(**info.model_dump(), call=call).model_dump()
