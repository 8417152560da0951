"""Integer arithmetic as text: exact evaluation of an expression, and search for an expression with a given value.

Python's evaluator is not used, so that any text costs bounded time and memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Literal

MAX_LENGTH = 1000
"""Maximum length of an expression in characters."""
MAX_DEPTH = 50
"""Maximum nesting of brackets and powers."""
MAX_BITS = 4096
"""Maximum size of numerators and denominators in bits."""

_TOKEN = re.compile(r"[0-9]+|\*\*|//|[-+*/%()]")
_BLANK = " \t"
_SUM, _PRODUCT, _ATOM = 1, 2, 3
_MAX_TABLE_NUMBERS = 3

Operators = Literal["+-", "+-*", "+-*/"]
STAGES: tuple[Operators, ...] = ("+-", "+-*", "+-*/")
"""Operators of the search, simplest first."""


class ExpressionError(ValueError):
    """Text that is not an expression, or whose value exceeds the limits. The message says why."""


def evaluate(text: str) -> Fraction:
    """Return the exact value of an expression of integers, + - * / // % **, signs and brackets, with Python's grammar.

    Raises ExpressionError for anything else: other characters, numbers with a leading zero, division by zero, an
    exponent that is not whole, values beyond MAX_BITS, text beyond MAX_LENGTH, nesting beyond MAX_DEPTH.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"the expression has {len(text)} characters: at most {MAX_LENGTH} are read")
    return _Parser(_tokens(text)).value()


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    while position < len(text):
        if text[position] in _BLANK:
            position += 1
            continue
        match = _TOKEN.match(text, position)
        if match is None:
            raise ExpressionError(f"{text[position]!r} is not allowed in an expression")
        tokens.append(match.group())
        position = match.end()
    return tokens


