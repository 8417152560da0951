"""Values of `--set`: text fields take the text as it is, all others YAML."""

from __future__ import annotations

from itertools import permutations

import pytest

from trainer.config.files import with_overrides
from trainer.config.run import RunConfig


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("environment.instruction=Move like this: up", "Move like this: up"),
        ("environment.instruction=[Hint] use # as a wall", "[Hint] use # as a wall"),
        ("environment.instruction=null", None),
        ("name=007", "007"),
        ("name= yes ", "yes"),
        ("name=2026-02-30", "2026-02-30"),
        ("name=it's 'quoted'", "it's 'quoted'"),
        ("name='it''s'", "it's"),
        ("name='it's'", "'it's'"),
        ("name=", ""),
        ('rollout.system="two\\nlines"', "two\nlines"),
        ("echo_trap.action=stop", "stop"),
        ("rollout.chat_template_kwargs={enable_thinking: no}", {"enable_thinking": False}),
        ("algorithm.dual_clip=3", 3.0),
        ("algorithm.dual_clip=null", None),
        ("tags=[1b, '2']", ["1b", "2"]),
    ],
)
def test_values_have_the_type_of_their_field(pair: str, value: object) -> None:
    config = with_overrides(RunConfig(), [pair])
    *sections, name = pair.partition("=")[0].split(".")
    section = config
    for each in sections:
        section = getattr(section, each)
    assert getattr(section, name) == value


def test_text_settings_of_an_environment_are_text_in_any_order() -> None:
    for pairs in permutations(["environment.name=Bandit", "environment.settings.low_name=yes"]):
        assert with_overrides(RunConfig(), pairs).environment.settings == {"low_name": "yes"}


def test_an_invalid_value_names_its_pair() -> None:
    with pytest.raises(ValueError, match=r"--set tags=\[1: the value is not valid YAML; quote special characters"):
        with_overrides(RunConfig(), ["tags=[1"])
