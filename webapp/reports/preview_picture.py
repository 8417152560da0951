"""Picture of a report's link in chats and social networks: its title and its first words."""

from __future__ import annotations

from io import BytesIO

from PIL import Image, ImageDraw

from webapp.trajectories.render.card import PREVIEW, draw_brand
from webapp.trajectories.render.palette import INK, LIGHT
from webapp.trajectories.render.text import wrapped, write

MARGIN = 72


def draw_report(title: str, byline: str, words: str) -> bytes:
    """PNG of 1200 by 630 pixels."""
    wide, high = PREVIEW
    image = Image.new("RGB", PREVIEW, LIGHT["bg"])
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, wide, 10), LIGHT["accent"])
    draw_brand(draw, MARGIN + 16, 88, 16)
    write(draw, (MARGIN + 46, 98), "Echoscope", 30, INK, bold=0.02)
    room, y = wide - 2 * MARGIN, 130.0
    for line in wrapped(title, 58, room, 3):
        y += 76
        write(draw, (MARGIN, y), line, 58, INK, bold=0.018)
    y += 52
    write(draw, (MARGIN, y), byline, 28, LIGHT["accent"], bold=0.012)
    y += 28
    for line in wrapped(words, 28, room, max(1, int((high - 50 - y) / 40))) if words else []:
        y += 40
        write(draw, (MARGIN, y), line, 28, LIGHT["soft"])
    file = BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()
