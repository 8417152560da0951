"""Questions of arithmetic, with a calculator."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

from pydantic import Field

from envs.base import EnvSettings
from envs.support.arithmetic import ExpressionError, Operators, evaluate
from envs.support.rng import SeededRng
from envs.tools.calls import ToolCall
from envs.tools.tool import Tool, ToolError, text_tool
from envs.tools.tool_env import Task, ToolEnv, ToolSettings

MAX_DIGITS = 40
"""Maximum digits of a result; longer results are not answers to these questions."""


class CalculatorSettings(ToolSettings):
    """Settings of the questions."""

    terms: int = Field(2, ge=2, le=6, description="Numbers of an expression.")
    largest: int = Field(999, ge=9, le=999_999, description="Largest number of an expression.")
    operators: Operators = Field("+-*", description="Operators between the numbers.")


def calculate(expression: str) -> str:
    """Return the exact value of an expression, as a whole number or a fraction. Raises ToolError."""
    try:
        value = evaluate(expression.replace("×", "*").replace("−", "-").strip())
    except ExpressionError as error:
        raise ToolError(str(error)) from None
    if max(abs(value.numerator), value.denominator) >= 10**MAX_DIGITS:
        raise ToolError(f"the result has more than {MAX_DIGITS} digits")
    return str(value)


def calculator() -> Tool:
    """Return the tool `calculator(expression)`."""
    about = "Value of an arithmetic expression with + - * / ** and brackets."
    return text_tool("calculator", about, "expression", "Such as 12 * (3 + 4).", calculate)


class ToolCalculator(ToolEnv):
    """The value of an expression. With numbers of three digits, hardly any model answers without a call."""

    Settings: ClassVar[type[EnvSettings]] = CalculatorSettings
    settings: CalculatorSettings
    trusted = True
    about: ClassVar[dict[str, str]] = {
        "name": "ToolCalculator",
        "title": "Tools: calculator",
        "summary": "Answer a question of arithmetic with a calculator.",
        "instruction": "Answer the question with the number alone. The calculator helps.",
    }

    def make_tools(self) -> Sequence[Tool]:
        return [calculator()]

    def draw(self, rng: SeededRng) -> Task:
        settings = self.settings
        numbers = [2 + rng.below(settings.largest - 1) for _ in range(settings.terms)]
        signs = [rng.choice([sign for sign in settings.operators if sign != "/"]) for _ in numbers[1:]]
        expression = str(numbers[0]) + "".join(
            f" {sign} {number}" for sign, number in zip(signs, numbers[1:], strict=True)
        )
        value: Fraction = evaluate(expression)
        call = ToolCall("calculator", {"expression": expression})
        return Task(f"What is {expression}?", str(value), (call,))
