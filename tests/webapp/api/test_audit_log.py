"""The audit log by the API: each operation that changes something leaves an entry; admins read them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from tests.webapp.api.api_clients import Callers, callers
from tests.webapp.api.test_permissions import operation_undone, operations, path_values, prepared, send_request
from tests.webapp.conftest import People
from webapp.teams.actions import do_create_team, do_set_role
from webapp.teams.models import AuditEntry, Membership

__all__ = ["callers", "path_values"]
pytestmark = pytest.mark.django_db

AUTHORED = "carries author and time where it is shown, and can be taken back"
NO_ENTRY = {
    **dict.fromkeys(("star_trajectory", "unstar_trajectory", "tag_trajectory", "untag_trajectory"), AUTHORED),
    **dict.fromkeys(("create_comment", "update_comment"), AUTHORED),
    "test_alert": "is an entry of the log of deliveries, with its request",
    **dict.fromkeys(("append_journal", "put_image"), "continues an import, which is an entry"),
}
DOWNLOADS = ("export_run", "download_model")


def test_every_operation_that_changes_or_downloads_leaves_an_entry_or_a_reason(
    subtests: pytest.Subtests, callers: Callers, path_values: dict[str, str], tmp_path: Path
) -> None:
    names = set()
    for name, method, path in operations():
        names.add(name)
        if method == "GET" and name not in DOWNLOADS:
            continue
        with operation_undone(subtests, name):
            prepared(name, path_values)
            before = AuditEntry.objects.count()
            answer = send_request(callers.owner, name, method, path, path_values, tmp_path)
            assert answer.status_code in (200, 201, 202, 204), answer.content
            added = list(AuditEntry.objects.order_by("pk")[before:])
            assert bool(added) != (name in NO_ENTRY), added
            assert all(entry.means.startswith("token test (es_") for entry in added)
            assert all(entry.username == "ada" and entry.address == "127.0.0.1" for entry in added)
    assert not NO_ENTRY.keys() - names


def test_admins_page_through_the_entries_of_their_team(callers: Callers, people: People) -> None:
    other = do_create_team("Another", people.owner)
    for number in range(3):
        do_set_role(people.team, people.viewer, Membership.Role.MEMBER if number % 2 else Membership.Role.VIEWER)
    address, found = f"/api/teams/{people.team.slug}/audit?action=role-changed&limit=2", []
    following: str | None = ""
    while following is not None:
        page = json.loads(callers.reader.get(f"{address}&cursor={following}" if following else address).content)
        found += [entry["details"]["role"] for entry in page["items"]]
        following = page["next_cursor"]
    assert found == ["viewer", "member", "viewer"]
    tomorrow = timezone.now().date() + timedelta(days=1)
    assert json.loads(callers.reader.get(f"{address}&since={tomorrow}").content)["items"] == []
    assert callers.reader.get(f"{address}&since=0").status_code == 422, "not seconds since 1970"
    assert callers.reader.get(f"/api/teams/{other.slug}/audit").status_code == 404, "the token belongs to one team"
    assert callers.viewer.get(f"/api/teams/{people.team.slug}/audit").status_code == 403
    assert callers.outsider.get(f"/api/teams/{people.team.slug}/audit").status_code == 404
