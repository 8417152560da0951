"""Who hears of a private run: not the team's other members, neither on pages nor through a rule that they changed."""

from __future__ import annotations

import pytest
from django.core import mail
from django.test import Client
from django.utils import timezone

from tests.webapp.conftest import People
from tests.webapp.notifications.conftest import Make, raise_alarm
from tests.webapp.notifications.receiver import Receiver
from tests.webapp.page_requests import Visitors, who
from tests.webapp.teams.members import add_member, browser_of
from webapp.notifications.channels import may_report, send
from webapp.notifications.dispatch import dispatch
from webapp.notifications.models import AlertAddress, Delivery, Rule
from webapp.notifications.outbox import MAX_FAILED_DELIVERIES, serve
from webapp.notifications.rule_actions import (
    do_redeliver,
    do_switch_rule,
    do_test_rule,
)
from webapp.runs.models import Evaluation, Run
from webapp.teams.actions import do_remove_member
from webapp.teams.models import Membership, User

pytestmark = pytest.mark.django_db
__all__ = ["who"]

EVENTS = [Rule.Event.WATCH]


@pytest.fixture
def author(people: People) -> User:
    return add_member(people)


@pytest.fixture
def colleague(people: People) -> Client:
    return browser_of(add_member(people, "barbara"))


@pytest.fixture
def private(run: Run, author: User) -> Run:
    """A private run of the author with an alarm."""
    Run.objects.filter(pk=run.pk).update(author=author, visibility=Run.Visibility.PRIVATE, title="Top secret")
    raise_alarm(run, 1)
    run.refresh_from_db()
    return run


def form_of(rule: Rule, **changed: str) -> dict[str, object]:
    """The rule's form as its page shows it, with some fields changed."""
    return {
        "name": rule.name,
        "events": rule.events,
        "scope": rule.scope,
        "channel": rule.channel,
        "addresses": ", ".join(rule.addresses),
        "url": rule.url,
    } | changed


def test_the_alert_log_shows_a_private_run_to_its_author_and_admins_only(
    private: Run, author: User, colleague: Client, who: Visitors, make_rule: Make
) -> None:
    rule = make_rule(author=author, events=EVENTS)
    dispatch()
    delivery = Delivery.objects.get()
    address = f"/alerts/{rule.slug}"
    page = f"{address}/deliveries/{delivery.slug}"
    for client in (browser_of(author), who.owner):
        assert "Top secret" in client.get(address).content.decode()
        assert client.get(page).status_code == 200
        assert "Waiting" in client.get("/alerts").content.decode()
    for client in (colleague, who.viewer):
        shown = client.get(address)
        assert shown.status_code == 200
        assert "Top secret" not in shown.content.decode()
        assert delivery.slug not in shown.content.decode()
        assert client.get(page).status_code == 404
        assert "none yet" in client.get("/alerts").content.decode()
    assert colleague.post(f"{page}/again").status_code == 404
    assert who.viewer.post(f"{page}/again").status_code == 403
    for client in (who.outsider, who.anonymous):
        assert client.get(page).status_code in {302, 404}
    assert who.owner.post(f"{page}/again").status_code == 302


def test_a_member_who_changes_the_target_gets_no_private_runs(
    private: Run, author: User, colleague: Client, make_rule: Make
) -> None:
    rule = make_rule(author=author, events=EVENTS, channel=Rule.Channel.SLACK, url="https://a.example.org/hook")
    dispatch()
    (before,) = Delivery.objects.all()
    mine = {"url": "https://mine.example.org/hook"}
    assert colleague.post(f"/alerts/{rule.slug}/edit", form_of(rule, **mine)).status_code == 302
    rule.refresh_from_db()
    assert rule.url == mine["url"]
    raise_alarm(private, 2)
    dispatch()
    assert list(Delivery.objects.all()) == [before], "the next event is not reported"
    before = Delivery.objects.select_related("rule__team", "run").get(pk=before.pk)
    assert not may_report(before.run, rule)
    assert "private" in send(before).answer, "nor is the one that was queued for the former target"
    page = browser_of(author).get(f"/alerts/{rule.slug}").content.decode()
    assert "barbara set the channel last" in " ".join(page.split())
    assert browser_of(author).post(f"/alerts/{rule.slug}/edit", form_of(rule)).status_code == 302
    raise_alarm(private, 3)
    dispatch()
    assert Delivery.objects.count() == 2, "the author has seen the target and accepted it"


def test_another_change_by_a_member_leaves_the_target_the_author_s(
    private: Run, author: User, colleague: Client, make_rule: Make
) -> None:
    rule = make_rule(author=author, events=EVENTS)
    colleague.post(f"/alerts/{rule.slug}/edit", form_of(rule, name="Renamed\nrule"))
    rule.refresh_from_db()
    assert (rule.name, rule.target_author) == ("Renamed rule", author)
    dispatch()
    assert Delivery.objects.count() == 1


