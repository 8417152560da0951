"""WebShop environment: a request, the pages of a shop, and a reward for the purchase.

Reward is 0 until the purchase, then r_type · (matching attributes + options + price) / (requested values).
Content words of product names replace the nouns that the benchmark finds with a downloaded tagger (`reward`).
"""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, ClassVar

from gymnasium.error import ResetNeeded
from pydantic import Field

from envs.base import (
    ArmsBoard,
    Claim,
    EnvSettings,
    EnvSpec,
    GridBoard,
    Hint,
    PageBoard,
    StepInfo,
    TextBoard,
    TextEnv,
)
from envs.claims.webshop_claims import read_webshop_claims
from envs.spaces import AnyText
from envs.support.reset_options import read_options
from envs.text_roles import TextRole
from envs.webshop import catalogue_files, generated, pages, reward
from envs.webshop.catalogue import Catalogue, Goal, Split
from envs.webshop.oracle import Oracle
from envs.webshop.pages import Place

VARIABLE = "ECHOSCOPE_WEBSHOP_DATA"
"""Environment variable with the folder of the benchmark's files, used if the setting `path` is empty."""

HINTS = (
    "Search with the few words that name the product.",
    "Open a product with a click on its id.",
    "Look at description, features or reviews when the title leaves a wish open.",
    "Choose every option the request names, then buy.",
    "One purchase ends the episode.",
)
NO_HINTS = "-"
_OFFER = "You can do one of these now: "


class WebShopSettings(EnvSettings):
    """Settings of the shop, its requests and its texts."""

    path: Annotated[str | None, TextRole.PATH] = Field(
        None,
        description=f"Folder with the benchmark's files (items_shuffle*.json, items_ins_v2*.json); empty = "
        f"the one that {VARIABLE} names, or else a generated catalogue.",
    )
    products: int | None = Field(None, ge=1, description="Maximum number of products of the file; empty = all.")
    goals: catalogue_files.Goals = Field(
        "auto", description="Requests: written by people (human), generated (synthetic), or human if available (auto)."
    )
    split: Split = Field("train", description="Part of the goals to play.")
    hints: Annotated[str | None, TextRole.PLAIN] = Field(
        None, max_length=4000, description="Lines shown under every page; empty = the shop's own, - = none."
    )
    longest_text: int = Field(
        1500, ge=100, le=100_000, description="Maximum characters shown of a description, features or reviews."
    )
    results_per_page: int = Field(
        pages.PER_PAGE, ge=1, le=50, description="Results of a search on a page; the benchmark shows 10."
    )
    max_steps: int | None = Field(
        None, ge=1, description="Actions after which the environment itself ends the episode; empty = never."
    )


def catalogue_for(settings: WebShopSettings) -> Catalogue:
    """Return the catalogue of the settings, shared by all environments of the process with equal settings."""
    folder = settings.path or os.environ.get(VARIABLE)
    if folder:
        return catalogue_files.load(folder, settings.goals, settings.products)
    return generated.catalogue(settings.products)


