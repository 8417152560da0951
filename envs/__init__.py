"""Text environments for agents. `import envs` also registers them with Gymnasium as `echoscope/<name>-v0`."""

from envs.registry import (
    about,
    label,
    make,
    missing_adapters,
    names,
    needs_variant,
    no_default_variant,
    register_with_gymnasium,
    settings_model,
    spec,
    unknown,
    variants,
)

__all__ = [
    "about",
    "label",
    "make",
    "missing_adapters",
    "names",
    "needs_variant",
    "no_default_variant",
    "settings_model",
    "spec",
    "unknown",
    "variants",
]

register_with_gymnasium()
