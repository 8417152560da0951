"""Claims about the arms of a bandit: names, order, pulls, payments, totals and averages."""

from __future__ import annotations

import re
from functools import lru_cache

from envs.base import Arm, ArmsBoard, Board, Claim
from envs.claims.claim_rules import Match, Rule, Verdict, read, read_number, table

_MEMORY = re.compile(
    r"\b(?:was|were|been|had|pulled|tried|played|chosen|used|tested|sampled|picked|never|not|neither|nor|no|without|"
    r"untried|last time|last)\b|n't\b",
    re.IGNORECASE,
)
"""Words that belong to a count, which is about the past; a denial means zero."""
_TIMES = {"once": 1, "twice": 2, "thrice": 3}


class Arms:
    """Checks of statements about arms; each gets a match of its rule."""

    def __init__(self, arms: list[Arm]) -> None:
        self.arms = arms
        self.names = [arm.name for arm in arms]

    def arm(self, match: Match, group: str = "arm") -> Arm:
        """Return the arm that the group names."""
        return next(arm for arm in self.arms if _folded(arm.name) == _folded(match[group]))

    def pulled(self, match: Match) -> Verdict:
        arm = self.arm(match)
        return Verdict(arm.pulls == _times(match), f"{arm.name} has {_pulls(arm.pulls)}", marks=[arm.name])

    def all_pulls(self, match: Match) -> Verdict:
        pulls = sum(arm.pulls for arm in self.arms)
        return Verdict(pulls == _times(match), f"{_pulls(pulls)} so far", marks=self.names)

    def compared(self, match: Match) -> Verdict | None:
        first, other = self.arm(match), self.arm(match, "other")
        more, less = (first, other) if match["more"].lower() == "more" else (other, first)
        actual = f"{first.name} has {_pulls(first.pulls)}, {other.name} {other.pulls}"
        return None if first is other else Verdict(more.pulls > less.pulls, actual, marks=[first.name, other.name])

    def paid(self, match: Match) -> Verdict | None:
        """Return True if the amount as written is the known amount, rounded to the same digits."""
        arm, amount, text = self.arm(match), match["amount"].lower(), match["value"]
        if not arm.pulls or (amount == "last" and arm.last is None):
            return None
        known = {"total": (arm.total, "in all"), "last": (arm.last or 0.0, "last time")}
        value, meaning = known.get(amount, (arm.total / arm.pulls, "on average"))
        decimals = len(text.partition(".")[2])
        same = abs(float(text) - value) <= (0.5 * 10**-decimals if decimals else 0.0) + 1e-9
        return Verdict(same, f"{arm.name} paid {value:.4g} {meaning}", marks=[arm.name])

    def number(self, match: Match) -> Verdict:
        count = len(self.arms)
        return Verdict(read_number(match["number"]) == count, f"there are {count} arms", marks=self.names)

    def listed(self, match: Match) -> Verdict:
        arm = self.arm(match)
        position = self.arms.index(arm) + 1
        return Verdict(position == read_number(match["ordinal"]), f"{arm.name} is number {position}", marks=[arm.name])

    def named(self, match: Match) -> Verdict | None:
        rest = _folded(match["names"])
        for name in sorted(map(_folded, self.names), key=len, reverse=True):
            rest, occurrences = re.subn(rf"\b{re.escape(name)}\b", "", rest)
            if not occurrences:
                return None
        return Verdict(True, marks=self.names)


def read_bandit_claims(thought: str, board: Board) -> list[Claim] | None:
    """Return claims of a thought about the arms; None for other boards."""
    if not isinstance(board, ArmsBoard) or not board.arms:
        return None
    arms = Arms(board.arms)
    return read(thought, arms, _rules(tuple(arms.names)), ignore=_MEMORY)


def _folded(name: str) -> str:
    return " ".join(name.lower().split())


