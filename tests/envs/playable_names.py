"""Names of the environments that can be played with their default settings."""

import envs

PLAYABLE = [name for name in envs.names() if not envs.needs_variant(name)]
"""All but adapters whose settings must name a server or an installed environment."""
