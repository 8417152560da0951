"""Score of a purchase: the benchmark's comparison of a bought product with a goal.

The benchmark compares the nouns of product names, found by a statistical tagger that must be downloaded. Content words
replace them here: all words of the name except numbers, single letters and stop words. Names share adjectives more
often than nouns, so r_type is sometimes 1 where the benchmark gives 0.5 or less.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from envs.webshop.catalogue import Goal, Product

ALIKE = 85.0
"""Texts with a token-set ratio above this are considered equal."""

SHARED_NAME = 0.2
HARDLY_SHARED = 0.1

_WORD = re.compile(r"[^\W_]+")
_EMPTY_WORDS_TEXT = """
about above after all also an and any are as at be been before below between both but by can compatible could did
do does each either every for free from great had has have her hers high him his how if in into is it its just
less like made many may more most much my near neither new no nor not now of off on one only or other our out
over own per pcs perfect piece pieces plus set should so some such than that the their them then there these
they this those through to too two under up upon use used very was way were what when where which while who
will with within without would you your
"""
_EMPTY_WORDS = frozenset(_EMPTY_WORDS_TEXT.split())
_COLOURS_TEXT = """
apricot aqua azure beige black blue bronze brown burgundy camel charcoal chocolate copper coral cream crimson
cyan fuchsia gold gray green grey indigo ivory khaki lavender lilac lime magenta maroon mint mustard navy olive
orange peach pink plum purple red rose rust salmon silver tan taupe teal turquoise violet white wine yellow
"""
_COLOURS = tuple(_COLOURS_TEXT.split())
_LETTERS = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class Score:
    """Score of a purchase; `total` is the reward, from 0 to 1."""

    r_type: float
    attributes: int
    options: int
    price: bool
    parts: int

    @property
    def total(self) -> float:
        return self.r_type * (self.attributes + self.options + self.price) / self.parts


def score(product: Product, chosen: Iterable[str], goal: Goal) -> Score:
    """Compare a purchase with a goal.

    Args:
        product: the bought product.
        chosen: values of the options chosen on its page.
        goal: the request.
    Returns:
        r_type · (matched attributes + matched options + price within the limit) / (attributes + options + 1).
    Source: Yao et al. 2022, and the published code for details missing there.
    """
    bought = [normal_colour(value) for value in chosen]
    return Score(
        r_type=type_factor(product, goal),
        attributes=sum(has_attribute(product, attribute) for attribute in goal.attributes),
        options=sum(any(alike(value, normal_colour(option)) for value in bought) for option in goal.options),
        price=product.price <= goal.price_limit,
        parts=len(goal.attributes) + len(goal.options) + 1,
    )


def type_factor(product: Product, goal: Goal) -> float:
    """Return 1, 0.5, 0.1 or 0, depending on how well the product's kind matches the request."""
    requested = content_words(goal.name)
    share = len(requested & content_words(product.title)) / len(requested) if requested else SHARED_NAME
    if share == 0:
        return 0.0
    if share < HARDLY_SHARED:
        return 0.1
    same_query = bool(goal.query) and product.query == goal.query
    related = same_query or len(set(product.path) & set(goal.path)) >= 2
    return 1.0 if related or share > SHARED_NAME else 0.5


@lru_cache(maxsize=4096)
def content_words(name: str) -> frozenset[str]:
    """Return the content words of a name in lower case, which replace the benchmark's nouns."""
    words = _WORD.findall(name.lower().replace("'s", "").replace("’s", ""))
    return frozenset(word for word in words if len(word) > 1 and word not in _EMPTY_WORDS and not word.isdigit())


def has_attribute(product: Product, attribute: str) -> bool:
    """Return True if the product has a similar attribute, or one of its pages mentions it."""
    if any(alike(other, attribute) for other in product.attributes):
        return True
    text = attribute.lower()
    return (
        text in product.title.lower()
        or text in " ".join(product.bullets).lower()
        or text in product.description.lower()
    )


def alike(one: str, other: str) -> bool:
    """Return True if two short texts are equal or have a token-set ratio above 85."""
    from rapidfuzz import fuzz, utils

    return one == other or fuzz.token_set_ratio(one, other, processor=utils.default_process) > ALIKE


def normal_colour(value: str) -> str:
    """Return the first colour, in the order of the list, that an option mentions; else the option itself.

    So "light blue" equals "blue". Only whole words count: "assorted" does not contain red.
    """
    named = set(_LETTERS.findall(value.lower()))
    return next((colour for colour in _COLOURS if colour in named), value)
