"""Watched response on the stage of a live run: streamed while generated, then replaced by the played turn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from playwright.sync_api import Page, expect

from tests.browser.launching import ENDLESS, cancel, launch
from tests.running_product import wait_for
from trainer.paths import POCKET_CHECKPOINT

NOTE = """() => {
    window.typed = new Map();
    new MutationObserver(() => {
        const item = document.querySelector("[data-stage] .typing");
        const text = item?.querySelector("[data-typed]")?.textContent ?? "";
        const key = `${document.querySelector("[data-stage-title]").textContent} ${item?.dataset.turn}`;
        const known = window.typed.get(key) ?? [];
        if (item && text && known.at(-1) !== text) window.typed.set(key, [...known, text]);
    }).observe(document.querySelector("[data-stage]"), { subtree: true, childList: true, characterData: true });
}"""


def test_a_thought_streams_while_it_is_generated(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    launch(
        page,
        iterations=ENDLESS,
        **{"policy.model": str(POCKET_CHECKPOINT), "rollout.groups": "8", "rollout.group_size": "8"},
    )
    page.evaluate(NOTE)
    texts = wait_for(lambda: page.evaluate("[...typed.values()].find((texts) => texts.length >= 3)"), "a thought")
    for earlier, later in pairwise(texts):
        assert later.startswith(earlier.rstrip()[:20]), "a thought only grows"
        assert len(later) > len(earlier)
    cancel(page)
    expect(page.locator(".state").first).to_have_attribute("data-state", "cancelled")
