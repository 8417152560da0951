"""Journey of a new user on the running product with the real trainer: from the form to a share link."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.launching import ENDLESS, cancel, launch
from tests.running_product import LiveStack
from trainer.paths import POCKET_CHECKPOINT


def test_from_the_form_to_a_shared_link(
    signed_in: Callable[..., Page], new_context: Callable[..., BrowserContext], live_stack: LiveStack
) -> None:
    page = signed_in()

    # launch, with an invalid value first
    page.goto("/runs/new")
    field = page.get_by_label("Iterations", exact=False).first
    field.fill("many")
    expect(page.locator("#f-iterations-error")).to_have_text("must be a whole number above 0, not 'many'")
    expect(page.locator("#check")).to_contain_text("Iterations must be a whole number above 0")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("3")
    expect(page.locator("#f-iterations-error")).to_have_text("")
    launch(page)

    # turns arrive without a reload
    expect(page.locator(".state").first).to_have_attribute("data-state", "running")
    expect(page.locator("[data-stage] .turn:visible").first).to_be_visible()
    expect(page.locator("[data-stage] .board svg")).to_be_visible()
    expect(page.locator("[data-wall] .cell.success, [data-wall] .cell.failed").first).to_be_attached()
    expect(page.locator("[data-phase]")).to_contain_text("Iteration")
    expect(page.locator("[data-chart=reward] canvas")).to_be_visible()

    # open an attempt that has ended
    page.locator("[data-wall] .cell.success, [data-wall] .cell.failed").first.click()
    expect(page.locator("[data-stage-note]")).to_have_attribute("data-kind", "pinned")
    page.get_by_role("link", name="Open this attempt").click()
    page.wait_for_url(re.compile(r"/t/\w+$"))
    expect(page.locator("[data-position]")).to_contain_text("Turn 1")

    # step through it with the keyboard
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"\?turn=\d+(&action=\d+)?$"))
    page.keyboard.press("End")
    last = page.locator("[data-position]").inner_text()
    page.keyboard.press("Home")
    expect(page.locator("[data-position]")).to_contain_text("Turn 1")
    page.keyboard.press(" ")
    page.keyboard.press(" ")
    page.keyboard.press("End")
    expect(page.locator("[data-position]")).to_have_text(last)

    # copy the permalink: it opens at the same position
    page.keyboard.press("c")
    expect(page.get_by_text("Link to this position copied")).to_be_visible()
    permalink = page.evaluate("navigator.clipboard.readText()")
    assert permalink == page.url
    page.goto(permalink)
    expect(page.locator("[data-position]")).to_have_text(last)

    # share it, and open the link in a browser that is logged out
    page.get_by_role("link", name="Share", exact=True).click()
    page.get_by_role("button", name="Create link").click()
    shared = page.locator("[data-share-link]").input_value()
    stranger = new_context().new_page()
    stranger.goto(shared)
    expect(stranger.locator(".board svg")).to_be_visible()
    expect(stranger.locator("[data-position]")).to_have_text(last)  # it opens at the shared position
    stranger.keyboard.press("Home")
    stranger.keyboard.press("End")
    expect(stranger.locator("[data-position]")).to_have_text(last)
    stranger.goto(permalink)
    expect(stranger.get_by_role("heading", name="Log in")).to_be_visible()

    # revoke it
    page.get_by_text("Revoke …").click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Revoked.")).to_be_visible()
    assert stranger.request.get(shared).status == 404


def test_the_one_time_link_opens_its_page_with_one_click(
    new_context: Callable[..., BrowserContext], live_stack: LiveStack
) -> None:
    code = (
        "from webapp.teams.first_login import link\nfrom webapp.teams.models import User\n"
        "print(link(User.objects.earliest('pk'), '/environments'))"
    )
    path = re.findall(r"/welcome/\S+", live_stack.manage("shell", input=code))[-1]
    page = new_context().new_page()
    page.goto(path)
    expect(page.get_by_role("button", name="Log in as")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/environments$"))


def a_trajectory(page: Page, run: str) -> str:
    """The path of a trajectory of that run."""
    page.goto(run)
    return str(page.locator("[data-open]").get_attribute("href"))


def test_the_run_page_catches_up_after_a_reconnect(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    launch(page, iterations=ENDLESS, **{"policy.model": str(POCKET_CHECKPOINT)})
    expect(page.locator("[data-stage] .turn:visible").first).to_be_visible()
    before = page.locator("[data-phase]").inner_text()
    page.evaluate("window.loaded = 'once'")
    page.context.set_offline(True)
    expect(page.locator("[data-connection]")).to_contain_text("Offline")
    page.context.set_offline(False)
    expect(page.locator("[data-connection]")).to_be_hidden()
    expect(page.locator("[data-phase]")).not_to_have_text(before)
    expect(page.locator("[data-phase]")).to_contain_text(re.compile(r"Iteration ([2-9]|\d\d+) of"))
    assert page.evaluate("window.loaded") == "once", "it was loaded again instead of catching up"
    cancel(page)
    expect(page.locator(".state").first).to_have_attribute("data-state", "cancelled")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".state").first).to_have_attribute("data-state", re.compile("queued|starting|running"))
    cancel(page)
    expect(page.locator(".state").first).to_have_attribute("data-state", "cancelled")


def test_the_live_page_is_operable_by_keyboard(played: str, signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    page.goto(played)
    page.locator(".wall-cells").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("[data-stage-title]")).to_have_text("Evaluation puzzle 2")
    expect(page.locator("[data-wall-words]")).to_contain_text("Puzzle 2:")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("]")
    expect(page.locator("[data-stage-title]")).to_have_text("Evaluation puzzle 3")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("End")
    expect(page.locator("[data-stage] [data-position]")).to_contain_text("action")


def test_pages_fit_a_phone(played: str, signed_in: Callable[..., Page]) -> None:
    phone = signed_in(viewport={"width": 390, "height": 844}, color_scheme="dark")
    trajectory = a_trajectory(phone, played)
    for path in ("/", played, f"{played}trajectories", f"{played}curves", trajectory, "/runs/new", "/environments"):
        for width in (390, 320):  # 320: also a desktop at 400 % zoom
            phone.set_viewport_size({"width": width, "height": 844})
            phone.goto(path)
            wide = phone.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{path} is {wide} px wider than {width} px"
    shown = phone.evaluate("getComputedStyle(document.body).backgroundColor")
    phone.locator(".nav .menu > summary").click()
    phone.get_by_role("button", name="Switch between light and dark").click()
    assert phone.evaluate("getComputedStyle(document.body).backgroundColor") != shown


def test_the_player_does_not_animate_with_reduced_motion(played: str, signed_in: Callable[..., Page]) -> None:
    calm = signed_in(reduced_motion="reduce")
    calm.goto(a_trajectory(calm, played))
    assert calm.locator(".piece.player").evaluate("node => getComputedStyle(node).transitionDuration") == "0s"


def test_a_trajectory_is_readable_without_javascript(
    played: str, signed_in: Callable[..., Page], new_context: Callable[..., BrowserContext]
) -> None:
    page = signed_in()
    page.goto(a_trajectory(page, played))
    expect(page.locator("html")).to_have_class(re.compile("ready"))
    thoughts = page.locator(".turn .thought").all_inner_texts()
    plain = new_context(java_script_enabled=False)
    plain.add_cookies(page.context.cookies())  # type: ignore[arg-type]
    reader = plain.new_page()
    reader.goto(page.url)
    assert thoughts
    assert reader.locator(".turn .thought").all_inner_texts() == thoughts


def test_the_first_run_page_is_small(played: str, signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    sizes: dict[str, int] = {}
    page.on("response", lambda response: sizes.update({response.url: response.request.sizes()["responseBodySize"]}))
    page.goto(played)
    page.wait_for_load_state("networkidle")
    total = sum(sizes.values())
    assert total <= 250_000, f"{total} bytes: {sorted(sizes.items(), key=lambda item: -item[1])[:6]}"
