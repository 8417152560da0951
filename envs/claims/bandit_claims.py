"""Claims about the arms of a bandit: names, order, pulls, payments, totals and averages."""

from __future__ import annotations

import re
from functools import lru_cache

from envs.base import Arm, ArmsBoard, Board, Claim
from envs.claims.claim_rules import Rule, Verdict, number_of, read, table

_MEMORY = re.compile(
    r"\b(?:was|were|been|had|pulled|tried|played|chosen|used|tested|sampled|picked|never|not|neither|nor|no|without|"
    r"untried|last time|last)\b|n't\b",
    re.IGNORECASE,
)
"""Words of a count itself: it is about the past, and zero is said by a denial."""

_WORDS = {
    "arm": r"\b((the|arm) )*{arm:name}( arm)?\b",
    "pulled": r"pulled|tried|played|chosen|used|tested|sampled|picked",
    "have": r"(\s*'ve| have)?( (already|only|just))*",
    "times": r"(exactly |only )?(once|twice|thrice|{number} times?)",
    "amount": r"total|average|mean",
    "of": r"( reward| payout| return| pay| value)?",
    "is": r"\s*(is|was|of|:|=)\s*",
    "value": r"\$?(?P<value>\d+(\.\d+)?)(?!\.?\d)( points?)?",
}
_ADVERBS = {"once": 1, "twice": 2, "thrice": 3}


def read_bandit_claims(thought: str, board: Board) -> list[Claim] | None:
    """Claims of a thought about the arms; None for other boards."""
    if not isinstance(board, ArmsBoard) or not board.arms:
        return None
    return read(thought, board.arms, _rules(tuple(arm.name for arm in board.arms)), ignore=_MEMORY)


@lru_cache(maxsize=64)
def _rules(names: tuple[str, ...]) -> list[Rule]:
    name = "|".join(re.escape(name).replace(r"\ ", " ") for name in sorted(names, key=len, reverse=True))
    return table(
        _WORDS | {"name": name},
        ("pulls", r"{arm} (was|has been|is) {pulled} (?P<more>more|less) (often|times) than {other:name}\b", _compared),
        ("pulls", r"{arm} (has|was|is) (been )?{pulled} {times:times}", _pulled),
        ("pulls", r"{arm}\s*(:|has|with) {times:number} pulls?\b", _pulled),
        ("pulls", r"\b(i|we){have} (pulled|tried|played) {arm} {times:times}", _pulled),
        ("pulls", r"{arm} {times:times}(?=\s*($|,|and\b|so far))", _pulled),
        ("pulls", r"\b(i|we) (have not|haven't|have never|never) (yet )?{pulled} {arm}(?! {times})", _pulled),
        ("pulls", r"{arm} ((has|was) never|has not|hasn't) (yet )?(been )?{pulled}(?! ({times}|more|less|as))",
         _pulled),
        ("pulls", r"{arm} is (still )?(untried|unpulled|untested)\b", _pulled),
        ("pulls", r"\b(neither|no) arm (has|was) (yet )?(been )?{pulled}", _all_pulls),
        ("pulls", r"\b(i|we){have} (pulled|played|tried) {times:times}(?! more)", _all_pulls),
        ("pulls", r"\b(i|we){have} (made|done|used) {times:number} pulls?\b( (in total|so far|overall))?", _all_pulls),
        ("pulls", r"\btotal (number of )?pulls( so far)?\s*(is|:|=)\s*{times:number}\b", _all_pulls),
        ("payment", r"\b{amount:amount}{of} (of|for|from) {arm}{is}{value}", _paid),
        ("payment", r"{arm}'s {amount:amount}{of}{is}{value}", _paid),
        ("payment", r"{arm} (?P<amount>last) (paid|gave|returned) {value}", _paid),
        ("payment", r"{arm} (paid|gave|returned) {value} (?P<amount>last) time\b", _paid),
        ("payment", r"\b(?P<amount>last) time,? {arm} (paid|gave|returned) {value}", _paid),
        ("arms", r"\b(there are|there're|i have|we have|one of) (only )?{number:number} (different )?arms\b", _number),
        ("arms", r"{arm} is (listed|named|shown) {ordinal:ordinal}\b", _listed),
        ("arms", r"\bthe {ordinal:ordinal} (arm|option|name) is (called )?{arm:name}\b", _listed),
        ("arms", r"\bthe (two )?arms are (called |named )?(?P<names>{name}(\s*(,|and|, and)\s*{name})*)"
                 r"(?!\s*(,|and)\s*[A-Z])", _named),
    )  # fmt: skip


