"""Settings that a site would refuse are cut where they are longest."""

from __future__ import annotations

import json

from echoscope.recording.settings_size import MAX_SETTINGS, shortened


def test_settings_that_a_site_would_refuse_are_cut_where_they_are_longest() -> None:
    ids = [f"sample-{number}" for number in range(20_000)]
    steps = [{"solver": "system_message", "params": {"template": "x" * 200_000}}, {"solver": "generate"}]
    settings = {"model": "m", "dataset": {"name": "d", "sample_ids": ids}, "plan": {"steps": steps}}
    short = shortened(settings)
    assert len(json.dumps(short)) < MAX_SETTINGS
    assert short["model"] == "m"
    assert short["dataset"]["name"] == "d"
    assert short["dataset"]["sample_ids"].startswith('["sample-0", ')
    assert short["plan"]["steps"][0]["params"]["template"].endswith("… (cut, 200,000 characters)")
    assert short["plan"]["steps"][1] == {"solver": "generate"}
    assert settings["dataset"] == {"name": "d", "sample_ids": ids}


def test_many_small_settings_are_cut_as_a_whole() -> None:
    short = shortened({"model": "m", "task_args": {f"argument_{number}": number for number in range(20_000)}})
    assert short["model"] == "m"
    assert len(json.dumps(short)) < MAX_SETTINGS


def test_settings_with_too_many_names_are_left_out() -> None:
    short = shortened({f"argument_{number}": number for number in range(20_000)})
    assert list(short) == ["left out"]
    assert short["left out"].startswith("20,000 settings, ")
