"""Oracle advice: the shortest way to a perfect purchase, given the product that a goal was made from.

Other products may fulfil the same request; the oracle ignores them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from envs.base import Hint
from envs.webshop import pages, reward
from envs.webshop.catalogue import Catalogue, Goal
from envs.webshop.pages import PER_PAGE, Place
from envs.webshop.product_search import words

_UNREACHABLE = 10**6


class Oracle:
    """Advice for one goal of a catalogue with this number of results on a page. Searches are cached."""

    def __init__(self, catalogue: Catalogue, goal: Goal, per_page: int = PER_PAGE) -> None:
        self.catalogue, self.goal, self.per_page = catalogue, goal, per_page
        self.target = catalogue.by_asin[goal.asin.lower()]
        self.product = catalogue.products[self.target]

    def __deepcopy__(self, memo: dict[int, Any]) -> Oracle:
        return self  # immutable except for caches

    @cached_property
    def required(self) -> dict[str, str]:
        """Return options to choose on the product's page: group → label to click."""
        options = list(pages.labels(self.product).items())
        required: dict[str, str] = {}
        for value in self.goal.options:
            same = [(label, group) for label, (group, option) in options if option == value and group not in required]
            colour = reward.normal_colour(value)
            near = (
                (label, group)
                for label, (group, option) in options
                if group not in required and reward.alike(reward.normal_colour(option), colour)
            )
            label, group = same[0] if same else next(near, ("", ""))
            if label:
                required[group] = label
        return required

    @cached_property
    def best(self) -> float:
        """Return the maximum reward of the product."""
        labels = pages.labels(self.product)
        return reward.score(self.product, [labels[label][1] for label in self.required.values()], self.goal).total

    @cached_property
    def search(self) -> tuple[str, int]:
        """Return the shortest search that finds the product on the earliest page of results, and that page."""
        product = self.product
        whole = f"{product.title} {product.description}"
        best = ("", _UNREACHABLE)
        for terms in (product.query, _first(product.title, 6), _first(product.title, 60), _first(whole, 60)):
            results = self.catalogue.index.find(terms)
            page = results.index(self.target) // self.per_page + 1 if self.target in results else _UNREACHABLE
            if page < best[1]:
                best = (terms, page)
            if page == 1:
                break
        return best

    def hint(self, place: Place, last: reward.Score | None) -> Hint:
        """Return all best next actions, and the number of actions to a perfect purchase."""
        if place.kind == "done":
            total = last.total if last else 0.0
            if total == 1:
                return Hint(distance=0, value=1.0)
            return Hint(value=total, solvable="no", reason=f"the purchase matches the request only to {total:.2f}")
        if place.product != self.target and self.target not in place.results and self.search[1] == _UNREACHABLE:
            return Hint(solvable="unknown", reason="none of the oracle's searches finds the product")
        actions, distance = self._on_product(place) if place.product == self.target else self._elsewhere(place)
        if self.best < 1:
            reason = f"the requested product matches its own request only to {self.best:.2f}"
            return Hint(actions=actions, value=self.best, solvable="unknown", reason=reason)
        return Hint(actions=actions, distance=distance)

    @property
    def _purchase(self) -> int:
        """Return the number of actions from the product's page, without chosen options, to the purchase."""
        return len(self.required) + 1

    @property
    def _from_search(self) -> int:
        return 1 + (self.search[1] - 1) + 1 + self._purchase

    def _on_product(self, place: Place) -> tuple[list[str], int]:
        labels = pages.labels(self.product)
        missing = [label for group, label in self.required.items() if place.chosen.get(group) != labels[label][1]]
        if place.kind != "product":
            return [f"click[{pages.PREVIOUS}]"], 1 + len(missing) + 1
        names = missing or [pages.BUY]
        return [f"click[{name}]" for name in names], len(missing) + 1

    def _elsewhere(self, place: Place) -> tuple[list[str], int]:
        if place.kind == "search":
            return [f"search[{self.search[0]}]"], self._from_search
        new_search, backward = 1 + self._from_search, self._through_results(place)
        actions: list[str] = [f"click[{pages.BACK}]"] if new_search <= backward else []
        if backward <= new_search:
            actions.insert(0, self._backward(place))
        return actions, min(new_search, backward)

    def _through_results(self, place: Place) -> int:
        """Return the number of actions via the current results; _UNREACHABLE if they do not contain the product."""
        if self.target not in place.results:
            return _UNREACHABLE
        page = place.results.index(self.target) // place.per_page + 1
        up = {"results": 0, "product": 1}.get(place.kind, 2)
        return up + abs(page - place.number) + 1 + self._purchase

    def _backward(self, place: Place) -> str:
        if place.kind != "results":
            return f"click[{pages.PREVIOUS}]"
        page = place.results.index(self.target) // place.per_page + 1
        if page == place.number:
            return f"click[{self.product.asin.lower()}]"
        return f"click[{pages.NEXT if page > place.number else pages.PREVIOUS}]"


def _first(text: str, count: int) -> str:
    """Return the first words of a text, as a search."""
    return " ".join(words(text)[:count])
