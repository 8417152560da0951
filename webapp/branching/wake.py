"""Wakes the workers when a question was asked. Messages may be lost: workers also look at intervals."""

from __future__ import annotations

import logging
import time
from threading import Event

import redis
from django.conf import settings

from webapp.core.publisher import publisher

CHANNEL = "echoscope:asked"
LOG_INTERVAL = 300.0
STOP_SECONDS = 1.0
"""Interval in which a wait notices the end."""
_UNAVAILABLE = (redis.RedisError, OSError)

logger = logging.getLogger(__name__)


def wake_samplers() -> None:
    """Tell all workers that a question waits, without waiting for Redis."""
    publisher().in_background(_publish)


def _publish() -> None:
    with redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=2) as client:
        client.publish(CHANNEL, "")


class Wake:
    """A worker's wait for the next question, of a few seconds. Without Redis it waits for the whole interval."""

    def __init__(self, end: Event) -> None:
        self._end = end
        self._messages: redis.client.PubSub | None = None
        self._logged = -LOG_INTERVAL

    def wait(self, seconds: float) -> None:
        """Wait until a question was asked, the end, or for `seconds`."""
        deadline = time.monotonic() + seconds
        try:
            messages = self._subscribed()
            while not self._end.is_set() and (left := deadline - time.monotonic()) > 0:
                message = messages.get_message(timeout=min(left, STOP_SECONDS))
                if message is not None and message["type"] == "message":
                    return
        except _UNAVAILABLE as error:
            self.close()
            if time.monotonic() - self._logged > LOG_INTERVAL:
                self._logged = time.monotonic()
                logger.info("Redis does not answer (%s): questions are noticed within %.0f s.", error, seconds)
            self._end.wait(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Close the connection."""
        messages, self._messages = self._messages, None
        if messages is not None:
            messages.close()

    def _subscribed(self) -> redis.client.PubSub:
        if self._messages is None:
            client = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=10)
            messages = client.pubsub()  # type: ignore[no-untyped-call]
            messages.subscribe(CHANNEL)
            self._messages = messages
        return self._messages
