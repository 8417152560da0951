"""Two users annotating one trajectory, and alerts, on the running product with Redis, scheduler and worker."""

from __future__ import annotations

import dataclasses
import re
import secrets
import textwrap
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import sign_in
from tests.running_product import LiveStack

pytestmark = pytest.mark.browser

PLAYED = """
    from tests.webapp import recorded_journal
    from trainer.config.run import RunConfig
    from webapp.ingest.tailer import JournalTailer
    from webapp.runs.models import Run
    from webapp.teams.actions import do_create_user, do_set_role
    from webapp.teams.models import Membership, Team, User
    from webapp.trajectories.models import Trajectory

    team = Team.objects.order_by("pk").first()
    if not User.objects.filter(username="grace").exists():
        reviewer = do_create_user("grace", "a long secret of hers")
        _ = do_set_role(team, reviewer, Membership.Role.VIEWER)
    config = RunConfig(iterations=1)
    config.rollout.groups, config.rollout.group_size = 2, 2
    run = Run.objects.create(team=team, title="Trial", config=config.model_dump(mode="json"), environment="Sokoban",
                             iterations=1, imported=True, state=Run.State.STOPPED)
    _ = recorded_journal.write(run.folder, config, 1)
    _ = JournalTailer(run).drain()
    print("slug:", Trajectory.objects.filter(run=run).order_by("-turn_count", "pk").first().slug)
"""


@pytest.fixture
def trajectory(live_stack: LiveStack) -> str:
    """The path of a played trajectory without annotations, in a team with a reviewer beside the admin."""
    output = live_stack.manage("shell", input=textwrap.dedent(PLAYED))
    match = re.search(r"slug: (\w+)", output)
    assert match is not None, output
    return f"/t/{match[1]}"


def reviewer_page(new_context: Callable[..., BrowserContext], stack: LiveStack) -> Page:
    page = new_context().new_page()
    sign_in(page, dataclasses.replace(stack, username="grace", password="a long secret of hers"))
    return page


def test_a_comment_appears_for_another_reader_without_losing_their_draft(
    trajectory: str,
    signed_in: Callable[..., Page],
    new_context: Callable[..., BrowserContext],
    live_stack: LiveStack,
) -> None:
    one, two = signed_in(), reviewer_page(new_context, live_stack)
    for page in (one, two):
        page.goto(f"{trajectory}?turn=2")
        page.locator("html.ready").wait_for()
    two.get_by_label("Comment", exact=True).fill("A long thought of mine")

    one.get_by_role("button", name="Comment on turn 2").click()
    expect(one.get_by_label("Comment", exact=True)).to_be_focused()
    one.keyboard.type("Here it @grace turns, see https://example.org")
    one.get_by_role("button", name="Comment", exact=True).click()
    for page in (one, two):
        comment = page.locator('[data-turn="1"] .comment')
        expect(comment).to_contain_text("Here it @grace turns")
        expect(comment.get_by_role("link", name="https://example.org")).to_be_visible()
        expect(page.get_by_role("button", name="1 comment on turn 2: add one")).to_be_visible()
    expect(one.get_by_label("Comment", exact=True)).to_have_value("")
    expect(two.get_by_label("Comment", exact=True)).to_have_value("A long thought of mine")

    one.get_by_role("button", name="Star").click()
    expect(one.get_by_role("button", name="Starred")).to_be_focused()
    expect(two.get_by_text("starred by admin")).to_be_visible()
    one.get_by_label("Add a tag").fill("Corner")
    one.keyboard.press("Enter")
    expect(two.get_by_label("Tags").get_by_text("corner")).to_be_visible()

    one.locator('[data-turn="1"] .comment').get_by_role("link", name="Edit").click()
    field = one.get_by_label("Edit the comment on turn 2")
    field.fill("Other words")
    two.get_by_role("button", name="Comment", exact=True).click()
    expect(one.get_by_text("A long thought of mine")).to_have_count(0)
    expect(field).to_have_value("Other words")
    one.get_by_role("button", name="Save").click()
    for page in (one, two):
        expect(page.locator('[data-turn="1"] .comment')).to_contain_text("Other words")
        expect(page.get_by_text("A long thought of mine")).to_be_visible()

    one.on("dialog", lambda dialog: dialog.accept())
    one.locator('[data-turn="1"] .comment').get_by_role("button", name="Delete").click()
    for page in (one, two):
        expect(page.locator('[data-turn="1"] .comment')).to_have_count(0)


