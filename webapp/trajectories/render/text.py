"""Text on images: fonts, glyph coverage, line breaking.

Pillow's bundled font is always available but covers little beyond ASCII. Other texts use a system font that covers
them, or similar ASCII characters if there is none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from PIL import ImageDraw, ImageFont

Font = ImageFont.FreeTypeFont
Colour = str
Draw = ImageDraw.ImageDraw

MACHINE_FACES = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "Arial.ttf", "arial.ttf")
ALIKE = str.maketrans({"−": "-", "–": "-", "—": "-", "•": "·", "\t": "    ", "\u00a0": " ", "\u202f": " "})
"""Characters replaced by similar ones, instead of using another font."""
PLAIN = str.maketrans({"×": "x", "→": "->", "←": "<-", "≤": "<=", "≥": ">=", "½": "1/2", "¼": "1/4", "ß": "ss"})
MAX_PIECE = 300
"""Maximum number of characters of a line: more never fit, and measuring them takes time."""
DOUBT = 0.25
"""Share of the room by which the sum of the words of a line may be wrong: they may have another font than the line."""
_MISSING = "\uffff"
_ELLIPSIS = "…"


@lru_cache(maxsize=64)
def bundled_font(size: int) -> Font:
    """Return the bundled font."""
    face = ImageFont.load_default(size)
    if not isinstance(face, ImageFont.FreeTypeFont):
        raise RuntimeError("This Pillow was built without FreeType: images cannot contain text.")
    return face


@lru_cache(maxsize=64)
def system_font(size: int) -> Font | None:
    """Return a system font with more glyphs, if available."""
    for name in MACHINE_FACES:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return None


@lru_cache(maxsize=4096)
def _has_glyph(use_system_font: bool, character: str) -> bool:
    face = system_font(16) if use_system_font else bundled_font(16)
    if face is None:
        return False
    if character.isspace():
        return True
    drawn, missing = face.getmask(character), face.getmask(_MISSING)
    return drawn.size != missing.size or bytes(drawn) != bytes(missing)


def choose(text: str, size: int) -> tuple[Font, str]:
    """Return the font for the text, and the text in glyphs of that font."""
    alike = text.translate(ALIKE)
    if all(_has_glyph(False, character) for character in alike):
        return bundled_font(size), alike
    face = system_font(size)
    if face is not None:
        return face, "".join(c if _has_glyph(True, c) else _similar(c, True) for c in text)
    return bundled_font(size), "".join(c if _has_glyph(False, c) else _similar(c, False) for c in alike)


def _similar(character: str, use_system_font: bool) -> str:
    if unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return ""  # joiners, selectors and marks on a character that has no glyph either
    plain = character.translate(PLAIN)
    if plain == character:
        plain = "".join(c for c in unicodedata.normalize("NFKD", character) if not unicodedata.combining(c))
    return plain if plain and all(_has_glyph(use_system_font, c) for c in plain) else "?"


def can_write(text: str) -> bool:
    """Return True if every character has a glyph in an available font."""
    return all(_has_glyph(False, c) for c in text) or all(_has_glyph(True, c) for c in text)


def width(text: str, size: int) -> float:
    """Return the width of the text on one line."""
    face, written = choose(text, size)
    return face.getlength(written)


def write(
    draw: Draw, at: tuple[float, float], text: str, size: int, fill: Colour, *, anchor: str = "ls", bold: float = 0
) -> float:
    """Draw one line, its baseline's left end (or Pillow's `anchor`) at the point. Returns its length.

    `bold` widens each stroke by that share of the size, since the bundled font has only one weight.
    """
    face, written = choose(text, size)
    draw.text(at, written, font=face, fill=fill, anchor=anchor, stroke_width=size * bold)
    return face.getlength(written)


def fitted(text: str, size: int, room: float) -> str:
    """Return the text, truncated with an ellipsis to fit the width."""
    if len(text) <= MAX_PIECE and width(text, size) <= room:
        return text
    low, high = 0, min(len(text), MAX_PIECE)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if width(text[:middle] + _ELLIPSIS, size) <= room else (low, middle - 1)
    return text[:low].rstrip() + _ELLIPSIS


def wrapped(text: str, size: int, room: float, lines: int) -> list[str]:
    """Return the text in at most `lines` lines; truncated text ends with an ellipsis."""
    wrapped_lines: list[str] = []
    space = _word_width(" ", size)
    for paragraph in text[: lines * MAX_PIECE].strip().splitlines():
        line, used = "", 0.0
        for word in paragraph.split():
            for piece in _pieces(word, size, room):
                wide = _word_width(piece, size)
                longer = f"{line} {piece}" if line else piece
                used += space + wide if line else wide
                if line and _exceeds(longer, size, room, used):
                    wrapped_lines.append(line)
                    longer, used = piece, wide
                line = longer
                if len(wrapped_lines) >= lines:
                    return _cut(wrapped_lines, size, room, lines)
        if line:
            wrapped_lines.append(line)
        if len(wrapped_lines) > lines:
            return _cut(wrapped_lines, size, room, lines)
    return wrapped_lines if len(wrapped_lines) <= lines else _cut(wrapped_lines, size, room, lines)


def _exceeds(line: str, size: int, room: float, sum_of_words: float) -> bool:
    """Return True if the line is too wide. It is measured only if the sum of its words leaves a doubt."""
    if abs(sum_of_words - room) > DOUBT * room:
        return sum_of_words > room
    return width(line, size) > room


@lru_cache(maxsize=8192)
def _word_width(word: str, size: int) -> float:
    return width(word, size)


def _pieces(word: str, size: int, room: float) -> Iterator[str]:
    """Yield a word, split if it is longer than a line; pieces are measured lazily."""
    start = 0
    while start < len(word):
        end, longer = start + 1, min(len(word), start + MAX_PIECE)
        if _word_width(word[start:longer], size) <= room:
            end = longer
        while end < longer:  # the longest beginning that fits, at least one character
            middle = (end + longer + 1) // 2
            end, longer = (middle, longer) if width(word[start:middle], size) <= room else (end, middle - 1)
        yield word[start:end]
        start = end


def _cut(wrapped_lines: list[str], size: int, room: float, lines: int) -> list[str]:
    visible = wrapped_lines[:lines]
    if visible:
        visible[-1] = (
            fitted(visible[-1] + " " + _ELLIPSIS, size, room) if not visible[-1].endswith(_ELLIPSIS) else visible[-1]
        )
    return visible
