"""Variants of the update, as their environment variable names them."""

import pytest

from trainer.config.update_variants import VARIANTS_VARIABLE, UpdateVariants, update_variants


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, UpdateVariants()),
        ("", UpdateVariants()),
        ("packed", UpdateVariants(packing=True)),
        (" separate, compiled,", UpdateVariants(prefix_sharing=False, compile_layers=True)),
        ("packed,half_steps", UpdateVariants(packing=True, master_weights=False)),
    ],
)
def test_the_variable_names_variants(monkeypatch, text, expected):
    monkeypatch.delenv(VARIANTS_VARIABLE, raising=False)
    if text is not None:
        monkeypatch.setenv(VARIANTS_VARIABLE, text)
    assert update_variants() == expected


def test_an_unknown_variant_is_refused(monkeypatch):
    monkeypatch.setenv(VARIANTS_VARIABLE, "packed,fast")
    with pytest.raises(ValueError, match="ECHOSCOPE_UPDATE_VARIANTS names 'fast', not one of the variants separate, p"):
        update_variants()