def _arm(arms: list[Arm], match: re.Match[str], group: str = "arm") -> Arm:
    name = " ".join(match[group].lower().split())
    return next(arm for arm in arms if " ".join(arm.name.lower().split()) == name)


def _names(arms: list[Arm]) -> list[str]:
    return [arm.name for arm in arms]


def _times(match: re.Match[str]) -> int:
    """The number in "once", "three times", "3"; 0 for a statement of none."""
    text = re.sub(r"\b(?:exactly|only|times?)\b", "", (match.groupdict().get("times") or "0").lower()).strip()
    return _ADVERBS[text] if text in _ADVERBS else number_of(text)


def _pulls(count: int) -> str:
    return f"{count} pull{'' if count == 1 else 's'}"


def _pulled(arms: list[Arm], match: re.Match[str]) -> Verdict:
    arm = _arm(arms, match)
    return Verdict(arm.pulls == _times(match), f"{arm.name} has {_pulls(arm.pulls)}", marks=[arm.name])


def _all_pulls(arms: list[Arm], match: re.Match[str]) -> Verdict:
    pulls = sum(arm.pulls for arm in arms)
    return Verdict(pulls == _times(match), f"{_pulls(pulls)} so far", marks=_names(arms))


def _compared(arms: list[Arm], match: re.Match[str]) -> Verdict | None:
    one, other = _arm(arms, match), _arm(arms, match, "other")
    more, less = (one, other) if match["more"].lower() == "more" else (other, one)
    actual = f"{one.name} has {_pulls(one.pulls)}, {other.name} {other.pulls}"
    return None if one is other else Verdict(more.pulls > less.pulls, actual, marks=[one.name, other.name])


def _paid(arms: list[Arm], match: re.Match[str]) -> Verdict | None:
    """Whether the amount as written is the known one, rounded to the digits it has."""
    arm, amount, text = _arm(arms, match), match["amount"].lower(), match["value"]
    if not arm.pulls or (amount == "last" and arm.last is None):
        return None
    value, words = arm.total / arm.pulls, "on average"
    if amount in ("total", "last"):
        value, words = (arm.total, "in all") if amount == "total" else (arm.last or 0.0, "last time")
    decimals = len(text.partition(".")[2])
    same = abs(float(text) - value) <= (0.5 * 10**-decimals if decimals else 0.0) + 1e-9
    return Verdict(same, f"{arm.name} paid {value:.4g} {words}", marks=[arm.name])


def _number(arms: list[Arm], match: re.Match[str]) -> Verdict:
    return Verdict(
        number_of(match["number"]) == len(arms), f"there are {len(arms)} arms", marks=[arm.name for arm in arms]
    )


def _listed(arms: list[Arm], match: re.Match[str]) -> Verdict:
    arm = _arm(arms, match)
    place = arms.index(arm) + 1
    return Verdict(place == number_of(match["ordinal"]), f"{arm.name} is number {place}", marks=[arm.name])


def _named(arms: list[Arm], match: re.Match[str]) -> Verdict | None:
    rest = match["names"].lower()
    for arm in sorted(arms, key=lambda arm: -len(arm.name)):
        rest, found = re.subn(rf"\b{re.escape(arm.name.lower())}\b", "", rest)
        if not found:
            return None
    return Verdict(True, marks=_names(arms))
