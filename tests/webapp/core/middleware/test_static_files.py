"""Static files under ASGI."""

from __future__ import annotations

import warnings

import pytest
from django.http import HttpResponse
from django.test import AsyncClient
from pytest_django import Settings

from webapp.settings import ROOT

ADDRESS = "/static/js/ui/dom.js"
FILE = (ROOT / "static/js/ui/dom.js").read_bytes()


@pytest.fixture(autouse=True)
def _files_of_the_repository(settings: Settings) -> None:
    settings.WHITENOISE_USE_FINDERS = True


async def get(**headers: str) -> HttpResponse:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        response = await AsyncClient().get(ADDRESS, headers=headers)
    assert isinstance(response, HttpResponse)  # streamed ones are none
    return response


async def test_a_file_is_sent_in_one_piece_without_a_warning() -> None:
    response = await get()
    assert response.content == FILE
    assert (response.status_code, response["Content-Type"]) == (200, 'text/javascript; charset="utf-8"')
    assert response["Content-Length"] == str(len(FILE))


async def test_a_part_of_a_file_and_an_unchanged_one() -> None:
    part = await get(Range="bytes=3-9")
    assert (part.status_code, part.content) == (206, FILE[3:10])
    unchanged = await get(**{"If-None-Match": (await get())["ETag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")


@pytest.mark.parametrize(("method", "status"), [("head", 200), ("post", 405)])
async def test_other_methods_have_no_content(method: str, status: int) -> None:
    response = await getattr(AsyncClient(), method)(ADDRESS)
    assert (response.status_code, response.content) == (status, b"")
