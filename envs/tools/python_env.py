"""Questions that a few lines of Python answer, with an interpreter as tool."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from typing import ClassVar

from pydantic import Field

from envs.base import EnvSettings
from envs.support.rng import SeededRng
from envs.tools.calls import ToolCall
from envs.tools.python_tool import PythonInterpreter
from envs.tools.tool import Tool
from envs.tools.tool_env import Task, ToolEnv, ToolSettings


class PythonSettings(ToolSettings):
    """Limits of the interpreter."""

    time_limit: float = Field(3.0, ge=0.5, le=8, description="Seconds that the code of a call may run.")
    memory: int = Field(256, ge=64, le=4096, description="MiB of memory that it may use.")


Example = tuple[str, str, str]
"""Question, code that prints the answer, answer."""


def _primes(rng: SeededRng) -> Example:
    low = 10 + rng.below(200)
    high = low + 50 + rng.below(300)
    count = sum(all(n % d for d in range(2, math.isqrt(n) + 1)) for n in range(low, high + 1))
    code = f"print(sum(all(n % d for d in range(2, n)) for n in range({low}, {high + 1})))"
    return f"How many prime numbers are there from {low} to {high}?", code, str(count)


def _digits(rng: SeededRng) -> Example:
    base, power = 2 + rng.below(8), 20 + rng.below(60)
    answer = sum(map(int, str(base**power)))
    code = f"print(sum(map(int, str({base}**{power}))))"
    return f"What is the sum of the decimal digits of {base} to the power of {power}?", code, str(answer)


def _days(rng: SeededRng) -> Example:
    start = datetime.date(1950, 1, 1) + datetime.timedelta(rng.below(20_000))
    end = start + datetime.timedelta(100 + rng.below(9000))
    code = f'from datetime import date\nprint((date.fromisoformat("{end}") - date.fromisoformat("{start}")).days)'
    return f"How many days are there from {start} to {end}?", code, str((end - start).days)


def _steps(rng: SeededRng) -> Example:
    start = 20 + rng.below(900)
    number, count = start, 0
    while number != 1:
        number, count = number // 2 if number % 2 == 0 else 3 * number + 1, count + 1
    code = f"n, k = {start}, 0\nwhile n != 1:\n    n, k = n // 2 if n % 2 == 0 else 3 * n + 1, k + 1\nprint(k)"
    question = "halve an even number, take three times an odd one plus one. How many steps lead from"
    return f"Repeat: {question} {start} to 1?", code, str(count)


def _divisor(rng: SeededRng) -> Example:
    factor = 2 + rng.below(300)
    first, second = factor * (100 + rng.below(900)), factor * (100 + rng.below(900))
    code = f"import math\nprint(math.gcd({first}, {second}))"
    return f"What is the greatest common divisor of {first} and {second}?", code, str(math.gcd(first, second))


KINDS: tuple[Callable[[SeededRng], Example], ...] = (_primes, _digits, _days, _steps, _divisor)


class ToolPython(ToolEnv):
    """Numbers that a short program computes. The code runs isolated, without network, files and other processes."""

    Settings: ClassVar[type[EnvSettings]] = PythonSettings
    settings: PythonSettings
    about: ClassVar[dict[str, str]] = {
        "name": "ToolPython",
        "title": "Tools: Python",
        "summary": "Answer a question with a few lines of Python.",
        "instruction": "Answer the question with the number alone. Run Python code to find it.",
    }

    def make_tools(self) -> Sequence[Tool]:
        interpreter = PythonInterpreter(self.settings.time_limit, self.settings.memory, self.settings.max_result)
        return [interpreter.tool()]

    def draw(self, rng: SeededRng) -> Task:
        question, code, answer = rng.choice(KINDS)(rng)
        return Task(question, answer, (ToolCall("python", {"code": code}),))
