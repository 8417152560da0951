"""Text environments for agents. `import envs` also registers them with Gymnasium as `echoscope/<name>-v0`."""

from envs.registry import make, names, register_with_gymnasium, settings_model, spec

__all__ = ["make", "names", "settings_model", "spec"]

register_with_gymnasium()
