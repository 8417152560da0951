"""Random public ids: short, unguessable, URL-safe and easy to read aloud. They are never primary keys."""

import secrets

ALPHABET = "23456789abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"  # without look-alikes: 0 O 1 l I i o


def slug() -> str:
    """Return a public id: 12 characters, 69 bits."""
    return "".join(secrets.choice(ALPHABET) for _ in range(12))


def token() -> str:
    """Return a secret that grants access by itself: 24 characters, 138 bits."""
    return "".join(secrets.choice(ALPHABET) for _ in range(24))
