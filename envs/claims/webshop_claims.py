"""Claims about a page of the shop: price, rating, options, chosen options, results, the request's limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from envs.base import ArmsBoard, Claim, GridBoard, PageBoard, TextBoard
from envs.claims.number_words import NUMBER, ORDINAL, count_of, ordinal_of
from envs.claims.sentences import sentences

_MONEY = (
    r"(?:\$\s*(?P<dollars>\d{1,6}(?:,\d{3})*(?:\.\d{1,2})?)|(?P<plain>\d{1,6}(?:\.\d{1,2})?)\s"
    r"*(?:dollars|usd|bucks))(?![\d.]*\d)"
)
_IT = r"(?:it|this|this (?:item|product|one)|the (?:item|product)|this [a-z]+)"
_BELOW = r"(?:below|under|less than|lower than|cheaper than|within|at most|no more than)"
_LIMIT = re.compile(
    r"price (?:lower than|below|under|less than|at most|up to|of at most) \$?(\d+(?:\.\d+)?)", re.IGNORECASE
)
_ID = r"(?P<id>\b(?:b0[a-z0-9]{8}|es\d{4})\b)"
_CHOSE = re.compile(r"\b(?:been)\b", re.IGNORECASE)
_FOUND = re.compile(r"Page (\d+), (\d+) found")

Verdict = tuple[bool, str, list[str]]
_Rule = tuple[str, re.Pattern[str], Callable[[re.Match[str]], Verdict | None]]
"""Kind of claim, pattern, comparison."""


@dataclass(frozen=True)
class PageFacts:
    """What a page says. Prices in dollars."""

    board: PageBoard

    @cached_property
    def request(self) -> str:
        return next((section.items[0].text for section in self.board.sections if section.title == "Request"), "")

    @cached_property
    def limit(self) -> float | None:
        """The highest price that the request allows."""
        match = _LIMIT.search(self.request)
        return float(match[1]) if match else None

    @cached_property
    def lines(self) -> dict[str, str]:
        """Label → value of lines such as "Price: $10.00" on a product's page."""
        texts = [item.text for section in self.board.sections if section.layout == "text" for item in section.items]
        return dict(text.split(": ", 1) for text in texts if re.match(r"(?:Price|Rating): ", text))

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """Group of options → its values, in lower case."""
        return {
            section.title.lower(): [item.text.lower() for item in section.items]
            for section in self.board.sections
            if section.layout == "choices"
        }

    @cached_property
    def chosen(self) -> list[str]:
        return [item.text.lower() for section in self.board.sections for item in section.items if item.chosen]

    @cached_property
    def results(self) -> list[tuple[str, str, str]]:
        """Id in lower case, price and title of each result on the page."""
        return [
            (item.action[6:-1].lower(), item.detail, item.text)
            for section in self.board.sections
            if section.layout == "list"
            for item in section.items
            if item.action.startswith("click[")
        ]

    @cached_property
    def numbers(self) -> tuple[int, int] | None:
        """Page of results and number of results."""
        match = _FOUND.fullmatch(self.board.title)
        return (int(match[1]), int(match[2])) if match else None

    @property
    def kind(self) -> str:
        """search, results, product, or "" for other pages."""
        if self.numbers:
            return "results"
        if self.board.title == "Search the shop":
            return "search"
        return "product" if "Price" in self.lines and self.board.address.count("›") == 2 else ""


def read_webshop_claims(thought: str, board: GridBoard | ArmsBoard | PageBoard | TextBoard) -> list[Claim] | None:
    """Claims of a thought about the page; None for other boards."""
    if not isinstance(board, PageBoard):
        return None
    facts = PageFacts(board)
    rules = list(_rules(facts))
    claims: list[Claim] = []
    for sentence in sentences(thought):
        for kind, pattern, compare in rules:
            for match in pattern.finditer(sentence.text):
                start, end = sentence.start + match.start(), sentence.start + match.end()
                if any(start < claim.end and claim.start < end for claim in claims):
                    continue
                if not sentence.states(match.start(), match.end(), ignore=_CHOSE) or (found := compare(match)) is None:
                    continue
                true, actual, marks = found
                actual_words = None if true else actual
                claims.append(
                    Claim(start=start, end=end, true=true, kind=kind, actual=actual_words, marks=marks or None)
                )
    return sorted(claims, key=lambda claim: claim.start)


