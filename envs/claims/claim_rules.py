"""The engine of claims: the rules of an environment are rows of (kind, pattern, check), tried on every sentence.

Patterns are regular expressions, case-insensitive and shorter to write: a space stands for one or more blanks, `(…)`
does not capture, `{word}` inserts a word of the table, and `{name:word}` captures it under that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from envs.base import Claim
from envs.claims.sentences import Sentence, sentences

Cell = tuple[int, int]
Match = re.Match[str]
_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])+\]|\{([a-z]\w*)(?::(\w+))?\}|\((?!\?)| ")

CARDINALS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"
)  # fmt: skip
NUMBERS = {
    "number": rf"(\d{{1,3}}|{'|'.join(CARDINALS)})",
    "count": rf"(\d{{1,3}}|an?|{'|'.join(CARDINALS)})",
    "ordinal": rf"({'|'.join(ORDINALS)}|\d{{1,2}}(st|nd|rd|th))",
}
"""Vocabulary of every table: numbers as people write them."""


class Verdict(NamedTuple):
    """A check's verdict on a statement.

    Attributes:
        true: None if people would disagree: such a statement is no claim, and no other rule reads it.
        actual: the true state, for a false statement.
        cells, marks: subject of the statement, as in Claim.
        actual_cells: true cells of the thing.
        kind: kind of the claim, if it differs from the rule's.
        placed: kind of the claims about the position of the thing that a distance puts into `cells`.
    """

    true: bool | None
    actual: str = ""
    cells: Iterable[Cell] = ()
    actual_cells: Iterable[Cell] = ()
    kind: str = ""
    marks: Sequence[str] = ()
    placed: str = ""


class Rule(NamedTuple):
    """A row of a table. `check` gets the facts of the board and a match, and returns None if that is no statement.

    Every sentence that matches contains one of the texts in `needs`, so that most sentences skip the pattern.
    """

    kind: str
    pattern: re.Pattern[str]
    check: Callable[[Any, Match], Verdict | None]
    needs: tuple[str, ...] = ()


Span = tuple[int, int, Verdict]
"""A statement: its start and end in the thought, and its verdict."""


def table(words: Mapping[str, str], *rows: tuple[Any, ...]) -> list[Rule]:
    """Return rules from rows of (kind, pattern, check) or (kind, pattern, check, needs), most specific first."""
    return [Rule(kind, compiled(pattern, words), *rest) for kind, pattern, *rest in rows]


def compiled(pattern: str, words: Mapping[str, str] = MappingProxyType({})) -> re.Pattern[str]:
    """Compile a pattern after inserting its vocabulary."""
    return re.compile(_expanded(pattern, {**NUMBERS, **words}), re.IGNORECASE)


def _expanded(pattern: str, words: Mapping[str, str]) -> str:
    def replaced(token: Match) -> str:
        name, word = token.groups()
        if name is None:
            return {" ": r"\s+", "(": "(?:"}.get(token[0], token[0])
        return (f"(?P<{name}>" if word else "(?:") + _expanded(words[word or name], words) + ")"

    return _TOKEN.sub(replaced, pattern)


def read(
    thought: str,
    facts: Any,
    rules: Sequence[Rule],
    states: Callable[[Sentence, Match, Rule], bool] | None = None,
    *,
    ignore: re.Pattern[str] | None = None,
    found: Iterable[Span] = (),
) -> list[Claim]:
    """Return the claims of a thought in order.

    Args:
        facts: facts of the board, for the checks.
        states: returns True if a match states something about the present; by default Sentence.states with `ignore`.
        found: statements that were read before; no rule reads them again.
    """
    states = states or (lambda sentence, match, rule: sentence.states(*match.span(), ignore=ignore))
    spans = list(found)
    for sentence in sentences(thought):
        lower = sentence.text.lower()
        for rule in rules if sentence.asserts else ():
            if rule.needs and not any(text in lower for text in rule.needs):
                continue
            for match in rule.pattern.finditer(sentence.text):
                start, end = trimmed(sentence, match)
                taken = any(start < last and first < end for first, last, _ in spans)
                if not taken and states(sentence, match, rule) and (verdict := rule.check(facts, match)):
                    spans.append((start, end, verdict._replace(kind=verdict.kind or rule.kind)))
    return [_claim(*span) for span in sorted(spans, key=lambda span: span[0]) if span[2].true is not None]


def trimmed(sentence: Sentence, match: Match) -> tuple[int, int]:
    """Return a match's place in the thought, without blanks at its ends."""
    text = match.group()
    start = sentence.start + match.start() + len(text) - len(text.lstrip())
    return start, start + len(text.strip())


def _claim(start: int, end: int, verdict: Verdict) -> Claim:
    true = bool(verdict.true)
    return Claim(
        start=start,
        end=end,
        true=true,
        kind=verdict.kind,
        actual=None if true else verdict.actual,
        marks=list(verdict.marks) or None,
        cells=sorted(set(verdict.cells)) or None,
        actual_cells=None if true else sorted(verdict.actual_cells) or None,
        placed=None if true else verdict.placed or None,
    )


def read_number(text: str) -> int:
    """Return the number in a text that `{number}`, `{count}` or `{ordinal}` matches; the first is 1."""
    word = text.lower()
    if word in CARDINALS:
        return CARDINALS.index(word)
    return 1 if word in ("a", "an") else ORDINALS.index(word) + 1 if word in ORDINALS else int(word.rstrip("stndrh"))
