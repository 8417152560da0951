"""Shapes and texts of pictures as SVG, and their raster images."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from functools import cache, lru_cache
from html import escape
from io import BytesIO
from pathlib import Path

import resvg_py
from PIL import Image

from webapp.trajectories.render.palette import BOARD_STYLE
from webapp.trajectories.render.text import bundled_font, choose, system_font

Box = tuple[float, float, float, float]
"""Left, top, right and lower edge."""
SIDE = 1000
"""Units of a side of pictures that are not drawn in cells."""
MAX_KEPT = 16
"""Number of raster images to keep: an animation repeats its boards, and a film has twelve at a time."""
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean(text: str) -> str:
    """Escape a text for content and attributes; characters that XML forbids are replaced."""
    return escape(_NO_XML.sub("\ufffd", text))


def document(view: Box, parts: Sequence[str], classes: str = "") -> str:
    """Return a whole picture. `view`: left and upper edge, width and height of the visible part."""
    x, y, width, height = (f"{value:g}" for value in view)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{clean(classes)}" viewBox="{x} {y} {width} {height}" '
        f'font-family="{bundled_font(16).getname()[0]}, Inter, Helvetica, Arial, sans-serif">'
        f"<style>{BOARD_STYLE}</style>{''.join(parts)}</svg>"
    )


def square(parts: Sequence[str], ground: str) -> str:
    """Return a picture with sides of SIDE units on a ground of this colour."""
    return document((0, 0, SIDE, SIDE), [plate((0, 0, SIDE, SIDE), ground), *parts])


def plate(box: Box, fill: str, radius: float = 0, edge: str = "", line: float = 0) -> str:
    """Draw a rectangle with rounded corners. Its edge is inside of the box."""
    left, top, right, bottom = box
    half = line / 2
    return (
        f'<rect x="{left + half:g}" y="{top + half:g}" width="{max(0, right - left - line):g}" '
        f'height="{max(0, bottom - top - line):g}" rx="{radius:g}" fill="{fill}" '
        f'stroke="{edge or "none"}" stroke-width="{line:g}"/>'
    )


def write(at: tuple[float, float], text: str, size: float, fill: str, *, anchor: str = "start", bold: float = 0) -> str:
    """Draw one line, its baseline's left end (or SVG's `anchor`) at the point, in the font that measures it.

    `bold` widens each stroke by that share of the size, since the bundled font has only one weight.
    """
    face, written = choose(text, round(size))
    family = "" if face is bundled_font(round(size)) else f' font-family="{clean(str(face.getname()[0]))}"'
    stroke = f' stroke="{fill}" stroke-width="{2 * bold * size:g}"' if bold else ""
    return (
        f'<text x="{at[0]:g}" y="{at[1]:g}" font-size="{size:g}" fill="{fill}" text-anchor="{anchor}"'
        f"{family}{stroke}>{clean(written)}</text>"
    )


@lru_cache(maxsize=MAX_KEPT)
def raster(svg: str, side: int) -> Image.Image:
    """Return a document as an image with sides of `side` pixels, which other callers receive too: do not change it."""
    files = _font_files()
    png = resvg_py.svg_to_bytes(
        svg_string=svg,
        width=side,
        height=side,
        skip_system_fonts=True,
        font_files=files[:1] if svg.isascii() else files,
    )
    return Image.open(BytesIO(png)).convert("RGB")


def _font_files() -> list[str]:
    """Return the files of the fonts that text.py measures with; Pillow has its own in memory only."""
    bundled, system = Path(_folder().name, "bundled.ttf"), system_font(16)
    if not bundled.exists():  # not yet, or no longer: systems clean their temporary folders
        bundled.parent.mkdir(exist_ok=True)
        bundled.write_bytes(bundled_font(16).font_bytes)
    return [str(bundled), *([str(system.path)] if system else [])]


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder of this process."""
    return tempfile.TemporaryDirectory(prefix="echoscope-fonts-")
