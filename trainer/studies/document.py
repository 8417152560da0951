"""A study as a document with sections and tables. The command writes it as Markdown, the site also as a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trainer.studies.tables import table

ColumnKind = Literal["words", "row header", "figure", "figures", "verdict"]
Mark = Literal["", "incomplete", "tag", "strong", "unusual"]


@dataclass(frozen=True)
class Piece:
    """A part of a cell. `note` is an explanation shown on hover; `code` is the exact name behind the label `text`.

    `colour` is the number of a line in the charts, from 1; 0 for none.
    """

    text: str
    link: str = ""
    note: str = ""
    code: str = ""
    mark: Mark = ""
    colour: int = 0


Cell = Sequence[Piece]


def cell(text: str) -> Cell:
    """Create a cell with plain text."""
    return (Piece(text),)


@dataclass(frozen=True)
class Column:
    """The head of a column, and the kind of its cells: "figures" are several in one cell."""

    title: str
    kind: ColumnKind = "words"
    code: str = ""


@dataclass(frozen=True)
class StudySection:
    """A heading with a table. `about` is a line below the heading, `notes` are paragraphs below the table."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    about: str = ""
    notes: Sequence[str] = ()

    @property
    def lines(self) -> list[list[tuple[Column, Cell]]]:
        """Return the rows, each cell with its column."""
        return [list(zip(self.columns, row, strict=True)) for row in self.rows]

    @property
    def has_head(self) -> bool:
        """True if the columns have titles."""
        return any(column.title for column in self.columns)


@dataclass(frozen=True)
class Document:
    """The whole study.

    Attributes:
        lead: paragraphs below the title.
        picture: what its charts show.
        outcome: what was found, in words; empty as long as nothing could be tested.
    """

    title: str
    lead: Sequence[str]
    picture: str
    sections: Sequence[StudySection] = field(default_factory=list)
    outcome: str = ""


def markdown(document: Document, picture: str = "") -> str:
    """Format the document as Markdown.

    Args:
        picture: name of the file with its charts, next to the document; empty if there is none.
    """
    parts = [f"# {_plain(document.title)}", document.outcome, *document.lead]
    if picture:
        parts.append(f"![{document.picture}]({picture})")
    for section in document.sections:
        rows = [["".join(_pieces(cell_pieces)) for cell_pieces in row] for row in section.rows]
        heads = [" ".join(_with_code(column.title, column.code)) for column in section.columns]
        parts += [f"## {section.title}", section.about, table(heads, rows), *section.notes]
    return "\n\n".join(part for part in parts if part) + "\n"


def _pieces(pieces: Cell) -> Iterable[str]:
    return " ".join(filter(None, map(_piece, pieces)))


def _piece(piece: Piece) -> str:
    text = " ".join(_with_code(piece.text, piece.code))
    if piece.link and text:
        text = f"[{text}]({piece.link})"
    if piece.mark == "tag":
        return f"({text})"
    return f"*{text}*" if piece.mark == "incomplete" and text else text


def _with_code(text: str, code: str) -> Iterable[str]:
    """Yield a label, and the exact name in parentheses; only the name if there is no label."""
    if text:
        yield _plain(text)
    if code:
        yield f"(`{code}`)" if text else f"`{code}`"


def _plain(text: str) -> str:
    """Escape markup, and put the text in one line."""
    return re.sub(r"([\\`*\[\]]|<(?=[A-Za-z/!?]))", r"\\\1", " ".join(text.split()))
