"""Colours and style sheet of the pictures: the light theme of static/css, in the form that resvg reads."""

from __future__ import annotations

import re

from django.conf import settings

_STYLES = settings.ROOT / "static" / "css"
_LIGHT_DARK = r"light-dark\(([^,]+),[^()]+\)"

LIGHT: dict[str, str] = dict(
    re.findall(rf"--([a-z-]+): {_LIGHT_DARK};", (_STYLES / "base.css").read_text(encoding="utf-8"))
)
"""Colours by the names of their custom properties."""
INK = LIGHT["ink"]


def _resolved(sheet: str) -> str:
    """Return the rules without variables. Texts keep the font that they were measured in."""
    rules = re.sub(r"/\*.*?\*/|font-family: [^;]+;", "", sheet, flags=re.DOTALL).partition("\n.mini ")[0]
    return re.sub(r"var\(--([a-z-]+)\)", lambda name: LIGHT[name[1]], re.sub(_LIGHT_DARK, r"\1", rules)).strip()


_BOLD = "\n.mistake-glyph text { stroke: var(--panel); stroke-width: .02; }"
"""In place of the weight, since the font of pictures has only one."""
BOARD_STYLE = _resolved((_STYLES / "board.css").read_text(encoding="utf-8")) + _resolved(_BOLD)
"""Style sheet of a board outside of pages."""
