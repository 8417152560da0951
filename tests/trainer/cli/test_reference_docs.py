from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trainer.cli import reference_docs
from trainer.config.run import RunConfig
from trainer.metrics.registry import METRICS

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("settings.md", reference_docs.settings_page),
        ("metrics.md", reference_docs.metrics_page),
        ("faults.md", reference_docs.with_causes),
    ],
)
def test_the_page_in_the_docs_matches_the_generated_one(name: str, page: Callable[[], str]) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == page(), "run: python -m trainer.cli.reference_docs"


def test_every_setting_and_every_metric_has_its_row() -> None:
    settings, metrics = reference_docs.settings_page(), reference_docs.metrics_page()
    for name, field in RunConfig.model_fields.items():
        inner = getattr(field.annotation, "model_fields", {name: field})
        for setting in inner:
            assert f"\n| `{setting}` |" in settings
    assert all(f"\n| `{name}` |" in metrics for name in METRICS)


def test_limits_are_written_as_plain_numbers() -> None:
    assert "≤ 4,294,967,295" in reference_docs.settings_page()
    assert "> 0, ≤ 1 " in reference_docs.settings_page()
