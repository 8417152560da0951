"""Grammar of claims about grids: nouns, directions, and the patterns of each rule, compiled for each theme."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envs.claims.coordinates import PLACE
from envs.claims.grid_facts import Offset
from envs.claims.number_words import COUNT, NUMBER, ORDINAL, count_of

_NOUNS = {
    "player": r"i|me|we|us|you|(?:(?:my|player|agent)(?: current)?|current) (?:position|location)|player|agent|robot|"
    r"character|worker|P",
    "box": r"box (?:position|location)|box(?:es)?|crates?|blocks?",
    "target": r"(?:target|goal) (?:position|location)|targets?|goals?|destinations?|storage(?: spots?)?",
    "goal": r"goal (?:position|location)|goals?|targets?|destinations?|G",
    "hole": r"holes?",
    "wall": r"walls?",
    "ice": r"ice|frozen(?: (?:ice|tile|cell|lake))?|safe",
    "empty": r"empty|free|open|floor|vacant|clear",
}
_THEMES = {
    "sokoban": ("player", "box", "target", "wall", "empty"),
    "frozen_lake": ("player", "goal", "hole", "ice", "empty"),
}
_SUBJECTS = {"sokoban": ("player", "box", "target", "wall"), "frozen_lake": ("player", "goal", "hole")}
_LABEL = r"(?:\s*\(\s*[\w@#$*+.√]\s*\)|\s+[A-Z](?=\s+(?:is|are|at|sits|stands|lies)\b)|\s+#?\d(?=\s*(?:is|at|:|\()))?"
_DET = r"(?:(?:the|a|an|my|our|one|this|another|any|one of the|current|other|first|second)\s+){0,2}"
_NOT_ALL = (
    r"(?<!of )(?<!of the )(?<!of my )(?<!each )(?<!every )(?<!both )(?<!all )(?<!all the )(?<!both the )"
    r"(?<!next to )(?<!next to the )(?<!near the )(?<!beside the )\b"
)
"""Words before a subject that make the sentence about something else: a quantifier, or a place beside it."""
_BE = r"(?:\s*(?:'m|'re|'s|:)|\s+(?:am|is|are|stands?|sits?|lies?|remains?))"
_ADVERBS = (
    r"(?:\s+(?:currently|now|already|located|standing|sitting|positioned|placed|situated|exactly|also|"
    r"still|only|just))*"
)
_CLOSE = r"(?:directly|immediately|right|just|straight|exactly)"
_UNITS = r"(?:cells?|squares?|steps?|tiles?|spaces?|rows?|columns?|cols?|positions?|units?|spots?|places?|moves?)"
_DIRECTIONS = {
    "left": r"(?:to|on|at|toward|towards)?\s*(?:the\s+|my\s+)?(?:left|west)(?:[ -]hand side)?(?: side)?",
    "right": r"(?:to|on|at|toward|towards)?\s*(?:the\s+|my\s+)?(?:right|east)(?:[ -]hand side)?(?: side)?",
    "up": r"above|over|up|upwards?|north",
    "down": r"below|beneath|underneath|under|down|downwards?|south",
}
_DIRECTION = "(?:" + "|".join(_DIRECTIONS.values()) + ")"
_OFFSET = (
    rf"(?:(?:{NUMBER}|a)\s+{_UNITS}\s+)?(?:{_CLOSE}\s+)?{_DIRECTION}\b"
    rf"|(?:{NUMBER})\s+(?:{_CLOSE}\s+)?{_DIRECTION}\b"
)
_READ_DIRECTION = {name: re.compile(rf"(?:{pattern})\Z", re.IGNORECASE) for name, pattern in _DIRECTIONS.items()}
_ONE_OFFSET = re.compile(
    rf"(?P<number>{NUMBER}|a)?\s*(?P<unit>{_UNITS})?\s*(?P<close>{_CLOSE}(?=\s+\S))?\s*(?P<direction>{_DIRECTION})\b",
    re.IGNORECASE,
)


def _noun(theme: str, things: tuple[str, ...], name: str) -> str:
    nouns = "|".join(_NOUNS[thing] for thing in things)
    return rf"(?P<{name}>(?:{nouns}))"


@dataclass(frozen=True)
class Grammar:
    """The compiled rules of a theme."""

    place: re.Pattern[str]
    places: re.Pattern[str]
    line: re.Pattern[str]
    same_line: re.Pattern[str]
    offset: re.Pattern[str]
    there: re.Pattern[str]
    cell: re.Pattern[str]
    front: re.Pattern[str]
    beside: re.Pattern[str]
    distance: re.Pattern[str]
    count: re.Pattern[str]
    on_target: re.Pattern[str]
    corner: re.Pattern[str]
    against: re.Pattern[str]
    size: re.Pattern[str]
    reach: re.Pattern[str]
    standing: re.Pattern[str]


def _compiled(theme: str) -> Grammar:
    subjects = _SUBJECTS[theme]
    things = tuple(thing for thing in _THEMES[theme] if thing != "empty")
    contents = tuple(thing for thing in _THEMES[theme] if thing != "player")
    a, b = _noun(theme, subjects, "a"), _noun(theme, things, "b")
    subject = rf"{_NOT_ALL}{_DET}{a}{_LABEL}"
    other = rf"(?:{_DET}{b}\b)"
    reference = rf"(?:(?:\s+(?:of|from|to|than))?\s+{other})?"
    chain = (
        rf"(?P<offsets>(?:{_OFFSET})(?:\s+{_DET}{_noun(theme, things, 'c')}\b)?(?:\s*(?:,|and|, and)\s+(?:{_OFFSET}))?)"
    )
    tail = r"(?P<tail>\s+(?:side|half|part|edge|corner|wall|end|neighbou?r)\b|\s+of\s+\w+)?"
    content = _noun(theme, contents, "content")

    def rule(pattern: str) -> re.Pattern[str]:
        return re.compile(pattern, re.IGNORECASE)

    return Grammar(
        place=rule(
            rf"{subject}{_BE}?{_ADVERBS}(?:\s+(?:at|in|on))?(?:\s+(?:the\s+)?(?:position|cell|square|coordinates?|tile|"
            rf"location|spot))?\s*:?\s*(?:in\s+)?(?:the\s+)?(?P<place>{PLACE})"
        ),
        places=rule(r"\s*(?:,|and|,\s*and|;)?\s*(?P<place>[(\[]\s*\d{1,2}\s*,\s*\d{1,2}\s*[)\]]|(?<!\d)\d{1,2},\d{1,2}"
                    r"(?!\d)|row\s*\d{1,2}\s*,?\s*(?:column|col)\.?\s*\d{1,2})"),
        line=rule(
            rf"{subject}{_BE}{_ADVERBS}\s+(?:in|on|at)\s+(?:the\s+)?(?:(?P<axis>row|column|col)\s+#?(?P<number>{NUMBER})"
            rf"|(?P<ordinal>{ORDINAL}|last|top|bottom|leftmost|rightmost)\s+(?P<axis2>row|column))\b(?!\s*(?:,|and)?\s*"
            rf"(?:the\s+)?(?:row|col|{ORDINAL}))"
        ),
        same_line=rule(
            rf"{subject}(?:\s+and\s+{other})?{_BE}{_ADVERBS}\s+(?:in|on)\s+(?:the\s+)?same\s+(?P<axis>row|column)"
            rf"(?:\s+(?:as|with)\s+{_DET}{_noun(theme, things, 'c')}\b)?"
        ),
        offset=rule(rf"{subject}{_BE}{_ADVERBS}\s+{chain}{reference}{tail}"),
        there=rule(
            rf"\b(?:there(?:'s| is| are)|i see|i have|we have)\s+(?P<many>{COUNT}|the|some)\s+{a}\s"
            rf"+{chain}{reference}{tail}"
        ),
        cell=rule(
            rf"\bthe\s+(?:next\s+)?(?:cell|square|tile|space|spot|position|field)\s+{chain}{reference}{_BE}{_ADVERBS}\s+"
            rf"(?:a\s+|an\s+|the\s+)?{content}\b(?P<more>\s+(?:tile|cell|square|space|spot|and|or)\b)?"
        ),
        front=rule(rf"(?<![\w-])(?<!\w\s){chain}{reference},?\s+(?:is|there is|there's|are)\s+(?:a\s+|an\s+|"
            rf"the\s+)?{content}\b"),
        beside=rule(
            rf"{subject}{_BE}{_ADVERBS}\s+(?:{_CLOSE}\s+)?(?:adjacent to|next to|beside|touching)\s+{other}"
        ),
        distance=rule(
            rf"{subject}{_BE}{_ADVERBS}\s+(?P<number>{NUMBER})\s+(?:cells?|squares?|steps?|tiles?|spaces?)\s+(?:away\s+)?"
            rf"from\s+{other}"
        ),
        count=rule(
            rf"\b(?:there(?:'s| is| are)|i see|we have|i have)\s+(?:only\s+|exactly\s+|just\s+)"
            rf"?(?P<number>{NUMBER})\s+{a}"
            rf"(?:\s+and\s+(?P<number2>{NUMBER})\s+{b})?(?=\s*(?:,|$|[:(]|(?:on|in)\s+(?:the|this)\s+"
            rf"(?:board|grid|map|room|lake|puzzle|level)|in total|here|on it))"
        ),
        on_target=rule(
            r"\b(?P<all>both|all(?: of)?(?: the)?|every|each)?\s*(?:(?:the|a|one|my|one of the|"
            r"(?P<ordinal>first|second|other))"
            r"\s+)*(?P<a>box(?:es)?|crates?)(?:'s)?(?:\s+(?:is|are))" + _ADVERBS +
            r"\s+on\s+(?:top of\s+)?(?:the|a|its|their|one of the|every)?\s*(?P<b>targets?|goals?)"
        ),
        corner=rule(
            rf"{subject}{_BE}{_ADVERBS}\s+(?:stuck\s+)?(?:in|at|on)\s+(?:a|the)\s+(?:(?P<vertical>top|upper|bottom|lower)"
            rf"[\s-](?P<side>left|right)[\s-])?corner\b"
        ),
        against=rule(rf"{subject}{_BE}{_ADVERBS}\s+(?:up\s+)?(?:against|next to|along|touching)\s+(?:a|the)\s+wall\b"),
        size=rule(
            r"\b(?:(?:it|this|the (?:board|grid|room|map|lake|puzzle))(?:'s| is| has| measures))\s+(?:an?\s+)"
            r"?(?P<rows>\d{1,2})\s*"
            r"(?:x|×|by)\s*(?P<columns>\d{1,2})(?:\s*(?:grid|board|map|room|lake|cells))?\b"
        ),
        standing=rule(
            rf"{_NOT_ALL}{_DET}{_noun(theme, ('player',), 'a')}{_LABEL}{_BE}{_ADVERBS}\s+(?P<preposition>in|at|on)\s+"
            rf"(?:the|a)\s+(?P<b>goal|hole)\b(?!['’-]|\s+(?:line|side|row|column|end|post|area|half|plate))"
        ),
        reach=rule(r"\bthe\s+(?P<a>goal)\s+(?:is|can be)\s+(?P<no>un)?reach(?:able|ed)\b"),
    )  # fmt: skip


GRAMMARS = {theme: _compiled(theme) for theme in _THEMES}
_NAMED = {
    theme: [(thing, re.compile(rf"(?:{_NOUNS[thing]})\Z", re.IGNORECASE)) for thing in things]
    for theme, things in _THEMES.items()
}


def thing_of(theme: str, noun: str | None) -> str:
    """The thing that a noun names on boards of a theme; "" for none."""
    if noun is None or (len(noun) == 1 and noun not in "iIPG"):
        return ""
    return next((thing for thing, pattern in _NAMED[theme] if pattern.match(noun)), "")


def read_offsets(text: str) -> tuple[list[Offset] | None, bool, bool]:
    """Directions with their numbers, whether they are close ("directly"), and whether they count rows or columns.

    The directions are None where two of them lie along the same axis.
    """
    offsets: list[Offset] = []
    close = exact = False
    for match in _ONE_OFFSET.finditer(text):
        word = match["direction"].strip()
        name = next((name for name, pattern in _READ_DIRECTION.items() if pattern.match(word)), "")
        if not name:
            continue
        number = None if match["number"] is None else count_of(match["number"])
        if number == 0:
            return None, close, exact
        close = close or match["close"] is not None
        unit = (match["unit"] or "").lower()
        exact = exact or unit.startswith(("row", "col"))
        offsets.append((name, number))
    axes = {name in ("up", "down") for name, _ in offsets}
    return (offsets if offsets and len(axes) == len(offsets) else None), close, exact