def _times(match: Match) -> int:
    """Return the number in "once", "three times", "3"; 0 without one."""
    text = re.sub(r"\b(?:exactly|only|times?)\b", "", (match.groupdict().get("times") or "0").lower()).strip()
    return _TIMES[text] if text in _TIMES else read_number(text)


def _pulls(count: int) -> str:
    return f"{count} pull{'' if count == 1 else 's'}"


_WORDS = {
    "arm": r"\b((the|arm) )*{arm:name}( arm)?\b",
    "pulled": r"pulled|tried|played|chosen|used|tested|sampled|picked",
    "have": r"(\s*'ve| have)?( (already|only|just))*",
    "times": r"(exactly |only )?(once|twice|thrice|{number} times?)",
    "of": r"( reward| payout| return| pay| value)?",
    "is": r"\s*(is|was|of|:|=)\s*",
    "value": r"\$?(?P<value>\d+(\.\d+)?)(?!\.?\d)( points?)?",
}


@lru_cache(maxsize=64)
def _rules(names: tuple[str, ...]) -> list[Rule]:
    name = "|".join(re.escape(name).replace(r"\ ", " ") for name in sorted(names, key=len, reverse=True))
    return table(
        _WORDS | {"name": name},
        ("pulls", r"{arm} (was|has been|is) {pulled} (?P<more>more|less) (often|times) than {other:name}\b",
         Arms.compared),
        ("pulls", r"{arm} (has|was|is) (been )?{pulled} {times:times}", Arms.pulled),
        ("pulls", r"{arm}\s*(:|has|with) {times:number} pulls?\b", Arms.pulled),
        ("pulls", r"\b(i|we){have} (pulled|tried|played) {arm} {times:times}", Arms.pulled),
        ("pulls", r"{arm} {times:times}(?=\s*($|,|and\b|so far))", Arms.pulled),
        ("pulls", r"\b(i|we) (have not|haven't|have never|never) (yet )?{pulled} {arm}(?! {times})", Arms.pulled),
        ("pulls", r"{arm} ((has|was) never|has not|hasn't) (yet )?(been )?{pulled}(?! ({times}|more|less|as))",
         Arms.pulled),
        ("pulls", r"{arm} is (still )?(untried|unpulled|untested)\b", Arms.pulled),
        ("pulls", r"\b(neither|no) arm (has|was) (yet )?(been )?{pulled}", Arms.all_pulls),
        ("pulls", r"\b(i|we){have} (pulled|played|tried) {times:times}(?! more)", Arms.all_pulls),
        ("pulls", r"\b(i|we){have} (made|done|used) {times:number} pulls?\b( (in total|so far|overall))?",
         Arms.all_pulls),
        ("pulls", r"\btotal (number of )?pulls( so far)?\s*(is|:|=)\s*{times:number}\b", Arms.all_pulls),
        ("payment", r"\b(?P<amount>total|average|mean){of} (of|for|from) {arm}{is}{value}", Arms.paid),
        ("payment", r"{arm}'s (?P<amount>total|average|mean){of}{is}{value}", Arms.paid),
        ("payment", r"{arm} (?P<amount>last) (paid|gave|returned) {value}", Arms.paid),
        ("payment", r"{arm} (paid|gave|returned) {value} (?P<amount>last) time\b", Arms.paid),
        ("payment", r"\b(?P<amount>last) time,? {arm} (paid|gave|returned) {value}", Arms.paid),
        ("arms", r"\b(there are|there're|i have|we have|one of) (only )?{number:number} (different )?arms\b",
         Arms.number),
        ("arms", r"{arm} is (listed|named|shown) {ordinal:ordinal}\b", Arms.listed),
        ("arms", r"\bthe {ordinal:ordinal} (arm|option|name) is (called )?{arm:name}\b", Arms.listed),
        ("arms", r"\bthe (two )?arms are (called |named )?(?P<names>{name}(\s*(,|and|, and)\s*{name})*)"
                 r"(?!\s*(,|and)\s*[A-Z])", Arms.named),
    )  # fmt: skip
