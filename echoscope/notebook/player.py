"""`echoscope.player(…)` plays a trajectory in Jupyter, VS Code and other notebooks, without depending on them."""

from __future__ import annotations

import html
import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from echoscope.models import Share
from echoscope.notebook.trajectory_source import Source, embed_address, load_document

Theme = Literal["light", "dark"]
_HTTP = re.compile(r"https?://", re.IGNORECASE)


class Player:
    """A player that notebooks display: its HTML is a frame with a site's embedded player or a self-contained page.

    `page` is the complete page; None for a site's player. It loads nothing from elsewhere.
    """

    def __init__(self, frame: str, page: str | None) -> None:
        self._frame, self.page = frame, page

    def _repr_html_(self) -> str:
        return self._frame

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, for a browser. Raises ValueError for the player of a site."""
        if self.page is None:
            raise ValueError("this player is a page of a site: open its share link instead")
        target = Path(path)
        target.write_text(self.page, encoding="utf-8")
        return target


def player(
    source: Source,
    *,
    trajectory: str | int | None = None,
    turn: int | None = None,
    action: int | None = None,
    autoplay: bool = False,
    theme: Theme | None = None,
    width: int | str = "100%",
    height: int = 540,
) -> Player:
    """Create a player of a trajectory, as the last value of a notebook's cell.

    Args:
        source: a share link (its URL, or what `client.share(…)` returned); a trajectory of `client.trajectory(…)`; the
            document or the JSON file of a trajectory's export; or a run's folder or journal with `trajectory`.
        trajectory: only for folders and journals: its id in the journal; iteration, group and member as in "1-0-0",
            group and member counted from 0; or its number in the order of their groups, from 1.
        turn, action: position at which it opens, counted from 1, as in links.
        autoplay: start playing, unless the reader's system requests reduced motion.
        theme: light or dark; None: as the reader's system.
        width: width of the frame, in pixels or as in "100%".
        height: height of the frame, in pixels.
    Raises:
        ValueError: the source is none of these, or has no such trajectory; or a position is below 1.
        OSError: a file cannot be read.
    """
    if (turn is not None and turn < 1) or (action is not None and action < 1):
        raise ValueError(f"turn and action count from 1, not {turn if turn is not None and turn < 1 else action}")
    if action is not None and turn is None:
        raise ValueError("action belongs to a turn: give turn as well")
    size = f'width="{html.escape(str(width))}" height="{int(height)}" style="border:0;max-width:100%"'
    options = {"turn": turn, "action": action, "autoplay": "1" if autoplay else None, "theme": theme}
    address = source.url if isinstance(source, Share) else source
    if isinstance(address, str) and _HTTP.match(address):
        given = {name: str(value) for name, value in options.items() if value is not None}
        target = html.escape(embed_address(address, given))
        return Player(f'<iframe src="{target}" {size} title="Echoscope" loading="lazy"></iframe>', None)
    if isinstance(address, str):
        address = Path(address)
    document = load_document(address, trajectory)
    page = _page(document | {"start": [turn, action], "autoplay": autoplay, "theme": theme})
    title = html.escape(f"Echoscope: {document['title']}")
    frame = f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" {size} title="{title}"></iframe>'
    return Player(frame, page)


def _page(data: dict[str, object]) -> str:
    """Return the page with the data as JSON that cannot end the script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return _template().replace("{{ data }}", text)


@cache
def _template() -> str:
    return files("echoscope.notebook").joinpath("page.html").read_text(encoding="utf-8")
