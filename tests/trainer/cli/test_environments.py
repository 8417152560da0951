"""The list of environments on the command line."""

from __future__ import annotations

import pytest

from trainer.cli import main


def test_environments_and_variants_are_listed_and_searched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["environments"]) == 0
    listed = capsys.readouterr().out
    assert "Cross a lake of ice" in listed
    assert "variants: `python -m trainer environments Gymnasium` lists them." in listed
    assert main.main(["environments", "Gymnasium", "--search", "cartpole"]) == 0
    found = capsys.readouterr().out.splitlines()
    assert found
    assert all("cartpole" in line.lower() for line in found)
    assert main.main(["environments", "Sokoban"]) == 0
    assert "Sokoban has no variants" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "message"), [(["--search", "chess 960"], "nothing here"), (["Sokobann"], "Sokoban")])
def test_a_search_without_a_match_and_an_unknown_name_are_errors(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["environments", *words]) != 0
    assert message in capsys.readouterr().err
