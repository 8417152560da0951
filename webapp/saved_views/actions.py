"""Saving, renaming and deleting of views."""

from __future__ import annotations

from django.db import transaction

from webapp.saved_views.models import MAX_NAME_LENGTH, MAX_QUERY_LENGTH, SavedView
from webapp.teams import removals
from webapp.teams.models import Removal, Team, User

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


@transaction.atomic
def do_delete_view(view: SavedView) -> Removal:
    """Delete a view. Returns what undoes it."""
    rows = removals.rows_of(view)
    name, author = f"the saved view “{view.name}”", view.author
    view.delete()
    return removals.record(Removal.Kind.VIEW, view.team, author, name, {"rows": rows})


def restore_view(removal: Removal) -> None:
    """Put a deleted view back. Raises UndoRefused."""
    removals.do_put_back((removal.data or {})["rows"])


def may_restore_view(user: User, removal: Removal) -> bool:
    """Whether the view was the user's own."""
    return removal.author_id == user.pk


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not name:
        raise ViewRefused("Give the view a name.")
    if len(name) > MAX_NAME_LENGTH:
        raise ViewRefused(f"The name is too long: at most {MAX_NAME_LENGTH} characters.")
    return name
