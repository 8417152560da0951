"""Shapes of models on the Hugging Face Hub, from their config.json, which is small; nothing else is downloaded.

They are kept in the cache that all processes of the site share, so that each model is looked up once a day.
"""

from __future__ import annotations

import json
import logging
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import httpx
from django.core.cache import caches
from huggingface_hub import constants

from trainer.config.base import is_hub_id
from trainer.policy import shapes
from trainer.policy.shapes import ModelShape

DAY, SOON = 86_400, 600
"""Seconds until a model is looked up again: one that was found, and one that was not, or while the Hub is away."""
SECONDS = 3.0
"""Longest wait for the Hub; a person waits for the page meanwhile."""
MAX_BYTES = 1_000_000

logger = logging.getLogger(__name__)


def known_hub_shape(model: str, revision: str = "") -> ModelShape | None:
    """Shape of a hub id that was looked up before; None if it was not, or not found."""
    config = caches["hub"].get(_key(model, revision))
    return shapes.read(config) if config else None


def hub_shape(model: str, revision: str = "") -> ModelShape | None:
    """Shape of a hub id, looked up if need be; None if it cannot be had.

    The site shows its users nothing that only its token may read, so it asks without one: private and gated models are
    not found. With HF_HUB_OFFLINE the site asks nothing; HF_ENDPOINT names a mirror.
    """
    cache, key = caches["hub"], _key(model, revision)
    config = cache.get(key)
    if config is None and is_hub_id(model) and not constants.is_offline_mode():
        config = _download(model, revision)
        cache.set(key, config, DAY if config else SOON)
    return shapes.read(config) if config else None


def _download(model: str, revision: str) -> dict[str, Any]:
    """The model's config.json; empty if there is none, or no answer within the time."""
    url = f"{constants.ENDPOINT}/{quote(model)}/resolve/{quote(revision or 'main', safe='')}/config.json"
    try:
        with httpx.stream("GET", url, timeout=SECONDS, follow_redirects=True) as response:
            if response.status_code != httpx.codes.OK:
                return {}
            data = b""
            for part in response.iter_bytes():
                data += part
                if len(data) > MAX_BYTES:
                    return {}
        config = json.loads(data)
    except (httpx.HTTPError, ValueError) as error:
        logger.info("The size of %s is unknown: %s does not answer (%s).", model, url, error)
        return {}
    return config if isinstance(config, dict) else {}


def _key(model: str, revision: str) -> str:
    """Key in the cache, whose keys must not have the characters of every name."""
    return "hub-shape:" + sha256(f"{model}@{revision}".encode()).hexdigest()
