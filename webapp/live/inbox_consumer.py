"""Websocket of a user's inbox, `/ws/inbox/?after=<microseconds>`: the number of unread entries, and new ones.

One socket serves all pages of a browser (static/js/inbox/bell.js). Frames of the server:

    inbox unread entries cursor    first, and again whenever it changes; entries after the cursor, newest first
    ping, pong                     heartbeat

Close codes: 4403, log in first; 1013, database unavailable, retry.
"""

from __future__ import annotations

import asyncio

from django.utils import timezone

from webapp.core.broadcast import hub_of_running_loop
from webapp.core.database import query
from webapp.core.publisher import inbox_group
from webapp.live.annotation_consumer import AnnotationHub
from webapp.live.consumer_base import LOG_IN, LiveConsumer, poll_interval
from webapp.notifications.inbox import microseconds, update_since

POLL_INTERVAL = 20.0
POLL_WITHOUT_REDIS = 4.0


class InboxHub(AnnotationHub):
    """The inbox sockets of one event loop."""

    without_redis = "pages poll for notifications"

    def group(self, slug: str) -> str:
        return inbox_group(slug)


_hubs: dict[asyncio.AbstractEventLoop, InboxHub] = {}


def hub() -> InboxHub:
    """Return the hub of the running event loop."""
    return hub_of_running_loop(_hubs, InboxHub)


class InboxConsumer(LiveConsumer):
    """One browser of a user."""

    max_message_length = 200

    async def open(self) -> int | None:
        user = self.scope["user"]
        if not user.is_authenticated:
            return LOG_IN
        self.slug = str(user.pk)
        self.after = self.cursor("after", default=microseconds(timezone.now()))
        hub().join(self)
        return None

    async def visibility(self) -> bool:
        return True  # entries are selected by what the user may see at that moment

    async def release(self) -> None:
        hub().leave(self)

    async def follow(self) -> None:
        sent = -1
        while True:
            self.woken.clear()
            update = await query(update_since, self.scope["user"], self.after)
            if update.entries:
                self.after = microseconds(update.entries[0].at)
            if update.entries or update.unread != sent:
                sent = update.unread
                entries = [entry.as_data() for entry in update.entries]
                await self.send_frame({"type": "inbox", "unread": sent, "entries": entries, "cursor": self.after})
            await self.wait_until_woken(poll_interval(hub(), POLL_INTERVAL, POLL_WITHOUT_REDIS))