def _rules(facts: PageFacts) -> Iterator[_Rule]:
    """The rules that this page can answer, most specific first."""

    def rule(pattern: str) -> re.Pattern[str]:
        return re.compile(pattern, re.IGNORECASE)

    yield "request", rule(rf"\bprice\s+(?:of\s+)?{_BELOW}\s+{_MONEY}"), lambda match: _limit(facts, match, request=True)
    yield (
        "request",
        rule(rf"\b(?:the|my|our)\s+(?:budget|price limit|limit)(?:\s+(?:is|of)|:)\s+{_MONEY}"),
        lambda match: _limit(facts, match),
    )
    yield (
        "page",
        rule(
            r"\b(?:i'm|i am|we are|this is)\s+(?:now\s+)?(?:on\s+|looking at\s+)?(?:the\s+)"
            r"?(?P<kind>search results|search|results?|product)\s+page\b"
        ),
        lambda match: _kind(facts, match),
    )
    if facts.results:
        yield (
            "price",
            rule(rf"{_ID}\s+(?:costs|is|is priced at|is listed at|for|at)\s+{_MONEY}"),
            lambda match: _price_of(facts, match),
        )
        yield "price", rule(rf"{_ID}\s*\(\s*{_MONEY}\s*\)"), lambda match: _price_of(facts, match)
        yield (
            "search_results",
            rule(rf"\bthe\s+(?P<ordinal>{ORDINAL})\s+(?:result|product|item)\s+is\s+{_ID}"),
            lambda match: _result(facts, match),
        )
    if facts.numbers:
        yield (
            "search_results",
            rule(
                rf"\b(?:there are|found|i see)\s+(?P<number>\d+|{NUMBER})\s+(?:results|products)\b(?!\s+(?:on|"
                rf"that|which|with|below|under))"
            ),
            lambda match: _how_many(facts, match),
        )
        yield (
            "search_results",
            rule(r"\b(?:this is|i am on|i'm on|we are on)\s+page\s+(?P<number>\d+)\b"),
            lambda match: _page(facts, match),
        )
    if facts.kind == "product":
        yield from _product_rules(facts, rule)


def _product_rules(facts: PageFacts, rule: Callable[[str], re.Pattern[str]]) -> Iterator[_Rule]:
    yield "price", rule(rf"\bthe price is\s+{_BELOW}\s+{_MONEY}"), lambda match: _below(facts, match)
    yield "price", rule(rf"\b(?:the\s+)?price(?:\s+(?:is|of)|:)\s*{_MONEY}"), lambda match: _price(facts, match)
    yield "price", rule(rf"\b{_IT}\s+(?:costs|is priced at|is)\s+{_MONEY}"), lambda match: _price(facts, match)
    yield (
        "rating",
        rule(r"\b(?:the\s+|a\s+)?rating(?:\s+(?:is|of)|:)\s*(?P<value>\d(?:\.\d)?)(?![\d.]*\d)"),
        lambda match: _rating(facts, match),
    )
    if not facts.groups:
        return
    values = sorted(
        {value for group in facts.groups.values() for value in group}, key=lambda value: (-len(value), value)
    )
    value = "|".join(map(re.escape, values))
    groups = "|".join(re.escape(group.rstrip("s")) for group in facts.groups)
    other = r"[\w./-]+(?: [\w./-]+){0,2}?"
    many = rf"(?P<values>(?:{value}|{other})(?:\s*(?:,|and|, and|or)\s+(?:{value}|{other}))*)"
    end = r"(?=\s*(?:$|,|\bbut\b|\bso\b))"
    yield (
        "options",
        rule(
            rf"\b(?:option\s+)?(?P<value>{value})\s+(?:is|has(?: already)? been)\s+(?:already\s+|now\s+)"
            rf"?(?:selected|chosen)\b"
        ),
        lambda match: _chosen(facts, match),
    )
    yield (
        "options",
        rule(
            rf"\bi(?:'ve)?\s+(?:have\s+|already\s+|have already\s+)?(?:selected|chose|chosen|picked)\s+(?:the\s"
            rf"+)?(?:(?:{groups})\s+)?(?P<value>{value})\b"
        ),
        lambda match: _chosen(facts, match),
    )
    yield (
        "options",
        rule(rf"\b(?:the\s+)?available\s+(?P<group>{groups})(?:e?s)?\s+are\s+{many}{end}"),
        lambda match: _options(facts, match),
    )
    yield (
        "options",
        rule(rf"\b(?:the\s+)?(?P<group>{groups})\s+options\s+are\s+{many}{end}"),
        lambda match: _options(facts, match),
    )
    yield (
        "options",
        rule(
            rf"\b(?:it|this \w+)\s+comes\s+in\s+(?P<values>(?:{value})(?:\s*(?:,|and|, and|or)\s+(?:{value}))*)"
            rf"(?![\w-])"
        ),
        lambda match: (True, "", _texts(match["values"])),
    )
    yield (
        "options",
        rule(rf"\b(?:the\s+|a\s+)?(?P<group>{groups})\s+(?P<values>{other})\s+is\s+(?:available|offered|an option)\b"),
        lambda match: _options(facts, match),
    )
    yield (
        "options",
        rule(rf"\b(?P<values>{value})\s+is\s+(?:available|offered|an option)\b"),
        lambda match: (True, "", _texts(match["values"])),
    )


