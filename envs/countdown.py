"""Countdown environment: make an expression from all the numbers, each used once, that equals the target.

Reward: 1 for the target, 0.1 for the right numbers with another value or no value, 0 for other numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeGuard

from gymnasium.error import ResetNeeded
from pydantic import Field, model_validator

from envs.base import (
    ArmsBoard,
    Claim,
    EnvSettings,
    EnvSpec,
    GridBoard,
    Hint,
    PageBoard,
    StepInfo,
    TextBoard,
    TextEnv,
)
from envs.claims.countdown_claims import read_countdown_claims
from envs.spaces import AnyText, text_space
from envs.support.arithmetic import ExpressionError, Operators, evaluate, find_expression, signs_reach
from envs.support.json_records import RecordsError, read_records, stamp
from envs.support.reset_options import read_options
from envs.support.rng import SeededRng, Stream
from envs.text_roles import TextRole

RIGHT, WELL_FORMED, WRONG = 1.0, 0.1, 0.0
"""Rewards of an answer."""
TOLERANCE = Fraction(1, 10**5)
MAX_NUMBERS = 6
MAX_NUMBER = 10_000
MAX_TARGET = 1_000_000
MAX_ATTEMPTS = 10_000
"""Attempts to generate a problem before the settings are rejected as impossible."""

_DIGITS = re.compile(r"\d+")
_MAX_DIGITS = 100


class CountdownSettings(EnvSettings):
    """Settings of the problems."""

    min_numbers: int = Field(3, ge=2, le=MAX_NUMBERS, description="Fewest numbers of a problem.")
    max_numbers: int = Field(4, ge=2, le=MAX_NUMBERS, description="Most numbers of a problem.")
    smallest: int = Field(1, ge=1, le=MAX_NUMBER, description="Smallest number that is drawn.")
    largest: int = Field(99, ge=1, le=MAX_NUMBER, description="Largest number that is drawn.")
    min_target: int = Field(10, ge=0, le=MAX_TARGET, description="Smallest target.")
    max_target: int = Field(100, ge=0, le=MAX_TARGET, description="Largest target.")
    operators: Operators = Field(
        "+-*/", description="Operators with which every problem can be solved; an answer may use all."
    )
    path: Annotated[str | None, TextRole.PATH] = Field(
        None,
        max_length=1000,
        description="File of problems, JSONL or a JSON list, with the fields nums and target; empty = generated ones.",
    )

    @model_validator(mode="after")
    def possible(self) -> Self:
        for low, high in (("min_numbers", "max_numbers"), ("smallest", "largest"), ("min_target", "max_target")):
            if getattr(self, low) > getattr(self, high):
                raise ValueError(f"{low} {getattr(self, low)} is above {high} {getattr(self, high)}")
        count, largest = self.max_numbers, self.largest
        most = largest * count if self.operators == "+-" else max(largest * count, largest**count)
        if self.min_target > most:
            raise ValueError(f"no {count} numbers up to {largest} make {self.min_target}: lower min_target")
        return self


@dataclass(frozen=True)
class Problem:
    """Numbers to use, each once, and the value to reach."""

    numbers: tuple[int, ...]
    target: int

    def reward(self, answer: str) -> float:
        """Return the reward of an answer: 1, 0.1 or 0."""
        if not self._uses_the_numbers(answer):
            return WRONG
        try:
            return RIGHT if abs(evaluate(answer) - self.target) < TOLERANCE else WELL_FORMED
        except ExpressionError:
            return WELL_FORMED

    def _uses_the_numbers(self, answer: str) -> bool:
        """Return True if the numbers in the answer are exactly the problem's, in any order."""
        left = Counter(self.numbers)
        for match in _DIGITS.finditer(answer):
            digits = match.group()
            if len(digits) > _MAX_DIGITS or left[number := int(digits)] == 0:
                return False
            left[number] -= 1
        return not any(left.values())

    def solution(self, operators: Operators) -> str | None:
        """Return an expression with reward 1; None if there is none with these operators."""
        return _solution(self.numbers, self.target, operators)