class WebShop(TextEnv):
    """Buy the requested product: search, open it, choose options, buy. `reset(options={"goal": n})` selects a goal.

    Actions are `search[words]` and `click[thing]`, case-insensitive; a page's text ends with the actions it offers.
    """

    Settings: ClassVar[type[EnvSettings]] = WebShopSettings
    settings: WebShopSettings

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        self.env_spec = EnvSpec(
            name="WebShop",
            title="WebShop",
            summary="Find the requested product in a shop, choose its options and buy it.",
            instruction="Buy the product that fits the request. Actions are search[words] and click[thing].",
            vocabulary={},
            actions=(),
            max_turns=9,
            max_actions_per_turn=1,
            max_actions=9,
            success="The purchase fits the request in every point (reward 1).",
        )
        self.action_space: AnyText = AnyText()
        self.observation_space = AnyText()
        hints = self.settings.hints
        lines = "\n".join(HINTS) if hints is None else "" if hints.strip() == NO_HINTS else hints
        self._hints = f"{lines}\n" if lines else ""
        self._catalogue: Catalogue | None = None

    def prepare(self) -> None:
        """Read and index the catalogue, which takes minutes for the benchmark's full catalogue."""
        if self._catalogue is None:
            self._catalogue = catalogue_for(self.settings)
            self._catalogue.index  # noqa: B018 built on first access

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = read_options(options, {"goal": "a whole number"})
        if seed is None:
            seed = int(self.np_random.integers(2**62))
        self.prepare()
        assert self._catalogue is not None
        catalogue = self._catalogue
        if "goal" in options:
            self.goal: Goal = catalogue.goal(int(options["goal"]))
        else:
            self.goal = catalogue.draw(seed, self.settings.split)
        self._oracle = Oracle(catalogue, self.goal, self.settings.results_per_page)
        self._place = Place(per_page=self.settings.results_per_page)
        self._last: str | None = None
        self._bought: reward.Score | None = None
        self._taken = 0
        self._over = False
        return self.render(), self._info(effective=False, valid=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        catalogue = self.catalogue
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        next_place = pages.follow(catalogue, self._place, action)
        if next_place is None:
            return self.render(), 0.0, False, False, self._info(effective=False, valid=False)
        previous_place, self._place = self._place, next_place
        self._taken += 1
        self._last = _TIDY.sub(" ", action.strip())
        if next_place.kind == "done":
            self._bought = reward.score(catalogue.products[next_place.product], next_place.chosen.values(), self.goal)
        paid = self._bought.total if self._bought else 0.0
        truncated = self._bought is None and self._taken == self.settings.max_steps
        self._over = self._bought is not None or truncated
        info = self._info(effective=next_place != previous_place, valid=True)
        return self.render(), paid, self._bought is not None, truncated, info

    def render(self) -> str:
        """Return visible texts (only the request before the first action), hint lines, and the offered actions."""
        catalogue = self.catalogue
        texts = [self.goal.text] if self._last is None else self._texts()
        page = f"{pages.SEPARATOR.join(texts)}."
        if self._place.kind == "done":
            return page
        return f"{page}\n{self._hints}{_OFFER}{', '.join(pages.available(catalogue, self._place))}."

    def board(self) -> PageBoard:
        """Return the current page."""
        verdict = ""
        if self._bought is not None:
            bought = self._bought
            verdict = (
                f"Reward {bought.total:.2f}: {bought.attributes} of {len(self.goal.attributes)} attributes, "
                f"{bought.options} of {len(self.goal.options)} options, price {'within' if bought.price else 'above'} "
                f"the limit, kind of product × {bought.r_type:g}"
            )
        return pages.draw(self.catalogue, self._place, self.goal.text, self._last, verdict)

    @classmethod
    def read_claims(cls, thought: str, board: GridBoard | ArmsBoard | PageBoard | TextBoard) -> list[Claim] | None:
        """Read claims about price, rating, options, results and the request's limit on the page."""
        return read_webshop_claims(thought, board)

    def hint(self) -> Hint:
        """Return advice of an oracle that knows the requested product."""
        if self._catalogue is None:
            raise ResetNeeded("call reset() first")
        return self._oracle.hint(self._place, self._bought)

    @property
    def catalogue(self) -> Catalogue:
        """Return the shop of this episode."""
        if self._catalogue is None:
            raise ResetNeeded("call reset() first")
        return self._catalogue

    @property
    def available_actions(self) -> list[str]:
        """Return the actions of the current page; `search[keywords]` represents a search for any text."""
        return pages.available(self.catalogue, self._place)

    @property
    def end_of_page(self) -> bool:
        """Return True if the page is after the last page of results and only leads back."""
        return self._place.kind == "results" and pages.clicks(self.catalogue, self._place) == [
            pages.BACK,
            pages.PREVIOUS,
        ]

    @property
    def bought(self) -> reward.Score | None:
        """Return the score of the purchase; None before it."""
        return self._bought

    def _texts(self) -> list[str]:
        return pages.texts(self.catalogue, self._place, self.goal.text, self.settings.longest_text)

    def _info(self, *, effective: bool, valid: bool) -> dict[str, Any]:
        success = self._bought is not None and self._bought.total == 1
        return StepInfo(success=success, effective=effective, valid=valid).model_dump()


_TIDY = re.compile(r"\s+")
