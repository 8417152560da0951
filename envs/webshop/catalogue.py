"""What a shop sells and what its customers ask for: products, requests, goals, and which goal a seed stands for.

Files are read in files.py, a catalogue without files is made in generated.py. Nothing here knows pages or rewards.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from random import Random
from typing import Any, Literal

from envs.support.rng import SeededRng, Stream
from envs.webshop.product_search import Index

Split = Literal["train", "validation", "test"]

PRICE_STEP = 10.0
HIGHEST_LIMIT = 990.0
_LIMITS_ABOVE_THE_PRICE = 4
_TEST_GOALS, _VALIDATION_GOALS = 500, 1000
_ORDER_SEED = 42


@dataclass(frozen=True)
class Product:
    """Something for sale. `price` is what it costs, `price_text` what its page says (perhaps a range).

    `options` maps a group ("size") to its values ("small", "large"), all in lower case. `attributes` are the facts that
    requests are made of; no page shows them. `path` is the category from the widest to the narrowest.
    """

    asin: str
    title: str
    price: float
    price_text: str
    description: str = ""
    bullets: tuple[str, ...] = ()
    reviews: tuple[str, ...] = ()
    rating: str = "N.A."
    query: str = ""
    path: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What customers want who would be served by one product.

    With `options` None there is a goal for every combination of the product's options; else they are the one choice.
    """

    product: int
    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Goal:
    """One customer's wish: its words, and what a purchase is compared with. `price_limit` is inclusive, in dollars."""

    text: str
    asin: str
    name: str
    query: str
    path: tuple[str, ...]
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    price_limit: float = math.inf


def draws_of(text: str) -> SeededRng:
    """Draws that belong to a text: the same for one product wherever its record stands in a file."""
    return SeededRng(int.from_bytes(text.encode(), "little"), Stream.START)


def price_limit(product: Product, request: int = 0) -> float:
    """A limit above the price, drawn for the product and its request; infinite where the price is near the highest.

    As in the benchmark: of the first four multiples of 10 above the price two are drawn, and the higher one is told.
    """
    first = math.floor(product.price / PRICE_STEP) + 1
    limits = [PRICE_STEP * step for step in range(first, first + _LIMITS_ABOVE_THE_PRICE)]
    limits = [limit for limit in limits if limit <= HIGHEST_LIMIT]
    if len(limits) < 2:
        return math.inf
    return max(draws_of(f"{product.asin} {request}").sample(limits, 2))


class Catalogue:
    """The products of a shop, the requests made to it, and their goals. Never changed, so copies share it."""

    def __init__(self, source: str, products: tuple[Product, ...], requests: tuple[Request, ...]) -> None:
        self.source = source
        self.products = products
        self.requests = requests
        self.by_asin = {product.asin.lower(): number for number, product in enumerate(products)}
        self._ends = list(accumulate(self._choices(request) for request in requests))
        self._nth: list[int] = []
        seen: dict[int, int] = {}
        for request in requests:
            self._nth.append(seen.get(request.product, 0))
            seen[request.product] = self._nth[-1] + 1

    def __deepcopy__(self, memo: dict[int, Any]) -> Catalogue:
        return self

    def _choices(self, request: Request) -> int:
        if request.options is not None:
            return 1
        return math.prod(len(values) for values in self.products[request.product].options.values())

    @property
    def goals(self) -> int:
        """How many goals there are."""
        return self._ends[-1] if self._ends else 0

    @cached_property
    def index(self) -> Index:
        """The search over title and description, built when first used."""
        return Index([f"{product.title} {product.description}" for product in self.products])

    def goal(self, number: int) -> Goal:
        """The goal of that number, from 0. Combinations of options are numbered like the digits of a number."""
        at = bisect_right(self._ends, number)
        request = self.requests[at]
        product = self.products[request.product]
        names, chosen = self._chosen(request, number - (self._ends[at - 1] if at else 0))
        limit = price_limit(product, self._nth[at])
        return Goal(
            text=_words(request.text, names, chosen, limit),
            asin=product.asin,
            name=product.title,
            query=product.query,
            path=product.path,
            attributes=request.attributes,
            options=chosen,
            price_limit=limit,
        )

    def _chosen(self, request: Request, rest: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if request.options is not None:
            return (), request.options
        options = self.products[request.product].options
        chosen: list[str] = []
        for name in sorted(options, reverse=True):
            rest, digit = divmod(rest, len(options[name]))
            chosen.append(options[name][digit])
        return tuple(sorted(options)), tuple(reversed(chosen))

    @cached_property
    def _order(self) -> list[int]:
        order = list(range(self.goals))
        Random(_ORDER_SEED).shuffle(order)  # the benchmark's own fixed permutation
        return order

    def draw(self, seed: int, split: Split) -> Goal:
        """The goal that a seed stands for in a split of the goals."""
        return self.goal(self._order[place(seed, split, self.goals)])


def _words(text: str, names: tuple[str, ...], chosen: tuple[str, ...], limit: float) -> str:
    """The request in words. A person's own words name the options already, so their `names` are empty."""
    wishes = [f"{name} {value}" for name, value in zip(names, chosen, strict=False)]
    if limit < math.inf:
        wishes.append(f"price at most {limit:.2f} dollars")
    return ", ".join([text.strip().rstrip("."), *wishes])


def place(seed: int, split: Split, goals: int) -> int:
    """Where in the permuted goals a seed points to.

    From 3,000 goals up as the benchmark's code does: the first 500 are for tests, the next 1,000 for validation, the
    rest for training. Smaller catalogues are divided in the same order into a sixth, a third and the rest; with fewer
    than six goals the splits are not kept apart.
    """
    if goals < 6:
        return seed % goals
    test = min(_TEST_GOALS, goals // 6)
    validation = min(_VALIDATION_GOALS, goals // 3)
    if split == "test":
        return seed % test
    if split == "validation":
        return seed % validation + test
    return seed % (goals - test - validation) + test + validation