@lru_cache(maxsize=4096)
def _solution(numbers: tuple[int, ...], target: int, operators: Operators) -> str | None:
    """Find a solution. Cached, since all trajectories of a group and every evaluation have the same problems."""
    if operators == "+-" and not signs_reach(numbers, target):
        return None
    return find_expression(numbers, target, operators)


def make_problem(rng: SeededRng, settings: CountdownSettings) -> Problem:
    """Make a problem whose target results from steps with integer values ≥ 0. Raises ValueError if none is found."""
    for _ in range(MAX_ATTEMPTS):
        count = settings.min_numbers + rng.below(settings.max_numbers - settings.min_numbers + 1)
        span = settings.largest - settings.smallest + 1
        numbers = tuple(settings.smallest + rng.below(span) for _ in range(count))
        target = _combine(rng, numbers, settings.operators)
        if settings.min_target <= target <= settings.max_target:
            return Problem(numbers, target)
    raise ValueError(
        f"no problem with a target from {settings.min_target} to {settings.max_target} was found in "
        f"{MAX_ATTEMPTS} attempts: widen the range of the target or of the numbers"
    )


def _combine(rng: SeededRng, numbers: tuple[int, ...], operators: Operators) -> int:
    """Return the value of a random expression of the numbers in which every step is an integer ≥ 0."""
    pool = list(numbers)
    while len(pool) > 1:
        first, other = rng.sample(pool, 2)
        pool.remove(first)
        pool.remove(other)
        large, small = max(first, other), min(first, other)
        steps = {"+": large + small, "-": large - small, "*": large * small}
        if small and large % small == 0:
            steps["/"] = large // small
        pool.append(steps[rng.choice([operator for operator in operators if operator in steps])])
    return pool[0]


def read_problems(path: Path) -> tuple[Problem, ...]:
    """Return the problems in a file, cached until it changes. Raises RecordsError naming file and line."""
    return _read_problems(path, stamp(path))


@lru_cache(maxsize=4)
def _read_problems(path: Path, _: tuple[int, int]) -> tuple[Problem, ...]:
    problems = tuple(_problem(path, line, record) for line, record in read_records(path))
    if not problems:
        raise RecordsError(
            path, None, 'contains no problem; write one per line, such as {"nums": [3, 5, 2], "target": 4}'
        )
    return problems


def _problem(path: Path, line: int, record: dict[str, Any]) -> Problem:
    numbers, target = record.get("nums"), record.get("target")
    if not isinstance(numbers, list) or not 1 <= len(numbers) <= MAX_NUMBERS:
        raise RecordsError(path, line, f"nums must be a list of 1 to {MAX_NUMBERS} whole numbers")
    if not all(_whole(number) and 0 <= number <= MAX_NUMBER for number in numbers):
        raise RecordsError(path, line, f"each of nums must be a whole number from 0 to {MAX_NUMBER}")
    if not _whole(target) or abs(target) > MAX_TARGET:
        raise RecordsError(path, line, f"target must be a whole number from -{MAX_TARGET} to {MAX_TARGET}")
    return Problem(tuple(numbers), target)


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


