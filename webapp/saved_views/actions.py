"""Saving, renaming and deleting of views."""

from __future__ import annotations

from django.db import transaction

from webapp.saved_views.models import MAX_NAME_LENGTH, MAX_QUERY_LENGTH, SavedView
from webapp.teams.models import Removal, Team, User
from webapp.teams.removals import do_remove

MAX_VIEWS = 100
"""Views of a person."""


class ViewRefused(ValueError):
    """A view that is not saved. The message says why, and what to do."""


@transaction.atomic
def do_save_view(author: User, list: str, name: str, query: str, team: Team | None) -> SavedView:
    """Save a view; one of the same name and list of the author is replaced. Raises ViewRefused."""
    name = _checked_name(name)
    if len(query) > MAX_QUERY_LENGTH:
        raise ViewRefused("These filters are too long to be saved: use fewer words.")
    User.objects.select_for_update().get(pk=author.pk)  # two requests at once count each other's views
    own = SavedView.objects.filter(author=author)
    if own.count() >= MAX_VIEWS and not own.filter(list=list, name=name).exists():
        raise ViewRefused(f"You have {MAX_VIEWS} saved views, the most there can be. Delete one that you do not need.")
    values = {"query": query, "team": team}
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


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not name:
        raise ViewRefused("Give the view a name.")
    if len(name) > MAX_NAME_LENGTH:
        raise ViewRefused(f"The name is too long: at most {MAX_NAME_LENGTH} characters.")
    return name
