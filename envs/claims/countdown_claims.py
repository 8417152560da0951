"""Claims about a Countdown problem: its target, its numbers, and the value of expressions.

An equation is true or false by itself, also in a plan; chains such as 3 + 4 = 7 - 2 = 5, which write steps one
after the other, are only read where all their parts are equal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from envs.base import ArmsBoard, Claim, GridBoard, PageBoard, TextBoard
from envs.claims.number_words import NUMBER, count_of
from envs.claims.sentences import Sentence, sentences
from envs.support.arithmetic import ExpressionError, evaluate

_TASK = re.compile(r"Target\s+(-?\d+)\s+Numbers\s+(\d+(?: \d+)*)")
_OPERATORS = {"×": "*", "·": "*", "÷": "/", "\\times": "*", "\\cdot": "*", "\\div": "/", "x": "*"}
_OPERATOR = r"(?:[-+*/×·÷]|\\times|\\cdot|\\div|(?<=\d )x(?= \d))"
_EXPRESSION = rf"[-(\s]*\d+[)\s]*(?:{_OPERATOR}[(\s]*\d+[)\s]*)+"
_RESULT = r"-?\s*\d+(?:\.\d+)?(?![\d.]*\d)(?!\s*/)"
_EQUATION = re.compile(
    rf"(?<![\d.=^*/+\w<>≈!-])(?<![=^*/+≈!]\s)(?P<left>{_EXPRESSION})(?P<rest>(?:=\s*(?:{_EXPRESSION}|{_RESULT})\s*)+)"
)
_AFTER = re.compile(r"\s*(?:[-+*/×÷^≈≠<>]|!=|remainder|rem\b|r\s*\d|\.\.\.|…|mod\b|with\b|%)", re.IGNORECASE)
_LETTER_BEFORE = re.compile(r"(?:[a-z]\s*[-+*/×]\s*|[\w)]\s*[-+*/×÷^]\s*|something|anything|\^)$", re.IGNORECASE)
_CLAIMED = re.compile(
    r"\b(?:not|never|no|need|needs|want|wants|should|must|could|can|may|try|so that|make sure|about|around|"
    r"roughly|nearly|"
    r"almost|approximately|seem|seems|likely|would|were)\b|n't\b",
    re.IGNORECASE,
)

_WORDS = {"plus": "+", "minus": "-", "times": "*", "multiplied by": "*", "divided by": "/"}
_SPOKEN = re.compile(
    rf"(?<![\d.+*/-])(?<!\w )\b(?P<a>\d+)\s+(?P<operator>{'|'.join(_WORDS)})\s+(?P<b>\d+)\s+(?:is|equals|gives|"
    rf"makes|=)\s+"
    rf"(?P<value>{_RESULT})\b(?!\s*[-+*/])",
    re.IGNORECASE,
)
_NOUNS = {"sum": "+", "difference": "-", "product": "*"}
_NOUN = re.compile(
    r"\bthe\s+(?P<noun>sum|difference|product)\s+(?:of|between)\s+(?P<a>\d+)\s+and\s+(?P<b>\d+)\s+(?:is|equals)\s+"
    rf"(?P<value>{_RESULT})\b(?!\s*[-+*/])",
    re.IGNORECASE,
)
_COMPARED = re.compile(
    r"(?<![\d.+*/(-])(?<![-+*/=]\s)\b(?P<a>\d+)\s+is\s+(?:(?P<more>greater|larger|bigger|more|higher)|less|smaller|lower)\s+than\s+"
    r"(?P<b>\d+)\b(?!\s*[-+*/.\d])",
    re.IGNORECASE,
)
_TARGET = re.compile(
    r"\btarget(?:\s+(?:number|value))?\s*(?:is|:|=)\s*(?P<value>-?\d+)\b(?!\s*[-+*/.\d]|\s*,\s*\d)", re.IGNORECASE
)
_LIST = r"\d+(?:\s*(?:,|and|, and)\s*\d+)+"
_NUMBERS = re.compile(
    rf"\b(?:(?:the|my|our|given|available)\s+)*(?:nums|numbers)\s*(?:are|:|=)\s*\[?\s*(?P<list>{_LIST})\b\s*\]?(?!\s*(?:[-+*/]|and|,))",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(
    rf"\b(?:there\s+are|i\s+have|we\s+have)\s+(?:only\s+|exactly\s+)?(?P<number>{NUMBER})\s+numbers\b(?!\s+(?:left|remaining|that))",
    re.IGNORECASE,
)


def read_countdown_claims(thought: str, board: GridBoard | ArmsBoard | PageBoard | TextBoard) -> list[Claim] | None:
    """Claims of a thought about the problem; None for other boards."""
    task = _TASK.match(board.text) if isinstance(board, TextBoard) else None
    if task is None:
        return None
    target, numbers = int(task[1]), Counter(map(int, task[2].split()))
    claims: list[Claim] = []
    for sentence in sentences(thought):
        if sentence.asserts:
            for kind, start, end, true, actual in _read(sentence, target, numbers):
                first, last = sentence.start + start, sentence.start + end
                if not any(first < claim.end and claim.start < last for claim in claims):
                    claims.append(Claim(start=first, end=last, true=true, kind=kind, actual=None if true else actual))
    return sorted(claims, key=lambda claim: claim.start)


def _read(sentence: Sentence, target: int, numbers: Counter[int]) -> Iterator[tuple[str, int, int, bool, str]]:
    """Kind, start, end, verdict and what is so instead, of each statement of a sentence."""
    text = sentence.text
    for match in _TARGET.finditer(text):
        if sentence.states(match.start(), match.end()):
            yield "task", match.start(), match.end(), int(match["value"]) == target, f"the target is {target}"
    for match in _NUMBERS.finditer(text):
        if sentence.states(match.start(), match.end()):
            same = Counter(map(int, re.findall(r"\d+", match["list"]))) == numbers
            actual = f"the numbers are {', '.join(map(str, numbers.elements()))}"
            yield "task", match.start(), match.end(), same, actual
    for match in _HOW_MANY.finditer(text):
        if sentence.states(match.start(), match.end()):
            same = count_of(match["number"]) == numbers.total()
            yield "task", match.start(), match.end(), same, f"{numbers.total()} numbers"
    yield from _arithmetic(sentence)


def _arithmetic(sentence: Sentence) -> Iterator[tuple[str, int, int, bool, str]]:
    text = sentence.text
    for match in _EQUATION.finditer(text):
        if (
            not _claimed(sentence, match)
            or _AFTER.match(text, match.end())
            or _LETTER_BEFORE.search(text[: match.start()])
        ):
            continue
        start, end = match.start(), match.end()
        start += len(match.group()) - len(match.group().lstrip())
        end -= len(match.group()) - len(match.group().rstrip())
        if (verdict := _equation(match["left"], match["rest"])) is not None:
            yield "result", start, end, *verdict
    for match in _SPOKEN.finditer(text):
        yield from _spoken(sentence, match, _WORDS[match["operator"].lower()])
    for match in _NOUN.finditer(text):
        yield from _spoken(sentence, match, _NOUNS[match["noun"].lower()])
    for match in _COMPARED.finditer(text):
        if _claimed(sentence, match):
            a, b = int(match["a"]), int(match["b"])
            words = "is" if a == b else "is greater than" if a > b else "is less than"
            true = a > b if match["more"] else a < b
            yield "comparison", match.start(), match.end(), true, f"{a} {words} {b}"


def _claimed(sentence: Sentence, match: re.Match[str]) -> bool:
    """Whether the clauses of an equation claim it: it may be a plan, but no wish and no denial."""
    return not any(
        first < match.end() and match.start() < last and _CLAIMED.search(sentence.text, first, last)
        for first, last, _ in sentence.clauses
    )


def _spoken(sentence: Sentence, match: re.Match[str], operator: str) -> Iterator[tuple[str, int, int, bool, str]]:
    verdict = _equation(f"{match['a']}{operator}{match['b']}", f"={match['value']}")
    if verdict is None or not _claimed(sentence, match):
        return
    if match.groupdict().get("noun", "").lower() == "difference" and not verdict[0]:
        turned = _equation(f"{match['b']}-{match['a']}", f"={match['value']}")
        verdict = turned or verdict
        if not verdict[0]:
            verdict = False, f"{abs(int(match['a']) - int(match['b']))}"
    yield "result", match.start(), match.end(), *verdict


def _equation(left: str, rest: str) -> tuple[bool, str] | None:
    """Whether an equation holds, and its left side's value; None for a chain that does not, and for no expression."""
    parts = [part.strip() for part in rest.split("=") if part.strip()]
    try:
        value = _value(left)
        others = [(part, _value(part)) for part in parts]
    except ExpressionError:
        return None
    true = all(_equal(value, other, part) for part, other in others)
    if not true and len(others) > 1:
        return None
    expression = " ".join(left.split())
    return true, f"{expression} = {_shown(value)}"


def _value(text: str) -> Fraction:
    """The exact value of an expression or of a decimal number."""
    if re.fullmatch(r"-?\s*\d+\.\d+", text):
        return Fraction(text.replace(" ", ""))
    for sign, operator in _OPERATORS.items():
        text = text.replace(sign, operator)
    return evaluate(" ".join(text.split()))


def _equal(value: Fraction, other: Fraction, written: str) -> bool:
    """Whether a value is another one, which may be rounded to the decimals it is written with."""
    decimals = len(written.partition(".")[2])
    return value == other or (decimals > 0 and abs(value - other) <= Fraction(1, 2 * 10**decimals))


def _shown(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value) if abs(value) < 10**12 else "a long number"
    return f"{float(value):.4g}"
