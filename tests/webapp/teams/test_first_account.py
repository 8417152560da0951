"""The account created at the first start remains the same after a rename."""

from __future__ import annotations

from pathlib import Path

import pytest

from webapp.teams.actions import do_create_user, do_rename_user
from webapp.teams.first_login import first_account


@pytest.mark.django_db
def test_the_first_account_is_found_after_a_rename(tmp_path: Path) -> None:
    file = tmp_path / "first-account.json"
    made = first_account(file, "demo")
    assert made is not None
    user, password = made
    do_rename_user(user, "ada")
    do_create_user("demo", "somebody else's")
    again = first_account(file, "demo")
    assert again is not None
    assert (again[0].pk, again[0].username, again[1]) == (user.pk, "ada", password)
