"""Claims about the arms of a bandit: names, order, pulls, payments, totals and averages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from envs.base import Arm, ArmsBoard, Claim, GridBoard, PageBoard, TextBoard
from envs.claims.number_words import NUMBER, ORDINAL, TIMES, count_of, ordinal_of
from envs.claims.sentences import sentences

_PULLED = r"(?:pulled|tried|played|chosen|used|tested|sampled|picked)"
_HAVE = r"(?:\s*'ve|\s+have)?(?:\s+(?:already|only|just))*"
_TIMES = rf"(?:exactly\s+|only\s+)?(?:once|twice|thrice|{NUMBER}\s+times?)"
_VALUE = r"\$?(?P<value>\d+(?:\.\d+)?)(?!\.?\d)(?:\s+points?)?"
_MEMORY = re.compile(
    rf"\b(?:was|were|been|had|{_PULLED}|never|not|neither|nor|no|without|untried|last time|last)\b|n't\b", re.IGNORECASE
)
"""Words of a count itself: it is about the past, and zero is said by a denial."""

Verdict = tuple[bool, str, list[str]]


def read_bandit_claims(thought: str, board: GridBoard | ArmsBoard | PageBoard | TextBoard) -> list[Claim] | None:
    """Claims of a thought about the arms; None for other boards."""
    if not isinstance(board, ArmsBoard) or not board.arms:
        return None
    rules = _rules(board.arms)
    found: list[Claim] = []
    for sentence in sentences(thought):
        for kind, pattern, compare in rules:
            for match in pattern.finditer(sentence.text):
                start, end = sentence.start + match.start(), sentence.start + match.end()
                taken = any(start < claim.end and claim.start < end for claim in found)
                if taken or not sentence.states(match.start(), match.end(), ignore=_MEMORY):
                    continue
                if (verdict := compare(match)) is not None:
                    true, actual, marks = verdict
                    actual_words = None if true else actual
                    found.append(
                        Claim(start=start, end=end, true=true, kind=kind, actual=actual_words, marks=marks or None)
                    )
    return sorted(found, key=lambda claim: claim.start)


def _rules(arms: Sequence[Arm]) -> list[tuple[str, re.Pattern[str], Callable[[re.Match[str]], Verdict | None]]]:  # noqa: C901 - a rule for each pattern
    """Patterns for these arms, most specific first, each with the kind of its claims and its comparison."""
    by_name = {arm.name.lower(): arm for arm in arms}
    name = "|".join(re.escape(arm.name) for arm in sorted(arms, key=lambda arm: -len(arm.name)))
    arm = rf"\b(?:(?:the|arm)\s+)*(?P<arm>{name})(?:\s+arm)?\b"
    more = (
        rf"\b(?P<arm>{name})\b\s+(?:was|has been|is)\s+{_PULLED}\s+(?P<more>more|less)\s+(?:often|times)\s"
        rf"+than\s+(?P<other>{name})\b"
    )
    pulls = sum(arm.pulls for arm in arms)

    def of(match: re.Match[str], group: str = "arm") -> Arm:
        return by_name[match[group].lower()]

    def pulled(match: re.Match[str]) -> Verdict:
        chosen, stated = of(match), _times(match["times"])
        return chosen.pulls == stated, f"{chosen.name} has {_pulls(chosen.pulls)}", [chosen.name]

    def never(match: re.Match[str]) -> Verdict:
        chosen = of(match)
        return chosen.pulls == 0, f"{chosen.name} has {_pulls(chosen.pulls)}", [chosen.name]

    def none(match: re.Match[str]) -> Verdict:
        return pulls == 0, f"{_pulls(pulls)} so far", [arm.name for arm in arms]

    def total_pulls(match: re.Match[str]) -> Verdict:
        return pulls == _times(match["times"]), f"{_pulls(pulls)} so far", [arm.name for arm in arms]

    def compared(match: re.Match[str]) -> Verdict | None:
        one, other = of(match), of(match, "other")
        true = one.pulls > other.pulls if match["more"].lower() == "more" else one.pulls < other.pulls
        actual = f"{one.name} has {_pulls(one.pulls)}, {other.name} {other.pulls}"
        return None if one is other else (true, actual, [one.name, other.name])

    def amount(kind: str) -> Callable[[re.Match[str]], Verdict | None]:
        def compare(match: re.Match[str]) -> Verdict | None:
            chosen = of(match)
            known = {"total": chosen.total, "last": chosen.last}
            known["average"] = chosen.total / chosen.pulls if chosen.pulls else None
            value = known[kind]
            if value is None or not chosen.pulls:
                return None
            words = {"total": "in all", "last": "last time", "average": "on average"}[kind]
            return _same(match["value"], value), f"{chosen.name} paid {value:.4g} {words}", [chosen.name]

        return compare

    def number(match: re.Match[str]) -> Verdict:
        return count_of(match["number"]) == len(arms), f"there are {len(arms)} arms", [arm.name for arm in arms]

    def listed(match: re.Match[str]) -> Verdict | None:
        chosen = of(match)
        place = ordinal_of(match["ordinal"])
        actual = f"{chosen.name} is number {arms.index(chosen) + 1}"
        return arms.index(chosen) + 1 == place, actual, [chosen.name]

    def named(match: re.Match[str]) -> Verdict | None:
        stated = re.findall(name, match["names"], re.IGNORECASE)
        true = {text.lower() for text in stated} == set(by_name)
        return (True, "", [arm.name for arm in arms]) if true else None

    def rule(pattern: str) -> re.Pattern[str]:
        return re.compile(pattern, re.IGNORECASE)

    value_of = r"(?:\s+reward|\s+payout|\s+return|\s+pay|\s+value)?"
    be = r"\s*(?:is|was|of|:|=)\s*"
    return [
        ("pulls", rule(more), compared),
        ("pulls", rule(rf"{arm}\s+(?:has|was|is)\s+(?:been\s+)?{_PULLED}\s+(?P<times>{_TIMES})"), pulled),
        ("pulls", rule(rf"{arm}\s*(?::|has|with)\s+(?P<times>{NUMBER})\s+pulls?\b"), pulled),
        ("pulls", rule(rf"\b(?:i|we){_HAVE}\s+(?:pulled|tried|played)\s+{arm}\s+(?:arm\s+)?"
            rf"(?P<times>{_TIMES})"), pulled),
        ("pulls", rule(rf"{arm}\s+(?P<times>{_TIMES})(?=\s*(?:$|,|and\b|so far))"), pulled),
        ("pulls", rule(rf"\b(?:i|we)\s+(?:have\s+not|haven't|have\s+never|never)\s+(?:yet\s+)?{_PULLED}\s+{arm}(?!\s"
            rf"+{_TIMES})"), never),
        ("pulls", rule(rf"{arm}\s+(?:has\s+not|hasn't|has\s+never|was\s+never)\s+(?:yet\s+)?(?:been\s+)?{_PULLED}(?!\s"
            rf"+(?:{_TIMES}|more|less|as))"), never),
        ("pulls", rule(rf"{arm}\s+is\s+(?:still\s+)?(?:untried|unpulled|untested)\b"), never),
        ("pulls", rule(rf"\b(?:neither|no)\s+arm\s+(?:has|was)\s+(?:yet\s+)?(?:been\s+)?{_PULLED}"), none),
        ("pulls", rule(rf"\b(?:i|we){_HAVE}\s+(?:pulled|played|tried)\s+(?P<times>{_TIMES})(?!\s+more)"), total_pulls),
        ("pulls", rule(rf"\b(?:i|we){_HAVE}\s+(?:made|done|used)\s+(?P<times>{NUMBER})\s+pulls?\b(?:\s+(?:in total|"
            rf"so far|overall))?"), total_pulls),
        ("pulls", rule(rf"\btotal\s+(?:number\s+of\s+)?pulls(?:\s+so far)?\s*(?:is|:|=)\s*"
            rf"(?P<times>{NUMBER})\b"), total_pulls),
        ("payment", rule(rf"\btotal{value_of}\s+(?:of|for|from)\s+{arm}{be}{_VALUE}"), amount("total")),
        ("payment", rule(rf"{arm}'s\s+total{value_of}{be}{_VALUE}"), amount("total")),
        ("payment", rule(rf"\b(?:average|mean){value_of}\s+(?:of|for|from)\s+{arm}{be}{_VALUE}"), amount("average")),
        ("payment", rule(rf"{arm}'s\s+(?:average|mean){value_of}{be}{_VALUE}"), amount("average")),
        ("payment", rule(rf"{arm}\s+last\s+(?:paid|gave|returned)\s+{_VALUE}"), amount("last")),
        ("payment", rule(rf"{arm}\s+(?:paid|gave|returned)\s+{_VALUE}\s+last\s+time\b"), amount("last")),
        ("payment", rule(rf"\blast\s+time,?\s+{arm}\s+(?:paid|gave|returned)\s+{_VALUE}"), amount("last")),
        ("arms", rule(rf"\b(?:there\s+are|there're|i\s+have|we\s+have|one\s+of)\s+(?:only\s+)?(?P<number>{NUMBER})\s"
            rf"+(?:different\s+)?arms\b"), number),
        ("arms", rule(rf"{arm}\s+is\s+(?:listed|named|shown)\s+(?P<ordinal>{ORDINAL})\b"), listed),
        ("arms", rule(rf"\bthe\s+(?P<ordinal>{ORDINAL})\s+(?:arm|option|name)\s+is\s+(?:called\s+)?"
            rf"(?P<arm>{name})\b"), listed),
        ("arms", rule(rf"\bthe\s+(?:two\s+)?arms\s+are\s+(?:called\s+|named\s+)?(?P<names>(?:{name})(?:\s*(?:,|and|"
            rf", and)\s*(?:{name}))*)(?!\s*(?:,|and)\s*[A-Z])"), named),
    ]  # fmt: skip


def _times(text: str) -> int:
    """The number in "once", "three times", "3"."""
    words = [word for word in text.lower().split() if word not in ("exactly", "only", "time", "times")]
    return TIMES[words[0]] if words[0] in TIMES else count_of(words[0])


def _pulls(count: int) -> str:
    return f"{count} pull{'' if count == 1 else 's'}"


def _same(text: str, value: float) -> bool:
    """Whether a number as written is the value, rounded to the digits it has."""
    decimals = len(text.partition(".")[2])
    return abs(float(text) - value) <= 0.5 * 10**-decimals + 1e-9 if decimals else abs(float(text) - value) < 1e-9
