"""Variants of computing an update, forced by an environment variable: for tests and measurements."""

from __future__ import annotations

import os
from dataclasses import dataclass

VARIANTS_VARIABLE = "ECHOSCOPE_UPDATE_VARIANTS"
"""Environment variable with names of variants, separated by commas; usually none."""
_NAMES = ("separate", "packed", "compiled", "half_steps")


@dataclass(frozen=True)
class UpdateVariants:
    """How updates are computed; the result is the same up to rounding, except without float32 copies.

    Attributes:
        prefix_sharing: prefixes that rows of a micro-batch share are computed once, instead of for each row (separate).
        packing: rows are concatenated even where they share no prefix, so that only attention pads them (packed).
        compile_layers: norms and MLPs of the decoder layers are compiled in the first update (compiled).
        master_weights: with policy.dtype bfloat16, steps are taken on float32 copies of the weights; without
            (half_steps), steps below the resolution of the weights are lost.
    """

    prefix_sharing: bool = True
    packing: bool = False
    compile_layers: bool = False
    master_weights: bool = True


def update_variants() -> UpdateVariants:
    """Read the environment variable.

    Raises:
        ValueError: it names an unknown variant.
    """
    names = {name.strip() for name in os.environ.get(VARIANTS_VARIABLE, "").split(",")} - {""}
    if unknown := sorted(names.difference(_NAMES)):
        raise ValueError(f"{VARIANTS_VARIABLE} names {unknown[0]!r}, not one of the variants {', '.join(_NAMES)}")
    return UpdateVariants(
        prefix_sharing="separate" not in names,
        packing="packed" in names,
        compile_layers="compiled" in names,
        master_weights="half_steps" not in names,
    )
