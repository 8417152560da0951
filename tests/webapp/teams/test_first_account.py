"""The account created at the first start, its one-time link, and where both are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from webapp.management.commands.prepare import facts
from webapp.teams.actions import do_create_user, do_rename_user
from webapp.teams.first_login import first_account, link


@pytest.mark.django_db
def test_the_first_account_is_found_after_a_rename(tmp_path: Path) -> None:
    file = tmp_path / "first-account.json"
    made = first_account(file, "demo")
    assert made is not None
    user, password = made.user, made.password
    assert made.new
    do_rename_user(user, "ada")
    do_create_user("demo", "somebody else's")
    again = first_account(file, "demo")
    assert again is not None
    assert (again.user.pk, again.user.username, again.password, again.new) == (user.pk, "ada", password, False)


@pytest.mark.django_db
def test_opening_the_link_does_not_use_it_up_and_its_button_does() -> None:
    user = do_create_user("ada", "a long password")
    path = link(user, "/environments")
    for _ in range(2):
        Client().head(path)
        page = Client().get(path)
        assert "Log in as ada" in page.content.decode()
    visitor = Client(enforce_csrf_checks=True)
    field = re.search(r'csrfmiddlewaretoken" value="(\w+)"', visitor.get(path).content.decode())
    assert field is not None
    assert visitor.post(path).status_code == 403
    answer = visitor.post(path, {"csrfmiddlewaretoken": field[1]})
    assert (answer.status_code, answer["Location"]) == (302, "/environments")
    assert visitor.get("/account").status_code == 200
    for again in (Client().get(path), Client().post(path)):
        assert again["Location"].startswith("/login")


@pytest.mark.django_db
@pytest.mark.parametrize("target", ["https://evil.example.org", "//evil.example.org", "login", "javascript:alert(1)"])
def test_the_link_leads_to_pages_of_this_site_only(target: str) -> None:
    assert Client().post(link(do_create_user("ada", "a long password"), target))["Location"] == "/"


@pytest.mark.django_db
def test_only_a_new_account_is_printed_unless_there_is_a_terminal(settings: Settings, tmp_path: Path) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    assert facts(demo=False).keys() == {"username", "password", "login", "page"}
    assert facts(demo=False) == {"page": "/"}
    assert facts(demo=False, always=True)["login"].startswith("/welcome/")
