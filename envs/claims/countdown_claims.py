"""Claims about a Countdown problem: its target, its numbers, and the value of expressions.

An equation is true or false by itself, also in a plan; chains such as 3 + 4 = 7 - 2 = 5, which write steps one
after the other, are only read where all their parts are equal.
"""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from typing import NamedTuple

from envs.base import Board, Claim, TextBoard
from envs.claims.claim_rules import Rule, Verdict, read, read_number, table
from envs.claims.sentences import Sentence
from envs.support.arithmetic import ExpressionError, evaluate

_TASK = re.compile(r"Target\s+(-?\d+)\s+Numbers\s+(\d+(?: \d+)*)")
_SIGNS = {"×": "*", "·": "*", "÷": "/", "\\times": "*", "\\cdot": "*", "\\div": "/", "x": "*"}
_SPOKEN = {
    "plus": "+", "minus": "-", "times": "*", "multiplied by": "*", "divided by": "/",
    "sum": "+", "difference": "-", "product": "*",
}  # fmt: skip
_AFTER = re.compile(r"\s*(?:[-+*/×÷^≈≠<>]|!=|remainder|rem\b|r\s*\d|\.\.\.|…|mod\b|with\b|%)", re.IGNORECASE)
_LETTER_BEFORE = re.compile(r"(?:[a-z]\s*[-+*/×]\s*|[\w)]\s*[-+*/×÷^]\s*|something|anything|\^)$", re.IGNORECASE)
_UNCLAIMED = re.compile(
    r"\b(?:not|never|no|need|needs|want|wants|should|must|could|can|may|try|so that|make sure|about|around|roughly|"
    r"nearly|almost|approximately|seem|seems|likely|would|were)\b|n't\b",
    re.IGNORECASE,
)


class CountdownTask(NamedTuple):
    """The problem on the board."""

    target: int
    numbers: Counter[int]

    @property
    def size(self) -> int:
        """Return the number of numbers."""
        return self.numbers.total()


def read_countdown_claims(thought: str, board: Board) -> list[Claim] | None:
    """Return claims of a thought about the problem; None for other boards."""
    match = _TASK.match(board.text) if isinstance(board, TextBoard) else None
    if match is None:
        return None
    return read(thought, CountdownTask(int(match[1]), Counter(map(int, match[2].split()))), RULES, _states)


def _states(sentence: Sentence, match: re.Match[str], rule: Rule) -> bool:
    """Return True if its clauses claim an equation, even in a plan but not in a wish or denial, or another fact."""
    if rule.kind == "task":
        return sentence.states(*match.span())
    return not any(
        first < match.end() and match.start() < last and _UNCLAIMED.search(sentence.text, first, last)
        for first, last, _ in sentence.clauses
    )


def _numbers(task: CountdownTask, match: re.Match[str]) -> Verdict:
    stated = Counter(map(int, re.findall(r"\d+", match["list"])))
    return Verdict(stated == task.numbers, f"the numbers are {', '.join(map(str, task.numbers.elements()))}")


def _equation(task: CountdownTask, match: re.Match[str]) -> Verdict | None:
    text, (start, end) = match.string, match.span()
    if _AFTER.match(text, end) or _LETTER_BEFORE.search(text[:start]):
        return None
    return _equal(match["left"], match["rest"])


def _spoken(task: CountdownTask, match: re.Match[str]) -> Verdict | None:
    word = " ".join(match["operator"].lower().split())
    verdict = _equal(f"{match['a']}{_SPOKEN[word]}{match['b']}", f"={match['value']}")
    if word == "difference" and verdict and not verdict.true:  # the larger minus the smaller number
        larger, smaller = sorted((int(match["a"]), int(match["b"])), reverse=True)
        turned = _equal(f"{larger}-{smaller}", f"={match['value']}")
        return turned and turned._replace(actual=str(larger - smaller))
    return verdict


def _compared(task: CountdownTask, match: re.Match[str]) -> Verdict:
    a, b = int(match["a"]), int(match["b"])
    relation = "is" if a == b else "is greater than" if a > b else "is less than"
    return Verdict(a > b if match["more"] else a < b, f"{a} {relation} {b}")


def _equal(left: str, rest: str) -> Verdict | None:
    """Return True if an equation is correct; None for a chain that is not, or if it cannot be evaluated."""
    parts = [part.strip() for part in rest.split("=") if part.strip()]
    try:
        value = _value(left)
        errors = [abs(value - _value(part)) for part in parts]
    except ExpressionError:
        return None
    decimals = [len(part.partition(".")[2]) for part in parts]  # a decimal result may be rounded
    limits = [Fraction(1, 2 * 10**digits) if digits else 0 for digits in decimals]
    true = all(error <= limit for error, limit in zip(errors, limits, strict=True))
    shown = f"{float(value):.4g}" if value.denominator > 1 else str(value) if abs(value) < 10**12 else "a long number"
    return Verdict(true, f"{' '.join(left.split())} = {shown}") if true or len(parts) == 1 else None


def _value(text: str) -> Fraction:
    """Return the exact value of an expression or of a decimal number. Raises ExpressionError."""
    if re.fullmatch(r"-?\s*\d+\.\d+", text):
        return Fraction(text.replace(" ", ""))
    for sign, operator in _SIGNS.items():
        text = text.replace(sign, operator)
    return evaluate(" ".join(text.split()))


_WORDS = {
    "sign": r"[-+*/×·÷]|\\times|\\cdot|\\div|(?<=\d\x20)x(?=\x20\d)",
    "expression": r"[-(\s]*\d+[)\s]*({sign}[(\s]*\d+[)\s]*)+",
    "result": r"-?\s*\d+(\.\d+)?(?![\d.]*\d)(?!\s*/)",
    "end": r"\b(?!\s*[-+*/])",
    "list": r"\d+(\s*(,|and|, and)\s*\d+)+",
}
RULES = table(
    _WORDS,
    ("task", r"\btarget( (number|value))?\s*(is|:|=)\s*(?P<value>-?\d+)\b(?!\s*[-+*/.\d]|\s*,\s*\d)",
     lambda task, match: Verdict(int(match["value"]) == task.target, f"the target is {task.target}")),
    ("task", r"\b((the|my|our|given|available) )*(nums|numbers)\s*(are|:|=)\s*\[?\s*{list:list}\b\s*\]?"
             r"(?!\s*([-+*/]|and|,))", _numbers),
    ("task", r"\b(there are|i have|we have) (only |exactly )?{number:number} numbers\b(?! (left|remaining|that))",
     lambda task, match: Verdict(read_number(match["number"]) == task.size, f"{task.size} numbers")),
    ("result", r"(?<![\d.=^*/+\w<>≈!-])(?<![=^*/+≈!]\s){left:expression}(?P<rest>(=\s*({expression}|{result})\s*)+)",
     _equation),
    ("result", r"(?<![\d.+*/-])(?<!\w\x20)\b(?P<a>\d+) (?P<operator>plus|minus|times|multiplied by|divided by) "
               r"(?P<b>\d+) (is|equals|gives|makes|=) {value:result}{end}", _spoken),
    ("result", r"\bthe (?P<operator>sum|difference|product) (of|between) (?P<a>\d+) and (?P<b>\d+) (is|equals) "
               r"{value:result}{end}", _spoken),
    ("comparison", r"(?<![\d.+*/(-])(?<![-+*/=]\s)\b(?P<a>\d+) is ((?P<more>greater|larger|bigger|more|higher)|less|"
                   r"smaller|lower) than (?P<b>\d+)\b(?!\s*[-+*/.\d])", _compared),
)  # fmt: skip
"""Kind, pattern and check of each claim."""
