"""A report's body as HTML for one reader: its blocks with their embeds, each with a key by which open pages compare."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from webapp.reports.blocks import blocks
from webapp.reports.embed_resolver import Embed, Resolver
from webapp.reports.references import Reference
from webapp.teams.models import User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


@dataclass(frozen=True)
class RenderedBlock:
    """A block and the digest of its HTML."""

    html: SafeString
    embed: bool

    @property
    def key(self) -> str:
        return hashlib.sha256(self.html.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Document:
    """The rendered body.

    Attributes:
        blocks: in order.
        live: whether an embed changes while a run goes on.
        closed: embeds that readers without an account do not see.
    """

    blocks: list[RenderedBlock]
    live: bool
    closed: int


def document(
    body: str,
    user: User | AnonymousUser,
    hosts: Collection[str],
    *,
    limit: int = 0,
    picture: Callable[[Embed], str] | None = None,
) -> Document:
    """Render a body for a reader; embeds after `limit` (0 = all) are left out.

    With `picture`, which gives the address of an embed's picture, there are no frames: for a file.
    """
    found = blocks(body, hosts)
    references = [one for one in found if isinstance(one, Reference)]
    allowed = references[: limit or len(references)]
    resolver = Resolver(allowed, user)
    rendered: list[RenderedBlock] = []
    live, closed, shown = False, 0, 0
    for block in found:
        if not isinstance(block, Reference):
            rendered.append(RenderedBlock(block, False))
            continue
        shown += 1
        if shown > len(allowed):
            rendered.append(RenderedBlock(render_to_string("reports/_too_many.html", {"limit": limit}), True))
            continue
        embed = resolver.embed(block)
        live = live or embed.live
        closed += not embed.open
        context = {"embed": embed, "reference": block, "static": picture is not None, **embed.context}
        if picture is not None and embed.visible:
            context["picture_data"] = picture(embed)
        rendered.append(RenderedBlock(render_to_string(embed.template, context), True))
    return Document(rendered, live, closed)
