"""Expressions: values as in Python, bounded refusal of everything else, and the search."""

import operator
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.support import arithmetic
from envs.support.arithmetic import STAGES, ExpressionError, evaluate, find_expression, signs_reach

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


@st.composite
def expressions(draw, depth=4):
    """An expression as text, with spaces, signs and brackets, and its value; None where it divides by zero."""
    if depth == 0 or draw(st.booleans()):
        number = draw(st.integers(0, 99))
        return str(number), Fraction(number)
    kind = draw(st.sampled_from(["sign", "brackets", "binary", "binary"]))
    text, value = draw(expressions(depth=depth - 1))
    match kind:
        case "sign":
            return f"(-{text})" if text.isdigit() else f"(-({text}))", None if value is None else -value
        case "brackets":
            return f"( {text} )", value
    sign = draw(st.sampled_from(["+", "-", "*", "/", "//", "%"]))
    other, second = draw(expressions(depth=depth - 1))
    written = f"({text}){draw(st.sampled_from([sign, f' {sign} ']))}({other})"
    if value is None or second is None or (sign in ("/", "//", "%") and second == 0):
        return written, None
    operations = OPERATIONS | {"//": operator.floordiv, "%": operator.mod}
    return written, Fraction(operations[sign](value, second))


@given(expressions())
def test_an_expression_has_its_exact_value(made):
    text, value = made
    if value is None:
        with pytest.raises(ExpressionError, match="division by zero"):
            evaluate(text)
    else:
        assert evaluate(text) == value


@given(st.text("0123456789+-*/%() ", max_size=12))
def test_parsed_expressions_have_the_values_of_python(text):
    try:
        ours = evaluate(text)
        theirs = eval(text.strip(), {"__builtins__": {}}, {})  # the alphabet above can write nothing but arithmetic
    except (ExpressionError, OverflowError):  # beyond the limits, or beyond Python's floats
        return
    assert theirs == (ours if isinstance(theirs, int) else pytest.approx(float(ours), rel=1e-9))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 5 - 3", 4),
        ("25*4-10", 90),
        ("8/2", 4),
        ("8 - 2 - 1", 5),
        ("8 / 4 / 2", 1),
        ("-2 ** 2", -4),
        ("2 ** 3 ** 2", 512),
        ("2 ** -1", Fraction(1, 2)),
        ("--3", 3),
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("1 / 3 + 1 / 3 + 1 / 3", 1),
        ("\t(1)\t", 1),
        ("00", 0),
        ("1 ** 99999999999999999999", 1),
        ("(-1) ** 99999999999999999999", -1),
        ("0 ** 99999999999999999999", 0),
        ("0 ** 0", 1),
    ],
)
def test_precedence_signs_and_powers_follow_python(text, value):
    assert evaluate(text) == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "a number is missing"),
        ("2 +", "a number is missing"),
        ("2+5-3)", r"'\)' follows the end of the expression"),
        ("(2", "a bracket is not closed"),
        ("2 3", "'3' follows the end of the expression"),
        ("* 2", r"'\*' is in the place of a number"),
        ("03", "03 starts with a zero"),
        ("2.5", r"'\.' is not allowed"),
        ("25 × 4", "'×' is not allowed"),
        ("٣", "is not allowed"),
        ("2\n+3", "is not allowed"),
        ("__import__('os')", "'_' is not allowed"),
        ("1 / (2 - 2)", "division by zero"),
        ("1 // 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("4 ** (1 / 2)", "exponent must be a whole number"),
        ("9 ** 9 ** 9", "a number becomes too large"),
        ("9 ** -99999", "a number becomes too large"),
        ("(9 ** 1000) ** 1000", "a number becomes too large"),
        ("2 ** 4000 * 2 ** 4000", "a number becomes too large"),
        ("1" * 1001, "has 1001 characters"),
        ("(" * 51 + "1" + ")" * 51, "more than 50 nested brackets"),
        ("2**" * 60 + "1", "more than 50 nested brackets or powers"),
    ],
)
def test_everything_else_is_refused_with_a_message(text, complaint):
    with pytest.raises(ExpressionError, match=complaint):
        evaluate(text)


@given(st.one_of(st.text(), st.text("0123456789+-*/%() .\n", max_size=1100), st.text("(-*9", min_size=200)))
def test_any_text_has_a_value_within_bounds_or_an_expression_error(text):
    try:
        value = evaluate(text)
    except ExpressionError:
        return
    assert max(value.numerator.bit_length(), value.denominator.bit_length()) <= arithmetic.MAX_BITS


@pytest.mark.parametrize("piece", ["(", "-", "9**", "9*", "9/7+", "-(", "9//", "%", ")", "0 "])
def test_no_repetition_exceeds_the_limits(piece):
    for count in (10, 100, 333, 100_000):
        for end in ("", "1"):
            try:
                value = evaluate(piece * count + end)
            except ExpressionError:
                continue
            assert max(value.numerator.bit_length(), value.denominator.bit_length()) <= arithmetic.MAX_BITS


def every_value(numbers, operators):
    """Values of all expressions over the numbers by brute force, including negated ones."""
    if len(numbers) == 1:
        return {numbers[0]}
    values = set()
    for one, other in combinations(range(len(numbers)), 2):
        rest = [number for place, number in enumerate(numbers) if place not in (one, other)]
        a, b = numbers[one], numbers[other]
        results = {a + b, a - b, b - a} | ({a * b} if "*" in operators else set())
        if "/" in operators:
            results |= ({a / b} if b else set()) | ({b / a} if a else set())
        for result in results:
            values |= every_value([*rest, result], operators)
    return values


@given(st.lists(st.integers(0, 12), min_size=1, max_size=4), st.sampled_from(STAGES), st.integers(-60, 60))
def test_the_search_finds_an_expression_if_and_only_if_one_exists(numbers, operators, target):
    values = every_value([Fraction(number) for number in numbers], operators)
    found = find_expression(numbers, target, operators)
    assert (found is not None) == (target in values or -target in values)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=6), st.sampled_from(STAGES), st.data())
def test_found_expressions_use_each_number_once_and_reach_the_target(numbers, operators, data):
    signs = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=len(numbers), max_size=len(numbers)))
    target = sum(sign * number for sign, number in zip(signs, numbers, strict=True))
    found = find_expression(numbers, target, operators)
    assert found is not None
    assert evaluate(found) == target
    written = found.replace("(", " ").replace(")", " ").split()
    assert sorted(int(word.lstrip("-")) for word in written if word.lstrip("-").isdigit()) == sorted(numbers)
    assert set(found) <= set("0123456789() ") | set(operators)


@pytest.mark.parametrize(
    ("numbers", "target"),
    [
        ([3, 3, 8, 8], 24),
        ([1, 5, 5, 5], 24),
        ([0, 0, 7, 9], 0),
        ([2, 8], 16),
        ([2, 8], -10),
        ([25, 50, 75, 100, 3, 6], 952),
    ],
)
def test_hard_problems_are_solved(numbers, target):
    assert evaluate(find_expression(numbers, target)) == target


def test_the_simplest_sufficient_operators_are_used():
    assert set(find_expression([1, 2, 3, 6], 12)) & set("*/") == set()
    assert "/" not in find_expression([2, 3, 4], 24)
    assert find_expression([8, 2], 4, "+-*") is None
    assert find_expression([8, 2], 4) == "8 / 2"


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(-40, 40))
def test_signs_reach_the_same_values_as_plus_and_minus(numbers, target):
    assert signs_reach(numbers, target) == (find_expression(numbers, target, "+-") is not None)
