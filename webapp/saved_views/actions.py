"""Saving, renaming and deleting of views, and labels of their attempts."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from django.db import transaction

from webapp.saved_views.models import MAX_NAME_LENGTH, MAX_QUERY_LENGTH, Label, SavedView
from webapp.teams.models import Removal, Team, User
from webapp.teams.removals import do_remove
from webapp.trajectories.models import Trajectory

MAX_VIEWS = 100
"""Views of a person."""
_APPEARANCE = ("sort", "hide")
"""Parts of a query that change the appearance of a list, not its results."""


class ViewRefused(ValueError):
    """A view that is not saved. The message says why, and what to do."""


@transaction.atomic
def do_save_view(author: User, list: str, name: str, query: str, team: Team | None) -> SavedView:
    """Save a view; one of the same name and list of the author is replaced. Raises ViewRefused.

    A watched view is watched no longer if its filters or its team change: its curve would mix two meanings.
    """
    name = _checked_name(name)
    if len(query) > MAX_QUERY_LENGTH:
        raise ViewRefused("These filters are too long to be saved: use fewer words.")
    User.objects.select_for_update().get(pk=author.pk)  # two requests at once count each other's views
    own = SavedView.objects.filter(author=author)
    if own.count() >= MAX_VIEWS and not own.filter(list=list, name=name).exists():
        raise ViewRefused(f"You have {MAX_VIEWS} saved views, the most there can be. Delete one that you do not need.")
    values: dict[str, Any] = {"query": query, "team": team}
    before = own.filter(list=list, name=name).first()
    if before is not None and (before.team_id != (team and team.pk) or _filters(before.query) != _filters(query)):
        values["curve"] = ""
    return SavedView.objects.update_or_create(author=author, list=list, name=name, defaults=values)[0]


@transaction.atomic
def do_rename_view(view: SavedView, name: str) -> None:
    """Rename a view. Raises ViewRefused."""
    name = _checked_name(name)
    User.objects.select_for_update().get(pk=view.author_id)
    if SavedView.objects.filter(author=view.author_id, list=view.list, name=name).exclude(pk=view.pk).exists():
        raise ViewRefused(f"You have another view called “{name}”. Choose another name, or delete that one first.")
    view.name = name
    view.save(update_fields=["name"])


def do_delete_view(view: SavedView) -> Removal | None:
    """Delete a view. Returns what undoes it, by its author only."""
    rows = SavedView.objects.filter(pk=view.pk)
    return do_remove(rows, team=view.team, by=view.author, name=f"the saved view “{view.name}”", role="")


@transaction.atomic
def do_label(
    trajectory: Trajectory, author: User, *, view: SavedView | None, scanner: str, right: bool, sampled: bool
) -> Label:
    """Label an attempt for a view or a scanner; an earlier label is replaced, whoever gave it."""
    values = {"author": author, "right": right, "sampled": sampled}
    return Label.objects.update_or_create(trajectory=trajectory, view=view, scanner=scanner, defaults=values)[0]


def do_unlabel(trajectory: Trajectory, *, view: SavedView | None, scanner: str) -> None:
    """Remove the label of an attempt, if there is one."""
    Label.objects.filter(trajectory=trajectory, view=view, scanner=scanner).delete()


def _filters(query: str) -> set[tuple[str, str]]:
    return {(name, value) for name, value in parse_qsl(query) if name not in _APPEARANCE}


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not name:
        raise ViewRefused("Give the view a name.")
    if len(name) > MAX_NAME_LENGTH:
        raise ViewRefused(f"The name is too long: at most {MAX_NAME_LENGTH} characters.")
    return name