def _money(match: re.Match[str]) -> float:
    return float((match["dollars"] or match["plain"]).replace(",", ""))


def _prices(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def _limit(facts: PageFacts, match: re.Match[str], *, request: bool = False) -> Verdict | None:
    if facts.limit is None:
        return None
    true = facts.limit == _money(match)
    if request and not true:  # perhaps about the product's price
        return None
    return true, f"the request allows up to ${facts.limit:.2f}", [facts.request]


def _kind(facts: PageFacts, match: re.Match[str]) -> Verdict | None:
    stated = {"search results": "results", "result": "results"}.get(match["kind"].lower(), match["kind"].lower())
    if not facts.kind or (stated == "search" and facts.kind == "results"):  # "the search page" may mean its results
        return None
    return stated == facts.kind, f"this is the {facts.kind} page", []


def _price_of(facts: PageFacts, match: re.Match[str]) -> Verdict | None:
    for key, price, title in facts.results:
        if key == match["id"].lower():
            return _compare_price(price, _money(match), title)
    return None


def _price(facts: PageFacts, match: re.Match[str]) -> Verdict | None:
    return _compare_price(facts.lines["Price"], _money(match), f"Price: {facts.lines['Price']}")


def _compare_price(shown: str, stated: float, mark: str) -> Verdict | None:
    prices = _prices(shown)
    if len(prices) != 1:
        return None
    true = prices[0] == stated or (stated == int(stated) and round(prices[0]) == stated and prices[0] != int(prices[0]))
    return true, f"the price is {shown}", [mark]


def _below(facts: PageFacts, match: re.Match[str]) -> Verdict | None:
    prices = _prices(facts.lines["Price"])
    if len(prices) != 1:
        return None
    return prices[0] <= _money(match), f"the price is {facts.lines['Price']}", [f"Price: {facts.lines['Price']}"]


def _rating(facts: PageFacts, match: re.Match[str]) -> Verdict | None:
    shown = facts.lines.get("Rating", "")
    if not re.fullmatch(r"\d(?:\.\d+)?", shown):
        return None
    return float(shown) == float(match["value"]), f"the rating is {shown}", [f"Rating: {shown}"]


def _result(facts: PageFacts, match: re.Match[str]) -> Verdict | None:
    place = ordinal_of(match["ordinal"])
    if place > len(facts.results) or (facts.numbers and facts.numbers[0] != 1):
        return None
    key, _, title = facts.results[place - 1]
    return key == match["id"].lower(), f"result {place} is {key.upper()}", [title]


def _how_many(facts: PageFacts, match: re.Match[str]) -> Verdict | None:
    assert facts.numbers is not None
    stated = count_of(match["number"])
    if stated == len(facts.results) and stated != facts.numbers[1]:  # perhaps about this page
        return None
    return stated == facts.numbers[1], f"{facts.numbers[1]} results", []


def _page(facts: PageFacts, match: re.Match[str]) -> Verdict | None:
    assert facts.numbers is not None
    return int(match["number"]) == facts.numbers[0], f"this is page {facts.numbers[0]}", []


def _chosen(facts: PageFacts, match: re.Match[str]) -> Verdict:
    value = match["value"].lower()
    chosen = f"chosen: {', '.join(facts.chosen)}" if facts.chosen else "nothing is chosen"
    return value in facts.chosen, chosen, [value]


def _texts(values: str) -> list[str]:
    return [text for text in re.split(r"\s*(?:,\s*and\b|,|\band\b|\bor\b)\s*", values.lower().strip()) if text]


def _options(facts: PageFacts, match: re.Match[str]) -> Verdict | None:
    name = match["group"].lower()
    group = next((options for title, options in facts.groups.items() if title.rstrip("s") == name), [])
    stated = _texts(match["values"])
    if not group or not stated:
        return None
    true = all(text in group for text in stated)
    if not true and any(
        text not in group and any(text in option or option in text for option in group) for text in stated
    ):
        return None  # perhaps the same option in other words
    return true, f"{name}: {', '.join(group)}", [option for option in group if option in stated]
