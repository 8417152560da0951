"""Catalogue of a shop: products, requests, goals, and the goal of a seed."""

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
    """A product. `price` in dollars; `price_text` as shown on its page (possibly a range).

    `options` maps a group ("size") to its values ("small", "large"), all in lower case. `attributes` are the facts that
    requests refer to; no page shows them. `path` is the category from the widest to the narrowest.
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
    """A request that one product fulfils.

    With `options` None, there is a goal for every combination of the product's options, else one for these options.
    """

    product: int
    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Goal:
    """A goal: text of the request, and the values a purchase is compared with.

    `price_limit` is inclusive, in dollars.
    """

    text: str
    asin: str
    name: str
    query: str
    path: tuple[str, ...]
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    price_limit: float = math.inf


def seeded_draws(text: str) -> SeededRng:
    """Return random numbers that depend only on a text: the same for a product wherever its record is in a file."""
    return SeededRng(int.from_bytes(text.encode(), "little"), Stream.START)


def price_limit(product: Product, request: int = 0) -> float:
    """Draw a price limit for the product and its request; infinite if the price is near the maximum.

    As in the benchmark, it is the higher of two draws from the first four multiples of 10 above the price.
    """
    first = math.floor(product.price / PRICE_STEP) + 1
    limits = [PRICE_STEP * step for step in range(first, first + _LIMITS_ABOVE_THE_PRICE)]
    limits = [limit for limit in limits if limit <= HIGHEST_LIMIT]
    if len(limits) < 2:
        return math.inf
    return max(seeded_draws(f"{product.asin} {request}").sample(limits, 2))


class Catalogue:
    """Products, requests and goals of a shop. Immutable, so copies share it."""

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
        """Return the number of goals."""
        return self._ends[-1] if self._ends else 0

    @cached_property
    def index(self) -> Index:
        """Return the search index over title and description, built on first use."""
        return Index([f"{product.title} {product.description}" for product in self.products])

    def goal(self, number: int) -> Goal:
        """Return a goal by number, from 0. Combinations of options are numbered like the digits of a number."""
        at = bisect_right(self._ends, number)
        request = self.requests[at]
        product = self.products[request.product]
        names, chosen = self._chosen(request, number - (self._ends[at - 1] if at else 0))
        limit = price_limit(product, self._nth[at])
        return Goal(
            text=_goal_text(request.text, names, chosen, limit),
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
        Random(_ORDER_SEED).shuffle(order)  # the benchmark's fixed permutation
        return order

    def draw(self, seed: int, split: Split) -> Goal:
        """Return the goal of a seed in a split of the goals."""
        return self.goal(self._order[place(seed, split, self.goals)])


def _goal_text(text: str, names: tuple[str, ...], chosen: tuple[str, ...], limit: float) -> str:
    """Return the text of a goal. Human requests already mention the options, so their `names` are empty."""
    wishes = [f"{name} {value}" for name, value in zip(names, chosen, strict=False)]
    if limit < math.inf:
        wishes.append(f"price at most {limit:.2f} dollars")
    return ", ".join([text.strip().rstrip("."), *wishes])


def place(seed: int, split: Split, goals: int) -> int:
    """Return the index of a seed's goal in the permuted goals.

    From 3,000 goals as in the benchmark's code: the first 500 are for tests, the next 1,000 for validation, the rest
    for training. Smaller catalogues are divided in the same order into a sixth, a third and the rest; with fewer than
    six goals the splits overlap.
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
