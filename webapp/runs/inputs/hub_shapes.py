"""Shapes of models on the Hugging Face Hub, from their config.json; nothing else is downloaded.

The shapes are in the cache that all processes of the site share, so that each model is looked up once a day.
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
"""Seconds until a model is looked up again after it was found, or after it was not found or the Hub was down."""
SECONDS = 3.0
"""Maximum wait for the Hub; a user waits for the page meanwhile."""
MAX_BYTES = 1_000_000

logger = logging.getLogger(__name__)


def known_hub_shape(model: str, revision: str = "") -> ModelShape | None:
    """Return the shape of a hub id that was looked up before; None if it was not looked up or not found."""
    config = caches["hub"].get(_key(model, revision))
    return shapes.read(config) if config else None


def hub_shape(model: str, revision: str = "") -> ModelShape | None:
    """Return the shape of a hub id, after a look-up if needed; None if it is unavailable.

    Requests have no token, so that users see nothing that only the site may read: private and gated models are not
    found. With HF_HUB_OFFLINE nothing is requested; HF_ENDPOINT names a mirror.
    """
    cache, key = caches["hub"], _key(model, revision)
    config = cache.get(key)
    if config is None and is_hub_id(model) and not constants.is_offline_mode():
        config = _download(model, revision)
        cache.set(key, config, DAY if config else SOON)
    return shapes.read(config) if config else None


def _download(model: str, revision: str) -> dict[str, Any]:
    """Return the model's config.json; empty if there is none, or no answer in time."""
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
    """Return the key in the cache, whose keys must not contain every character of a name."""
    return "hub-shape:" + sha256(f"{model}@{revision}".encode()).hexdigest()
