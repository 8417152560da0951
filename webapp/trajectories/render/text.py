"""Writing on pictures: faces, which letters they have, breaking lines. What is written, and where, is the callers'.

Pillow's own scalable face is always there but knows little beyond ASCII. A text that it cannot write is written in a
face of the machine that can, where there is one, and otherwise in the nearest plain letters.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from PIL import ImageDraw, ImageFont

Font = ImageFont.FreeTypeFont
Colour = str
Draw = ImageDraw.ImageDraw

MACHINE_FACES = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "Arial.ttf", "arial.ttf")
ALIKE = str.maketrans({"−": "-", "–": "-", "—": "-", "•": "·", "\t": "    ", "\u00a0": " ", "\u202f": " "})
"""Characters replaced by similar ones, instead of using another font."""
PLAIN = str.maketrans({"×": "x", "→": "->", "←": "<-", "≤": "<=", "≥": ">=", "½": "1/2", "¼": "1/4", "ß": "ss"})
_MISSING = "\uffff"
_ELLIPSIS = "…"


@lru_cache(maxsize=64)
def built_in(size: int) -> Font:
    """The bundled font."""
    face = ImageFont.load_default(size)
    if not isinstance(face, ImageFont.FreeTypeFont):
        raise RuntimeError("This Pillow was built without FreeType: pictures cannot be written on.")
    return face


@lru_cache(maxsize=64)
def machine(size: int) -> Font | None:
    """A system font with more glyphs, if there is one."""
    for name in MACHINE_FACES:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return None


@lru_cache(maxsize=4096)
def _knows(face_of_machine: bool, character: str) -> bool:
    face = machine(16) if face_of_machine else built_in(16)
    if face is None:
        return False
    if character.isspace():
        return True
    drawn, missing = face.getmask(character), face.getmask(_MISSING)
    return drawn.size != missing.size or bytes(drawn) != bytes(missing)


def choose(text: str, size: int) -> tuple[Font, str]:
    """The font for the text, and the text in glyphs of that font."""
    alike = text.translate(ALIKE)
    if all(_knows(False, character) for character in alike):
        return built_in(size), alike
    face = machine(size)
    if face is not None:
        return face, "".join(c if _knows(True, c) else _nearest(c, True) for c in text)
    return built_in(size), "".join(c if _knows(False, c) else _nearest(c, False) for c in alike)


def _nearest(character: str, face_of_machine: bool) -> str:
    plain = character.translate(PLAIN)
    if plain == character:
        plain = "".join(c for c in unicodedata.normalize("NFKD", character) if not unicodedata.combining(c))
    return plain if plain and all(_knows(face_of_machine, c) for c in plain) else "?"


def can_write(text: str) -> bool:
    """Whether every character has a glyph in an available font."""
    return all(_knows(False, c) for c in text) or all(_knows(True, c) for c in text)


def width(text: str, size: int) -> float:
    """Width of the text on one line."""
    face, written = choose(text, size)
    return face.getlength(written)


def write(
    draw: Draw, at: tuple[float, float], text: str, size: int, fill: Colour, *, anchor: str = "ls", bold: float = 0
) -> float:
    """One line at its baseline's left end, or where `anchor` says (Pillow's two letters). Returns its length.

    `bold` is how much each stroke is widened, as a share of the size: the built-in face has one weight only.
    """
    face, written = choose(text, size)
    draw.text(at, written, font=face, fill=fill, anchor=anchor, stroke_width=size * bold)
    return face.getlength(written)


def fitted(text: str, size: int, room: float) -> str:
    """The text, truncated with an ellipsis to fit the width."""
    if width(text, size) <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if width(text[:middle] + _ELLIPSIS, size) <= room else (low, middle - 1)
    return text[:low].rstrip() + _ELLIPSIS


def wrapped(text: str, size: int, room: float, lines: int) -> list[str]:
    """The text in at most `lines` lines; truncated text ends with an ellipsis."""
    found: list[str] = []
    for paragraph in text.strip().splitlines():
        line = ""
        for word in paragraph.split():
            for piece in _pieces(word, size, room):
                longer = f"{line} {piece}" if line else piece
                if line and width(longer, size) > room:
                    found.append(line)
                    longer = piece
                line = longer
                if len(found) >= lines:
                    return _cut(found, size, room, lines)
        if line:
            found.append(line)
        if len(found) > lines:
            return _cut(found, size, room, lines)
    return found if len(found) <= lines else _cut(found, size, room, lines)


def _pieces(word: str, size: int, room: float) -> list[str]:
    """A word, split if it is longer than a line."""
    if width(word, size) <= room:
        return [word]
    pieces, start = [], 0
    while start < len(word):
        end = start + 1
        while end < len(word) and width(word[start : end + 1], size) <= room:
            end += 1
        pieces.append(word[start:end])
        start = end
    return pieces


def _cut(found: list[str], size: int, room: float, lines: int) -> list[str]:
    kept = found[:lines]
    if kept:
        kept[-1] = fitted(kept[-1] + " " + _ELLIPSIS, size, room) if not kept[-1].endswith(_ELLIPSIS) else kept[-1]
    return kept
