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
"""Words of every table: numbers as people write them."""


class Verdict(NamedTuple):
    """What a check says of a statement.

    Attributes:
        true: None where people would differ: such a statement is no claim, and no other rule reads it.
        actual: what is so instead.
        cells, marks: what it is about, as in Claim.
        actual_cells: where the thing really is.
        kind: of the claim, if it differs from the rule's.
    """

    true: bool | None
    actual: str = ""
    cells: Iterable[Cell] = ()
    actual_cells: Iterable[Cell] = ()
    kind: str = ""
    marks: Sequence[str] = ()


class Rule(NamedTuple):
    """A row of a table. `check` gets the facts of the board and a match, and returns None if that states nothing.

    `needs`: one of these texts is in every sentence that matches, which spares most sentences the pattern.
    """

    kind: str
    pattern: re.Pattern[str]
    check: Callable[[Any, Match], Verdict | None]
    needs: tuple[str, ...] = ()


Span = tuple[int, int, Verdict]
"""A statement that was found: its start and end in the thought, and its verdict."""


def table(words: Mapping[str, str], *rows: tuple[Any, ...]) -> list[Rule]:
    """Rules from rows of (kind, pattern, check) or (kind, pattern, check, needs), most specific first."""
    return [Rule(kind, compiled(pattern, words), *rest) for kind, pattern, *rest in rows]


def compiled(pattern: str, words: Mapping[str, str] = MappingProxyType({})) -> re.Pattern[str]:
    """A pattern with its words."""
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
    """The claims of a thought in order.

    Args:
        facts: of the board, for the checks.
        states: whether a match states something about the present; by default Sentence.states, with `ignore`.
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
    """A match's place in the thought, without blanks at its ends."""
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
    )


def number_of(text: str) -> int:
    """The number of a text that `{number}`, `{count}` or `{ordinal}` matches; the first is 1."""
    word = text.lower()
    if word in CARDINALS:
        return CARDINALS.index(word)
    return 1 if word in ("a", "an") else ORDINALS.index(word) + 1 if word in ORDINALS else int(word.rstrip("stndrh"))