def test_annotations_work_without_javascript(trajectory: str, signed_in: Callable[..., Page]) -> None:
    page = signed_in(java_script_enabled=False)
    page.goto(trajectory)
    page.get_by_label("Comment", exact=True).fill("Read me.")
    page.get_by_label("About").select_option("2")
    page.get_by_role("button", name="Comment", exact=True).click()
    assert re.search(rf"{trajectory}\?turn=2#comment-\w+$", page.url)
    expect(page.get_by_text("Read me.")).to_be_in_viewport()
    page.locator(".comment", has_text="Read me.").get_by_role("link", name="Edit").click()
    page.get_by_label("Edit the comment on turn 2").fill("Read me again.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Read me again.")).to_be_visible()
    page.get_by_role("button", name="Star", exact=True).click()
    expect(page.get_by_text("starred by admin")).to_be_visible()
    page.get_by_role("button", name="Starred", exact=True).click()
    expect(page.get_by_text("starred by admin")).to_have_count(0)


def test_a_mention_is_counted_and_links_to_its_comment(
    trajectory: str,
    signed_in: Callable[..., Page],
    new_context: Callable[..., BrowserContext],
    live_stack: LiveStack,
) -> None:
    question = f"what do you think of {secrets.token_hex(3)}?"
    two = reviewer_page(new_context, live_stack)
    one = signed_in()
    one.goto(trajectory)
    one.locator("html.ready").wait_for()
    one.get_by_label("Comment", exact=True).fill(f"@grace {question}")
    one.get_by_label("About").select_option("1")
    one.get_by_role("button", name="Comment", exact=True).click()
    expect(one.locator('[data-turn="0"] .comment', has_text=question)).to_be_visible()
    two.goto("/inbox?show=mentions")
    mention = two.locator(".new", has_text=question)
    mention.get_by_role("link", name=re.compile("admin mentioned you on turn 1 of (puzzle|group) 1")).click()
    expect(two.locator('[data-turn="0"] .comment', has_text=question)).to_be_in_viewport()
    two.goto("/inbox?show=mentions")
    expect(two.get_by_text(question)).to_be_visible()
    expect(mention).to_have_count(0)


def test_a_test_alert_is_delivered_by_the_scheduler_while_the_page_is_open(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    page.goto("/alerts")
    page.get_by_role("link", name=re.compile("first rule|New rule")).click()
    page.get_by_label("Name", exact=True).fill("Tell me")
    page.get_by_label("Run failed").check()
    expect(page.get_by_label("Success threshold, %")).to_be_hidden()
    page.get_by_label("Evaluation reached the threshold").check()
    page.get_by_label("Success threshold, %").fill("75")
    page.get_by_label("Notify by", exact=True).select_option("webhook")
    page.get_by_label("URL", exact=True).fill("http://127.0.0.1:9/")
    page.get_by_role("button", name="Create rule").click()
    expect(page.get_by_text("is in a private network, and alerts are not sent")).to_be_visible()
    page.get_by_label("Notify by", exact=True).select_option("email")
    expect(page.get_by_label("URL", exact=True)).to_be_hidden()  # its error no longer concerns the rule
    page.get_by_label("Notify by", exact=True).select_option("webhook")
    page.get_by_label("URL", exact=True).fill("http://localhost:8443/")
    page.get_by_role("button", name="Create rule").click()
    expect(page.get_by_text("75.0% success, every suite")).to_be_visible()
    expect(page.locator(".secret")).to_have_text(re.compile("^whsec_"))
    page.get_by_role("button", name="Send a test").click()
    expect(page.locator(".secret")).to_have_count(0)
    expect(page.locator("#deliveries .delivery-state")).to_have_text("Failed")
    expect(page.locator("#deliveries")).to_contain_text("localhost is in a private network")
