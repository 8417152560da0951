"""Choices of the first step of the launch form."""

from __future__ import annotations

import pytest

from webapp.runs.launch import catalogue


@pytest.mark.parametrize("preset", catalogue.presets(), ids=lambda preset: preset.name)
def test_the_policies_of_an_environment_have_different_names(preset: catalogue.PresetChoice) -> None:
    labels = [each.model_label for each in catalogue.policies(preset)]
    assert len(set(labels)) == len(labels)
