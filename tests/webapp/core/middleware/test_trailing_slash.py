"""A slash at the end of an address, which no path of the site has, still leads to the page."""

import pytest


@pytest.mark.parametrize(
    ("path", "target"),
    [("/t/abc/", "/t/abc"), ("/t/abc/?turn=2", "/t/abc?turn=2"), ("/runs/abc/curves/", "/runs/abc/curves")],
)
def test_an_address_with_a_slash_too_many_is_redirected(client, path, target):
    response = client.get(path)
    assert (response.status_code, response["Location"]) == (301, target)


def test_other_addresses_are_left_alone(client):
    assert client.get("/no/such/page/").status_code == 404
    assert client.post("/t/abc/").status_code == 404
