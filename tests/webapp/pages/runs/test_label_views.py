"""Labels of attempts in the explorer, what they say about a view, and watching by its panel."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.webapp import journal_builder
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from webapp.annotations.queries import is_annotated
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run
from webapp.saved_views.actions import do_save_view
from webapp.saved_views.models import Label, SavedView
from webapp.teams.models import Membership
from webapp.trajectories.models import Trajectory

__all__ = ["who"]


@pytest.fixture
def played(run: Run) -> Run:
    """A run with 12 attempts, 9 of which broke the format."""
    iterations = (event for number in (1, 2, 3) for event in journal_builder.iteration(number))
    journal_builder.write(run.folder, journal_builder.started(), *iterations)
    JournalTailer(run).drain()
    return Run.objects.get(pk=run.pk)


@pytest.fixture
def view(people: People) -> SavedView:
    return do_save_view(people.owner, SavedView.List.TRAJECTORIES, "Broken", "format=broken", people.team)


def page(client: Client, run: Run, query: str) -> str:
    response = client.get(f"/runs/{run.slug}/trajectories?{query}")
    assert response.status_code == 200
    return str(response.content.decode())


def label(client: Client, run: Run, ref: object, attempt: Trajectory, answer: str, **data: str) -> str:
    address = f"/runs/{run.slug}/views/{ref}/labels/{attempt.slug}"
    response = client.post(address, {"answer": answer} | data, headers={"X-Fragment": "1"})
    assert response.status_code == 200, response.status_code
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def test_labels_give_the_precision_of_a_view(played: Run, view: SavedView, who: Visitors) -> None:
    broken = list(Trajectory.objects.filter(format_error=True).order_by("pk"))
    opened = page(who.owner, played, f"format=broken&view={view.pk}")
    assert "Not known: no attempt that it found is labelled" in opened
    assert "Not known: no attempt that it did not find is labelled" in opened
    for attempt in broken[:4]:
        text = label(who.owner, played, view.pk, attempt, "yes")
    text = label(who.owner, played, view.pk, broken[4], "no")
    assert "Precision 80.0% (95% interval 37.6% to 96.4%): 4 of 5 labelled are right, 1 false alarm" in text
    assert "Missed Not known" in text
    opened = page(who.owner, played, f"format=broken&view={view.pk}")
    assert "4 of 5 labelled are right" in opened
    assert opened.count('value="none" aria-pressed="true"') == 5
    assert 'title="by ada"' in opened


def test_a_later_label_of_the_team_replaces_the_earlier_one(
    played: Run, view: SavedView, who: Visitors, people: People
) -> None:
    attempt = Trajectory.objects.filter(format_error=True)[0]
    label(who.owner, played, view.pk, attempt, "yes")
    Membership.objects.filter(user=people.viewer).update(role=Membership.Role.MEMBER)
    label(who.viewer, played, view.pk, attempt, "no")
    stored = Label.objects.get()
    assert (stored.right, stored.author, stored.view, stored.scanner) == (False, people.viewer, view, "")
    assert Trajectory.objects.get(is_annotated()) == attempt
    label(who.viewer, played, view.pk, attempt, "none")
    assert not Label.objects.exists()


def test_labels_of_a_random_sample_give_the_missed_share(played: Run, view: SavedView, who: Visitors) -> None:
    sampled = page(who.owner, played, f"view=-{view.pk}")
    valid = set(Trajectory.objects.filter(format_error=False).values_list("slug", flat=True))
    assert set(re.findall(r'data-row href="/t/([^/?"]+)', sampled)) == valid
    assert "3 drawn at random" in sampled
    assert "Export these" not in sampled
    one, other = Trajectory.objects.filter(format_error=False).order_by("pk")[:2]
    label(who.owner, played, view.pk, one, "yes", sample="1")
    text = label(who.owner, played, view.pk, other, "no", sample="1")
    assert "Missed 50.0% (95% interval 9.5% to 90.5%): 1 of 2 labelled that it did not find" in text
    assert "Precision Not known" in text


def test_what_is_labelled_outside_a_sample_says_nothing_about_missed_ones(
    played: Run, view: SavedView, who: Visitors
) -> None:
    found, missed = Trajectory.objects.filter(format_error=True)[0], Trajectory.objects.filter(format_error=False)[0]
    label(who.owner, played, view.pk, found, "yes", sample="1")
    assert not Label.objects.get().sampled, "the view finds it"
    assert "Missed Not known" in label(who.owner, played, view.pk, missed, "yes")


def test_labels_are_compared_with_the_present_filters(
    played: Run, view: SavedView, who: Visitors, people: People
) -> None:
    won, lost = (Trajectory.objects.filter(format_error=True, status=status)[0] for status in ("success", "failed"))
    label(who.owner, played, view.pk, won, "no")
    assert "50.0%" in label(who.owner, played, view.pk, lost, "yes")
    do_save_view(people.owner, SavedView.List.TRAJECTORIES, "Broken", "format=broken&outcome=failed", people.team)
    assert "Precision</dt>\n<dd>100.0%" in page(who.owner, played, f"format=broken&outcome=failed&view={view.pk}")


def test_a_scanner_has_labels_of_each_team(played: Run, who: Visitors, people: People) -> None:
    attempt = Trajectory.objects.filter(format_error=True)[0]
    label(who.owner, played, "broken-format", attempt, "yes")
    assert (Label.objects.get().scanner, Label.objects.get().view) == ("broken-format", None)
    assert "1 of 1 labelled are right" in page(who.owner, played, "format=broken&view=broken-format")
    Membership.objects.create(team=people.team, user=people.outsider, role=Membership.Role.MEMBER)
    Run.objects.update(visibility=Run.Visibility.PRIVATE)
    other = Run.objects.create(team=people.team, author=people.outsider, title="B", config=played.config, seq=1)
    assert "no attempt that it found is labelled" in page(who.outsider, other, "format=broken&view=broken-format")


def test_a_view_stays_open_while_its_filters_hold(played: Run, view: SavedView, who: Visitors) -> None:
    marker = "data-open-view"
    narrower = page(who.owner, played, f"format=broken&outcome=failed&sort=-reward&view={view.pk}")
    assert marker in narrower
    assert f"sort=-turns&amp;view={view.pk}" in narrower
    assert marker not in page(who.owner, played, f"outcome=failed&view={view.pk}")
    assert marker not in page(who.owner, played, "format=broken")
    for ref in ("999999", "9" * 40, "no-such-scanner", "--", "a%20b"):
        assert marker not in page(who.owner, played, f"format=broken&view={ref}")


def test_readers_see_what_labels_say_and_no_controls(played: Run, view: SavedView, who: Visitors) -> None:
    label(who.owner, played, view.pk, Trajectory.objects.filter(format_error=True)[0], "yes")
    Run.objects.update(visibility=Run.Visibility.LINK)
    query = f"format=broken&view={view.pk}"
    seen = page(who.viewer, played, query)
    assert "1 of 1 labelled are right" in seen
    for client in (who.viewer, who.outsider, who.anonymous):
        assert "label-form" not in page(client, played, query)
    for client in (who.outsider, who.anonymous):
        assert "data-open-view" not in page(client, played, query)
        assert "labelled are right" not in page(client, played, "format=broken&view=broken-format")


def test_a_view_of_another_team_or_a_private_one_is_not_labelled(played: Run, who: Visitors, people: People) -> None:
    elsewhere = people.outsider.memberships.get().team
    theirs = do_save_view(people.outsider, SavedView.List.TRAJECTORIES, "Theirs", "format=broken", elsewhere)
    private = do_save_view(people.owner, SavedView.List.TRAJECTORIES, "Mine", "format=broken", None)
    attempt = Trajectory.objects.all()[0]
    for view in (theirs, private):
        assert "data-open-view" not in page(who.owner, played, f"format=broken&view={view.pk}")
        address = f"/runs/{played.slug}/views/{view.pk}/labels/{attempt.slug}"
        assert who.owner.post(address, {"answer": "yes"}).status_code == 404


def test_the_explorer_without_a_view_reads_no_labels(played: Run, who: Visitors) -> None:
    plain = page(who.owner, played, "format=broken")
    assert "label-form" not in plain
    assert "of-label" not in plain


def test_a_scanner_is_watched_with_one_click(played: Run, who: Visitors) -> None:
    address = f"/runs/{played.slug}/views/broken-format"
    response = who.owner.post(f"{address}/watch", {"threshold": "20 %"}, follow=True)
    assert response.redirect_chain[-1][0].endswith("?format=broken&view=broken-format")
    text = response.content.decode()
    assert "watched/broken-format" in text
    assert "alert above 20%" in text
    view = SavedView.objects.get()
    assert (view.name, view.threshold, view.scanner) == ("Broken format", 0.2, "broken-format")
    text = who.owner.post(f"{address}/watch", {"threshold": "120"}, follow=True).content.decode()
    assert "a percentage from 0 to below 100" in text
    attempt = Trajectory.objects.filter(format_error=True)[0]
    label(who.owner, played, "broken-format", attempt, "yes")
    assert "1 of 1 labelled" in page(who.owner, played, f"format=broken&view={view.pk}"), "the labels are the scanner's"
    who.owner.post(f"{address}/stop")
    assert not SavedView.objects.watched().exists()
    mismatched = who.owner.post(f"/runs/{played.slug}/views/mismatched-tokens/watch", follow=True).content.decode()
    assert "Every attempt of an iteration matches this view" in mismatched


def test_saving_other_filters_says_that_the_view_is_not_watched_any_more(
    played: Run, view: SavedView, who: Visitors, people: People
) -> None:
    who.owner.post(f"/runs/{played.slug}/views/{view.pk}/watch", {"threshold": ""})
    data = {"name": "Broken", "query": "format=valid", "run": played.slug, "team": people.team.slug}
    text = who.owner.post("/views/save", data, follow=True).content.decode()
    assert "It is not watched any more" in text