def test_a_run_made_private_is_no_longer_reported_by_rules_of_others(
    run: Run, people: People, author: User, make_rule: Make
) -> None:
    rule = make_rule(author=author, events=EVENTS)
    assert may_report(run, rule)
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.PRIVATE)
    assert not may_report(Run.objects.get(), rule)


def test_alerts_that_the_site_holds_back_do_not_disable_the_rule(
    run: Run, author: User, who: Visitors, make_rule: Make
) -> None:
    rule = make_rule(author=author, events=EVENTS)
    for seq in range(MAX_FAILED_DELIVERIES + 1):
        raise_alarm(run, seq)
    dispatch()
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.PRIVATE)
    AlertAddress.objects.all().delete()
    test = do_test_rule(rule)
    serve(rule.pk)
    assert set(Delivery.objects.values_list("state", "tries")) == {("held", 1)}
    rule.refresh_from_db()
    assert (rule.enabled, rule.failures) == (True, 0)
    assert "Not sent" in who.owner.get("/alerts").content.decode()
    assert do_redeliver(test).state == "pending"


def test_suites_of_private_runs_are_not_suggested(private: Run, author: User, colleague: Client) -> None:
    Evaluation.objects.create(
        run=private,
        iteration=1,
        suite="secret-suite",
        prompts=1,
        success=1,
        success_low=0,
        success_high=1,
        mean_reward=0,
        mean_turns=1,
        mean_actions=1,
        time=timezone.now(),
    )
    assert "secret-suite" in browser_of(author).get("/alerts/new").content.decode()
    assert "secret-suite" not in colleague.get("/alerts/new").content.decode()


@pytest.mark.parametrize("way", ["removed", "deactivated", "deleted"])
def test_rules_of_people_who_left_are_switched_off_and_admins_notified(
    run: Run, people: People, author: User, who: Visitors, make_rule: Make, way: str
) -> None:
    User.objects.filter(pk=people.owner.pk).update(email="ada@example.org")
    rule = make_rule(author=author, events=EVENTS, addresses=["linus@private.example"])
    kept = make_rule(events=EVENTS)
    raise_alarm(run, 1)
    dispatch()
    if way == "removed":
        do_remove_member(people.team, author)
    elif way == "deactivated":
        User.objects.filter(pk=author.pk).update(is_active=False)
    else:
        author.delete()
    raise_alarm(run, 2)
    for _ in range(2):
        dispatch()
    states = Delivery.objects.filter(rule=rule).values_list("state", flat=True)
    assert list(states) == [Delivery.State.FAILED], "neither the pending one nor the new one is sent"
    assert kept.deliveries.count() == 2
    rule.refresh_from_db()
    assert not rule.enabled
    assert "no longer in the team" in who.owner.get(f"/alerts/{rule.slug}").content.decode()
    serve(None)
    (message,) = mail.outbox
    assert (message.to, message.subject) == (["ada@example.org"], "Echoscope: an alert rule was switched off")
    assert rule.slug in str(message.body)


def test_the_user_who_switches_such_a_rule_on_becomes_its_author(
    run: Run, people: People, author: User, who: Visitors, make_rule: Make
) -> None:
    rule = make_rule(author=author, events=EVENTS, addresses=["linus@private.example"])
    do_remove_member(people.team, author)
    dispatch()
    who.owner.post(f"/alerts/{rule.slug}/switch", {"on": "1"})
    dispatch()
    rule.refresh_from_db()
    assert (rule.enabled, rule.author, rule.reports_private_runs) == (True, people.owner, False)
    do_switch_rule(rule, True, author)
    rule.refresh_from_db()
    assert rule.author == people.owner, "a rule with an author keeps them"


def test_an_author_who_became_a_viewer_keeps_the_rule(people: People, author: User, make_rule: Make) -> None:
    rule = make_rule(author=author)
    Membership.objects.filter(user=author).update(role=Membership.Role.VIEWER)
    dispatch()
    rule.refresh_from_db()
    assert rule.enabled


def test_a_test_alert_is_shown_to_the_whole_team_and_delivered(
    people: People, author: User, who: Visitors, make_rule: Make, receiver: Receiver
) -> None:
    rule = make_rule(author=author, channel=Rule.Channel.WEBHOOK, url=receiver.url, addresses=[])
    browser_of(author).post(f"/alerts/{rule.slug}/test")
    delivery = Delivery.objects.select_related("rule__team", "run").get()
    assert send(delivery).ok
    for client in (who.owner, who.viewer):
        assert delivery.slug in client.get(f"/alerts/{rule.slug}").content.decode()