class Countdown(TextEnv):
    """Answer with one equation. `reset(options={"nums": [3, 5, 2], "target": 4})` poses a given problem."""

    Settings: ClassVar[type[EnvSettings]] = CountdownSettings
    settings: CountdownSettings
    trusted = True

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        self.env_spec = EnvSpec(
            name="Countdown",
            title="Countdown",
            summary="Make an equation from some numbers, each used once, that equals the target.",
            instruction="Write an expression that equals the target: every number once, + - * / and brackets.",
            vocabulary={},
            actions=(),
            max_turns=1,
            max_actions_per_turn=1,
            max_actions=1,
            success="The equation uses each number once and equals the target.",
        )
        self.action_space = AnyText()
        self.observation_space = text_space(
            ["Target: , nums: []0123456789-", "Your answer get points."], max_length=MAX_NUMBERS * 12 + 40
        )
        self._problem: Problem | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = read_options(options, {"nums": "a list of whole numbers", "target": "a whole number"})
        if seed is None:
            seed = int(self.np_random.integers(2**62))
        if "nums" in options:
            problem = Problem(tuple(map(int, options["nums"])), int(options["target"]))
            self._solution = problem.solution("+-*/")
        else:
            problem, self._solution = self._draw(SeededRng(seed, Stream.START))
        self._problem = problem
        self._answer: str | None = None
        self._paid = WRONG
        return self.render(), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        problem = self.problem
        if self._answer is not None:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        self._answer = action
        self._paid = problem.reward(action)
        return self.render(), self._paid, True, False, self._info()

    def render(self) -> str:
        """Return target and numbers, and after the answer its reward."""
        problem = self.problem
        if self._answer is not None:
            return f"Your answer get {self._paid:g} points."
        return f"Target: {problem.target}, nums: {list(problem.numbers)}"

    def board(self) -> TextBoard:
        """Return target and numbers, and after the answer the answer with its value."""
        problem = self.problem
        lines = [f"Target  {problem.target}", f"Numbers {' '.join(map(str, problem.numbers))}"]
        if self._answer is not None:
            lines += ["", self._verdict(self._answer)]
        return TextBoard(text="\n".join(lines))

    @classmethod
    def read_claims(cls, thought: str, board: GridBoard | ArmsBoard | PageBoard | TextBoard) -> list[Claim] | None:
        """Read claims about the target, the numbers, and the value of expressions."""
        return read_countdown_claims(thought, board)

    def hint(self) -> Hint:
        """Return an expression that equals the target; if there is none, a well-formed one. After the answer, say if it
        was right.
        """
        if self._answer is not None:
            if self._paid == RIGHT:
                return Hint(value=0.0, distance=0)
            return Hint(value=0.0, solvable="no", reason="the answer does not equal the target")
        if self._solution is None:
            expression = " + ".join(map(str, self.problem.numbers))
            reason = "no equation of these numbers equals the target"
            return Hint(actions=[expression], value=WELL_FORMED, solvable="no", reason=reason)
        return Hint(actions=[self._solution], value=RIGHT, distance=1)

    @property
    def problem(self) -> Problem:
        """Return the problem of this episode."""
        if self._problem is None:
            raise ResetNeeded("call reset() first")
        return self._problem

    def _draw(self, rng: SeededRng) -> tuple[Problem, str]:
        """Return a problem and its solution: generated, or a solvable problem from the file."""
        settings = self.settings
        if not settings.path:
            problem = make_problem(rng, settings)
            solution = problem.solution(settings.operators)
            assert solution is not None, problem
            return problem, solution
        problems = read_problems(Path(settings.path))
        tries = MAX_ATTEMPTS if settings.operators == "+-" else MAX_ATTEMPTS // 100
        for _ in range(tries):
            problem = rng.choice(problems)
            solution = problem.solution(settings.operators)
            if solution is not None:
                return problem, solution
        raise RecordsError(
            Path(settings.path),
            None,
            f"{tries} problems drawn from it have no solution with {settings.operators}: allow more",
        )

    def _verdict(self, answer: str) -> str:
        """Return the answer with its value, for the board."""
        text = answer if len(answer) <= 80 else f"{answer[:80]}…"
        if self._paid == WRONG:
            return f"{text}: not these numbers, each once"
        try:
            value = evaluate(answer)
        except ExpressionError as error:
            return f"{text}: {error}"
        exact = str(value) if max(value.numerator, value.denominator) < 10**12 else "a long number"
        return f"{text} = {exact}"

    def _info(self) -> dict[str, Any]:
        effective, success = self._paid > WRONG, self._paid == RIGHT
        return StepInfo(success=success, effective=effective, valid=True).model_dump()