class _Parser:
    """Recursive descent over tokens, one method per level of precedence."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def value(self) -> Fraction:
        value = self._sum()
        if self._peek():
            raise ExpressionError(f"{self._peek()!r} follows the end of the expression")
        return value

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self, choices: Iterable[str]) -> str:
        """Consume the next token if it is among the choices. Returns the token, else ""."""
        token = self._peek()
        if token not in choices:
            return ""
        self._next += 1
        return token

    def _sum(self) -> Fraction:
        value = self._product()
        while operator := self._take(("+", "-")):
            value = _apply(operator, value, self._product())
        return value

    def _product(self) -> Fraction:
        value = self._signed()
        while operator := self._take(("*", "/", "//", "%")):
            value = _apply(operator, value, self._signed())
        return value

    def _signed(self) -> Fraction:
        sign = 1
        while operator := self._take(("+", "-")):
            sign = -sign if operator == "-" else sign
        return sign * self._power()

    def _power(self) -> Fraction:
        base = self._atom()
        if not self._take(("**",)):
            return base
        self._deeper()
        value = _power(base, self._signed())
        self._depth -= 1
        return value

    def _atom(self) -> Fraction:
        if self._take(("(",)):
            self._deeper()
            value = self._sum()
            self._depth -= 1
            if not self._take((")",)):
                raise ExpressionError("a bracket is not closed")
            return value
        token = self._peek()
        if not token.isdigit():
            raise ExpressionError(f"{token!r} is in the place of a number" if token else "a number is missing")
        if token[0] == "0" and token.strip("0"):
            raise ExpressionError(f"{token} starts with a zero")
        self._next += 1
        return _bounded(Fraction(int(token)))

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(f"more than {MAX_DEPTH} nested brackets or powers")


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ExpressionError("a number becomes too large")
    return value


def _apply(operator: str, left: Fraction, right: Fraction) -> Fraction:
    if operator in ("/", "//", "%") and not right:
        raise ExpressionError("division by zero")
    match operator:
        case "+":
            return _bounded(left + right)
        case "-":
            return _bounded(left - right)
        case "*":
            return _bounded(left * right)
        case "/":
            return _bounded(left / right)
        case "//":
            return _bounded(Fraction(left // right))
    return _bounded(left % right)


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ExpressionError("an exponent must be a whole number")
    times = exponent.numerator
    if not base and times < 0:
        raise ExpressionError("division by zero")
    if base in (0, 1, -1):
        times = times % 2 + 2 * bool(times)  # a small exponent of the same parity, or zero
    longest = max(base.numerator.bit_length(), base.denominator.bit_length())
    if longest * abs(times) > MAX_BITS:
        raise ExpressionError("a number becomes too large")
    return _bounded(Fraction(base**times))


def signs_reach(numbers: Sequence[int], target: int) -> bool:
    """Return True if the numbers, each with a sign, sum to the target."""
    return any(
        sum(sign * number for sign, number in zip(signs, numbers, strict=True)) == target
        for signs in product((1, -1), repeat=len(numbers))
    )


def find_expression(numbers: Sequence[int], target: int, operators: Operators = "+-*/") -> str | None:
    """Find an expression that uses each number once and has the target as its value.

    Args:
        numbers: at least one integer ≥ 0; 4 take milliseconds, 6 up to about a second.
        target: the value, of any sign.
        operators: allowed operators; a minus before a bracket counts as "-".
    Returns:
        An expression with the simplest sufficient operators (+ and -, then *, then /); None if none exists (the search
        is exhaustive).
    """
    for allowed in STAGES[: STAGES.index(operators) + 1]:
        search = _ExpressionSearch(tuple(numbers), allowed)
        expression = search.text(search.all_numbers, Fraction(target))
        if expression is not None:
            return expression[0]
        expression = search.text(search.all_numbers, Fraction(-target))
        if expression is not None:
            return f"-{expression[0]}" if expression[1] == _ATOM else f"-({expression[0]})"
    return None


_Text = tuple[str, int]
"""An expression and the precedence of its loosest operator."""


class _ExpressionSearch:
    """Tables of all values of small sets of numbers, and backward search from the target through larger sets.

    Sets are bit masks over the numbers. Signs before numbers are not needed: they only negate values.
    """

    def __init__(self, numbers: tuple[int, ...], operators: Operators) -> None:
        self._numbers, self._operators = numbers, operators
        self.all_numbers = (1 << len(numbers)) - 1
        self.values = cache(self._values)

    def text(self, mask: int, target: Fraction) -> _Text | None:
        """Return an expression of the numbers in the mask with this value."""
        if mask.bit_count() <= _MAX_TABLE_NUMBERS:
            return self.values(mask).get(target)
        for large, small in self._splits(mask):
            for value, text in self.values(small).items():
                if not value and not target and "*" in self._operators:
                    return _join("*", self._sum_expression(large), text)
                for operator, operand, swapped in self._before(target, value):
                    expression = self.text(large, operand)
                    if expression is not None:
                        return _join(operator, text, expression) if swapped else _join(operator, expression, text)
        return None

    def _splits(self, mask: int) -> Iterator[tuple[int, int]]:
        """Yield all splits of the numbers in two, larger part first, ordered by the size of the smaller part."""
        parts = []
        part = (mask - 1) & mask
        while part:
            other = mask ^ part
            if (part.bit_count(), part) > (other.bit_count(), other):
                parts.append((part, other))
            part = (part - 1) & mask
        return iter(sorted(parts, key=lambda pair: pair[1].bit_count()))

    def _values(self, mask: int) -> dict[Fraction, _Text]:
        """Return all values of the numbers in the mask, with the first expression found for each."""
        if mask.bit_count() == 1:
            number = self._numbers[mask.bit_length() - 1]
            return {Fraction(number): (str(number), _ATOM)}
        values: dict[Fraction, _Text] = {}
        for part, other in self._splits(mask):
            pairs = list(product(self.values(part).items(), self.values(other).items()))
            for operator in self._operators:
                for (left, left_text), (right, right_text) in pairs:
                    if operator != "/" or right:
                        values.setdefault(_apply(operator, left, right), _join(operator, left_text, right_text))
                    if operator == "-" or (operator == "/" and left):
                        values.setdefault(_apply(operator, right, left), _join(operator, right_text, left_text))
        return values

    def _sum_expression(self, mask: int) -> _Text:
        """Return the sum of the numbers in the mask."""
        chosen = [str(number) for bit, number in enumerate(self._numbers) if mask >> bit & 1]
        return " + ".join(chosen), _SUM if len(chosen) > 1 else _ATOM

    def _before(self, target: Fraction, known: Fraction) -> Iterator[tuple[str, Fraction, bool]]:
        """Yield operator, missing operand and whether the known operand is on the left, for each way to the target.

        Equations that any operand satisfies (0 times it) are left out.
        """
        for operator in self._operators:
            match operator:
                case "+":
                    yield "+", target - known, False
                case "-":
                    yield "-", target + known, False
                    yield "-", known - target, True
                case "*":
                    if known:
                        yield "*", target / known, False
                case "/":
                    if known:
                        yield "/", target * known, False
                    if known and target:
                        yield "/", known / target, True


def _join(operator: str, left: _Text, right: _Text) -> _Text:
    level = _SUM if operator in "+-" else _PRODUCT
    left_text = f"({left[0]})" if left[1] < level else left[0]
    loose = right[1] < level or (operator in "-/" and right[1] == level)
    after = f"({right[0]})" if loose else right[0]
    return f"{left_text} {operator} {after}", level
