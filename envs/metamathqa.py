"""MetaMathQA environment: a word problem with several attempts, each halving the reward.

Questions come from a file of the public data set, or are generated. Answers are compared as text without case and white
space.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from gymnasium.error import ResetNeeded
from pydantic import Field

from envs.base import EnvSettings, EnvSpec, Hint, StepInfo, TextBoard, TextEnv
from envs.spaces import AnyText
from envs.support.json_records import RecordsError, read_records, stamp
from envs.support.reset_options import read_options
from envs.support.rng import SeededRng, Stream
from envs.support.word_problems import Question, make_question
from envs.text_roles import TextRole

VARIABLE = "ECHOSCOPE_METAMATH_DATA"
"""Environment variable with the file of questions, used if the setting `path` is empty."""
MARK = "The answer is: "
RIGHT, WRONG = "Correct!", "Incorrect. Please think again."
MAX_QUESTION = 20_000

logger = logging.getLogger(__name__)


class MetaMathQASettings(EnvSettings):
    """Settings of questions and attempts."""

    max_tries: int = Field(5, ge=1, le=20, description="Answers after which the environment itself ends the episode.")
    path: Annotated[str | None, TextRole.PATH] = Field(
        None,
        max_length=1000,
        description=(
            "File of the public data set (a JSON list or JSONL with the fields query and response); "
            f"empty = the one that {VARIABLE} names, else generated word problems."
        ),
    )


@dataclass(frozen=True)
class Questions:
    """The questions in a file, and the number of its records without an answer."""

    questions: tuple[Question, ...]
    skipped: int


def extract_answer(response: str) -> str | None:
    """Return the text after the first "The answer is: " in a response; None without that mark."""
    _, mark, answer = response.partition(MARK)
    return answer.strip() if mark else None


def same_answer(one: str, other: str) -> bool:
    """Return True if two answers are equal without case and white space."""
    return _normalized(one) == _normalized(other)


def _normalized(text: str) -> str:
    return "".join(text.lower().split())


def read_questions(path: Path) -> Questions:
    """Return the questions in a file, cached until it changes. Raises RecordsError naming file and line."""
    return _read_questions(path, stamp(path))


@lru_cache(maxsize=2)
def _read_questions(path: Path, _: tuple[int, int]) -> Questions:
    questions, skipped = [], 0
    for line, record in read_records(path):
        question = _question(path, line, record)
        if question is None:
            skipped += 1
        else:
            questions.append(question)
    if not questions:
        problem = f"none of its {skipped} records has an answer: each response must end with {MARK!r} and the answer"
        raise RecordsError(path, None, problem)
    if skipped:
        logger.warning("%s: %d of %d records left out: no %r in them", path, skipped, skipped + len(questions), MARK)
    return Questions(tuple(questions), skipped)


def _question(path: Path, line: int, record: dict[str, Any]) -> Question | None:
    """Return the question in a record; None without an answer."""
    query, response = record.get("query"), record.get("response")
    if not isinstance(query, str) or not isinstance(response, str):
        raise RecordsError(path, line, "a record needs the texts query and response, as in the public data set")
    if not query.strip() or len(query) > MAX_QUESTION:
        raise RecordsError(path, line, f"query must have 1 to {MAX_QUESTION} characters")
    answer = extract_answer(response)
    return Question(query.strip(), answer) if answer else None


class MetaMathQA(TextEnv):
    """Answer a question in several attempts. `reset(options={"question": …, "answer": …})` sets a given question."""

    Settings: ClassVar[type[EnvSettings]] = MetaMathQASettings
    settings: MetaMathQASettings
    trusted = True

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        tries = self.settings.max_tries
        self.env_spec = EnvSpec(
            name="MetaMathQA",
            title="MetaMathQA",
            summary="Answer a mathematical question; every further try earns half as much.",
            instruction="Answer the question with the result alone. After a wrong answer you may try again.",
            vocabulary={},
            actions=(),
            max_turns=tries,
            max_actions_per_turn=1,
            max_actions=tries,
            success="An answer was right.",
        )
        self.action_space = AnyText()
        self.observation_space = AnyText()
        self._question: Question | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = read_options(options, {"question": "a text", "answer": "anything"})
        if seed is None:
            seed = int(self.np_random.integers(2**62))
        if "question" in options:
            self._question = Question(str(options["question"]), str(options["answer"] or ""))
        else:
            self._question = self._draw(SeededRng(seed, Stream.START))
        self._answers: list[str] = []
        self._solved = False
        return self.render(), self._info(valid=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        question = self.question
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        reward = self._current_reward
        self._answers.append(action)
        valid = bool(_normalized(action))
        self._solved = valid and same_answer(action, question.answer)
        out_of_tries = not self._solved and len(self._answers) == self.settings.max_tries
        info = self._info(valid=valid)
        return self.render(), reward if self._solved else 0.0, self._solved, out_of_tries, info

    def render(self) -> str:
        """Return the question, and after an answer also whether it was right."""
        text = self.question.text
        return f"{text}\n{RIGHT if self._solved else WRONG}" if self._answers else text

    def board(self) -> TextBoard:
        """Return the question and all answers with their verdicts."""
        last = len(self._answers) - 1
        lines = [
            f"{answer[:80]}{'…' if len(answer) > 80 else ''}: {'right' if self._solved and n == last else 'wrong'}"
            for n, answer in enumerate(self._answers)
        ]
        return TextBoard(text="\n".join([self.question.text, *([""] if lines else []), *lines]))

    def hint(self) -> Hint:
        """Return the answer and its reward now."""
        if self._solved:
            return Hint(value=0.0, distance=0)
        if self._over:
            return Hint(value=0.0, solvable="no", reason="no tries are left")
        return Hint(actions=[self.question.answer], value=self._current_reward, distance=1)

    @property
    def question(self) -> Question:
        """Return the question of this episode, with its answer."""
        if self._question is None:
            raise ResetNeeded("call reset() first")
        return self._question

    @property
    def _over(self) -> bool:
        return self._solved or len(self._answers) >= self.settings.max_tries

    @property
    def _current_reward(self) -> float:
        """Return the reward of a right answer now."""
        return 0.5 ** len(self._answers)

    def _draw(self, rng: SeededRng) -> Question:
        """Return a question from the file, or a generated one without a file."""
        path = self.settings.path or os.environ.get(VARIABLE)
        return rng.choice(read_questions(Path(path)).questions) if path else make_question(rng)

    def _info(self, *, valid: bool) -> dict[str, Any]:
        effective = valid and bool(self._answers)
        return StepInfo(success=self._solved, effective=effective, valid=valid).model_dump()
