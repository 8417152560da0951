"""Claims about a page of the shop: price, rating, options, chosen options, results, and the request's limit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from envs.base import Board, Claim, PageBoard, PageItem
from envs.claims.claim_rules import Match, Rule, Verdict, read, read_number, table

_CHOSE = re.compile(r"\b(?:been)\b", re.IGNORECASE)
_LIMIT = re.compile(
    r"price (?:lower than|below|under|less than|at most|up to|of at most) \$?(\d+(?:\.\d+)?)", re.IGNORECASE
)
_FOUND = re.compile(r"Page (\d+), (\d+) found")


@dataclass(frozen=True)
class Page:
    """Contents of a page, with prices in dollars, and checks of statements about it; each gets a match of its rule."""

    board: PageBoard

    def _items(self, layout: str) -> list[PageItem]:
        return [item for section in self.board.sections if section.layout == layout for item in section.items]

    @cached_property
    def request(self) -> str:
        return next((section.items[0].text for section in self.board.sections if section.title == "Request"), "")

    @cached_property
    def lines(self) -> dict[str, str]:
        """Return label → value of lines such as "Price: $10.00" on a product's page."""
        texts = [item.text for item in self._items("text")]
        return dict(text.split(": ", 1) for text in texts if re.match(r"(?:Price|Rating): ", text))

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """Return group of options → its values, in lower case, on a product's page."""
        sections = self.board.sections if self.kind == "product" else ()
        return {
            section.title.lower(): [item.text.lower() for item in section.items]
            for section in sections
            if section.layout == "choices"
        }

    @cached_property
    def results(self) -> list[tuple[str, str, str]]:
        """Return id in lower case, price and title of each result on the page."""
        items = [item for item in self._items("list") if item.action.startswith("click[")]
        return [(item.action[6:-1].lower(), item.detail, item.text) for item in items]

    @cached_property
    def numbers(self) -> tuple[int, int] | None:
        """Return the page of results and the number of results."""
        match = _FOUND.fullmatch(self.board.title)
        return (int(match[1]), int(match[2])) if match else None

    @cached_property
    def kind(self) -> str:
        """Return search, results, product, or "" for other pages."""
        if self.numbers:
            return "results"
        if self.board.title == "Search the shop":
            return "search"
        return "product" if "Price" in self.lines and self.board.address.count("›") == 2 else ""

    def limit(self, match: Match) -> Verdict | None:
        allowed = _LIMIT.search(self.request)
        if allowed is None:
            return None
        true = float(allowed[1]) == _money(match)
        if not true and not match.groupdict().get("own"):  # perhaps about the product's price
            return None
        return Verdict(true, f"the request allows up to ${float(allowed[1]):.2f}", marks=[self.request])

    def kind_of_page(self, match: Match) -> Verdict | None:
        stated = {"search results": "results", "result": "results"}.get(match["kind"].lower(), match["kind"].lower())
        if not self.kind or (stated == "search" and self.kind == "results"):  # "the search page" may mean its results
            return None
        return Verdict(stated == self.kind, f"this is the {self.kind} page")

    def result_price(self, match: Match) -> Verdict | None:
        shown = {key: (price, title) for key, price, title in self.results}.get(match["id"].lower())
        return self.compare_price(*shown, match) if shown else None

    def price(self, match: Match) -> Verdict | None:
        shown = self.lines.get("Price", "") if self.kind == "product" else ""
        return self.compare_price(shown, f"Price: {shown}", match)

    def compare_price(self, shown: str, mark: str, match: Match) -> Verdict | None:
        """Judge whether a price is the stated one or, with the group `below`, not above it; dollars may be rounded."""
        prices = [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", shown)]
        if len(prices) != 1:
            return None
        (price,), stated = prices, _money(match)
        rounded = stated == int(stated) and round(price) == stated and price != int(price)
        true = price <= stated if match.groupdict().get("below") else price == stated or rounded
        return Verdict(true, f"the price is {shown}", marks=[mark])

    def rating(self, match: Match) -> Verdict | None:
        shown = self.lines.get("Rating", "")
        if self.kind != "product" or not re.fullmatch(r"\d(?:\.\d+)?", shown):
            return None
        return Verdict(float(shown) == float(match["value"]), f"the rating is {shown}", marks=[f"Rating: {shown}"])

    def result(self, match: Match) -> Verdict | None:
        position = read_number(match["ordinal"])
        if not 0 < position <= len(self.results) or (self.numbers and self.numbers[0] != 1):
            return None
        key, _, title = self.results[position - 1]
        return Verdict(key == match["id"].lower(), f"result {position} is {key.upper()}", marks=[title])

    def how_many(self, match: Match) -> Verdict | None:
        stated = read_number(match["number"])
        if not self.numbers or (stated == len(self.results) and stated != self.numbers[1]):  # perhaps about this page
            return None
        return Verdict(stated == self.numbers[1], f"{self.numbers[1]} results")

    def page_number(self, match: Match) -> Verdict | None:
        return self.numbers and Verdict(int(match["number"]) == self.numbers[0], f"this is page {self.numbers[0]}")

    def chosen(self, match: Match) -> Verdict:
        value = " ".join(match["value"].lower().split())
        chosen = [item.text.lower() for section in self.board.sections for item in section.items if item.chosen]
        return Verdict(
            value in chosen, f"chosen: {', '.join(chosen)}" if chosen else "nothing is chosen", marks=[value]
        )

    def offered(self, match: Match) -> Verdict:
        return Verdict(True, marks=_texts(match))

    def options(self, match: Match) -> Verdict | None:
        name, stated = match["group"].lower(), _texts(match)
        group = next((options for title, options in self.groups.items() if title.rstrip("s") == name), [])
        unknown = [text for text in stated if text not in group]
        if not group or not stated or any(text in option or option in text for option in group for text in unknown):
            return None  # perhaps the same option in other words
        return Verdict(
            not unknown, f"{name}: {', '.join(group)}", marks=[option for option in group if option in stated]
        )


def read_webshop_claims(thought: str, board: Board) -> list[Claim] | None:
    """Return claims of a thought about the page; None for other boards."""
    if not isinstance(board, PageBoard):
        return None
    page = Page(board)
    values = sorted({value for group in page.groups.values() for value in group})
    return read(thought, page, _rules(tuple(page.groups), tuple(values)), ignore=_CHOSE)


_WORDS = {
    "money": r"(\$\s*(?P<dollars>\d{1,6}(,\d{3})*(\.\d{1,2})?)|(?P<plain>\d{1,6}(\.\d{1,2})?)\s*(dollars|usd|bucks))"
    r"(?![\d.]*\d)",
    "it": r"it|this|this (item|product|one)|the (item|product)|this [a-z]+",
    "below": r"below|under|less than|lower than|cheaper than|within|at most|no more than",
    "id": r"(?P<id>\b(b0[a-z0-9]{8}|es\d{4})\b)",
    "other": r"[\w./-]+( [\w./-]+){0,2}?",
    "any": r"{value}|{other}",
    "next": r"\s*(,|and|, and|or) ",
    "is_offered": r" is (available|offered|an option)\b",
    "end": r"(?=\s*($|,|\bbut\b|\bso\b))",
}


@lru_cache(maxsize=64)
def _rules(groups: tuple[str, ...], values: tuple[str, ...]) -> list[Rule]:
    """Return the rules for a page with these options."""

    def any_text(texts: tuple[str, ...]) -> str:
        ordered = sorted(texts, key=lambda text: (-len(text), text))
        return "|".join(re.escape(text).replace(r"\ ", " ") for text in ordered) or r"(?!)"

    return table(
        _WORDS | {"value": any_text(values), "group": any_text(tuple(group.rstrip("s") for group in groups))},
        ("request", r"\bprice (of )?{below} {money}", Page.limit),
        ("request", r"\b(the|my|our) (?P<own>budget|price limit|limit)( (is|of)|:) {money}", Page.limit),
        ("page", r"\b(i'm|i am|we are|this is) (now )?(on |looking at )?(the )?"
                 r"(?P<kind>search results|search|results?|product) page\b", Page.kind_of_page),
        ("price", r"{id} (costs|is|is priced at|is listed at|for|at) {money}", Page.result_price),
        ("price", r"{id}\s*\(\s*{money}\s*\)", Page.result_price),
        ("search_results", r"\bthe {ordinal:ordinal} (result|product|item) is {id}", Page.result),
        ("search_results", r"\b(there are|found|i see) (?P<number>\d+|{number}) (results|products)\b"
                           r"(?! (on|that|which|with|below|under))", Page.how_many),
        ("search_results", r"\b(this is|i am on|i'm on|we are on) page (?P<number>\d+)\b", Page.page_number),
        ("price", r"\bthe price is (?P<below>{below}) {money}", Page.price),
        ("price", r"\b(the )?price( (is|of)|:)\s*{money}", Page.price),
        ("price", r"\b{it} (costs|is priced at|is) {money}", Page.price),
        ("rating", r"\b(the |a )?rating( (is|of)|:)\s*(?P<value>\d(\.\d)?)(?![\d.]*\d)", Page.rating),
        ("options", r"\b(option )?{value:value} (is|has( already)? been) (already |now )?(selected|chosen)\b",
         Page.chosen),
        ("options", r"\bi('ve)? (have |already |have already )?(selected|chose|chosen|picked) (the )?({group} )?"
                    r"{value:value}\b", Page.chosen),
        ("options", r"\b(the )?available {group:group}(e?s)? are (?P<values>{any}({next}{any})*){end}", Page.options),
        ("options", r"\b(the )?{group:group} options are (?P<values>{any}({next}{any})*){end}", Page.options),
        ("options", r"\b(it|this \w+) comes in (?P<values>{value}({next}{value})*)(?![\w-])", Page.offered),
        ("options", r"\b(the |a )?{group:group} {values:other}{is_offered}", Page.options),
        ("options", r"\b{values:value}{is_offered}", Page.offered),
    )  # fmt: skip


def _money(match: Match) -> float:
    return float((match["dollars"] or match["plain"]).replace(",", ""))


def _texts(match: Match) -> list[str]:
    texts = re.split(r"\s*(?:,\s*and\b|,|\band\b|\bor\b)\s*", match["values"].lower().strip())
    return [" ".join(text.split()) for text in texts if text]
