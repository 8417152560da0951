"""Claims about grids of Sokoban and FrozenLake: positions, directions, distances, neighbours, counts, corners.

Each rule is a pattern over a sentence and a function that compares a match with the facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from envs.base import ArmsBoard, Claim, GridBoard, PageBoard, TextBoard
from envs.claims.coordinates import Cell, Position, judge, position_of
from envs.claims.grid_facts import MOVABLE, GridFacts, Offset, adjacent, any_of, apart, lies, neighbour, place_words
from envs.claims.grid_grammar import GRAMMARS, read_offsets, thing_of
from envs.claims.kinds import POSITIONS
from envs.claims.number_words import count_of, ordinal_of
from envs.claims.sentences import Sentence, sentences

_Verdict = tuple[bool | None, str, tuple[Cell, ...]]
_Rule = tuple[str, tuple[str, ...], re.Pattern[str], Callable[[re.Match[str]], _Verdict | None]]
_POSITION = "position"
"""In place of the kind of a claim: the position of the thing that it is about."""
_DIRECTION_WORDS = (
    "left", "right", "above", "below", "up", "down", "over", "neath", "under",
    "north", "south", "west", "east",
)  # fmt: skip
_STANDING = ("goal", "hole")
_CELL_WORDS = ("cell", "square", "tile", "space", "spot", "position", "field")


def read_grid_claims(thought: str, board: GridBoard | ArmsBoard | PageBoard | TextBoard) -> list[Claim] | None:
    """Claims of a thought about a grid; None for other boards and themes."""
    facts = GridFacts.of(board) if isinstance(board, GridBoard) else None
    if facts is None:
        return None
    return list(_read(thought, facts))


@lru_cache(maxsize=2048)
def _read(thought: str, facts: GridFacts) -> tuple[Claim, ...]:
    """Cached: members of a group often write the same about the same state."""
    return tuple(_GridReader(thought, facts).read())


@dataclass(frozen=True)
class _Found:
    """A statement: its kind, place in the thought, verdict if known, what is so instead, and the cells concerned."""

    kind: str
    start: int
    end: int
    verdict: bool | None
    actual: str
    cells: tuple[Cell, ...]
    actual_cells: tuple[Cell, ...] = ()


@dataclass(frozen=True)
class _Placed:
    """A statement that a thing is at a position."""

    start: int
    end: int
    thing: str
    position: Position


class _GridReader:
    """One thought and one board."""

    def __init__(self, thought: str, facts: GridFacts) -> None:
        self.thought, self.facts, self.grammar = thought, facts, GRAMMARS[facts.theme]
        self.found: list[_Found] = []
        self.placed: list[_Placed] = []

    def read(self) -> list[Claim]:
        """All claims that are true or false, in order of the text."""
        rules = self._rules()
        for sentence in sentences(self.thought):
            if not sentence.asserts:
                continue
            self._places(sentence)
            lower = sentence.text.lower()
            for kind, words, pattern, compare in rules:
                if not any(word in lower for word in words):  # most sentences match no rule: this is what they cost
                    continue
                for match in pattern.finditer(sentence.text):
                    stated = sentence.states(match.start(), match.end()) and self._settled(sentence, match)
                    stated = stated and not self._unknown_other(match)
                    if stated and (found := compare(match)) is not None:
                        self._add(self._kind(kind, match), sentence, match, found)
        self._judge_places()
        return [
            Claim(
                start=found.start,
                end=found.end,
                true=found.verdict,
                kind=found.kind,
                actual=None if found.verdict else found.actual,
                cells=sorted(set(found.cells)) or None,
                actual_cells=None if found.verdict else sorted(found.actual_cells) or None,
            )
            for found in sorted(self.found, key=lambda found: found.start)
            if found.verdict is not None
        ]

    def _rules(self) -> list[_Rule]:
        """The rules of this theme, most specific first: kind, words of which one must occur, pattern, comparison."""
        grammar, lake = self.grammar, self.facts.theme == "frozen_lake"
        of_theme: list[_Rule] = (
            [
                ("way", ("reach",), grammar.reach, self._reach),
                ("own_position", _STANDING, grammar.standing, self._standing),
            ]
            if lake
            else [
                ("boxes_on_targets", (" on ",), grammar.on_target, self._on_target),
                ("wall", ("wall",), grammar.against, self._against),
            ]
        )
        return [
            *of_theme,
            (_POSITION if lake else "wall", ("corner",), grammar.corner, self._corner),
            ("direction", ("same",), grammar.same_line, self._same_line),
            (_POSITION, ("row", "col"), grammar.line, self._line),
            ("direction", ("from",), grammar.distance, self._distance),
            ("neighbour", _CELL_WORDS, grammar.cell, self._cell),
            ("direction", ("there", " see ", " have "), grammar.there, self._offset),
            ("direction", _DIRECTION_WORDS, grammar.offset, self._offset),
            ("direction", ("adjacent", "next to", "beside", "touching"), grammar.beside, self._beside),
            ("neighbour", _DIRECTION_WORDS, grammar.front, self._cell),
            ("count", ("there", " see ", " have "), grammar.count, self._count),
            ("size", ("x", "×", "by"), grammar.size, self._size),
        ]

    def _kind(self, kind: str, match: re.Match[str]) -> str:
        """The kind of a claim: of its rule, or by the thing that it is about."""
        if kind == _POSITION:
            return POSITIONS.get(self._thing(match["a"]), "wall")
        return "wall" if kind == "direction" and self._thing(match["a"]) == "wall" else kind

    def _add(self, kind: str, sentence: Sentence, match: re.Match[str], found: _Verdict) -> None:
        start, end = _trimmed(sentence, match)
        taken = [(other.start, other.end) for other in self.found] + [(place.start, place.end) for place in self.placed]
        if any(start < last and first < end for first, last in taken):
            return
        self.found.append(_Found(kind, start, end, *found))

    def _settled(self, sentence: Sentence, match: re.Match[str]) -> bool:
        """Whether the statement is about the board: things that stay, or nothing has been played ahead."""
        if match.start() < sentence.settled:
            return True
        things = {self._thing(text) for name, text in match.groupdict().items() if name in ("a", "b", "c") and text}
        return (
            bool(things)
            and not things & (MOVABLE | {""})
            and "b" in match.groupdict()
            and bool(match.groupdict().get("b"))
        )

    def _thing(self, noun: str | None) -> str:
        """The thing that a noun names on this board; "" for none."""
        return thing_of(self.facts.theme, noun)

    def _unknown_other(self, match: re.Match[str]) -> bool:
        """Whether the statement names "the other" one of a thing of which there is only one."""
        for name in ("a", "b", "c"):
            if not match.groupdict().get(name):
                continue
            before = match.string[match.start() : match.start(name)].lower().split()
            if before[-1:] in (["other"], ["another"]) and len(self._cells(match[name])) < 2:
                return True
        return False

    def _cells(self, noun: str | None) -> frozenset[Cell]:
        return self.facts.things.get(self._thing(noun), frozenset())

    # -- positions -----------------------------------------------------------------------------------------------------

    def _places(self, sentence: Sentence) -> None:
        """Collect statements of positions; lists of them continue the first one."""
        for match in self.grammar.place.finditer(sentence.text):
            thing = self._thing(match["a"])
            if not thing or thing == "wall" or not sentence.states(match.start(), match.end()):
                continue
            if self._unknown_other(match):
                continue
            if thing in MOVABLE and match.start() >= sentence.settled:
                continue
            start, end = _trimmed(sentence, match)
            self.placed.append(_Placed(start, end, thing, position_of(match["place"])))
            place = match.end()
            while thing != "player" and (following := self.grammar.places.match(sentence.text, place)):
                if not sentence.states(following.start("place"), following.end()):
                    break
                first, last = sentence.start + following.start("place"), sentence.start + following.end()
                self.placed.append(_Placed(first, last, thing, position_of(following["place"])))
                place = following.end()

    def _judge_places(self) -> None:
        things = self.facts.things
        cells = judge(
            self.thought,
            [placed.position for placed in self.placed],
            lambda number, cell: cell in things[self.placed[number].thing],
            walled=self.facts.theme == "sokoban",
        )
        for placed, cell in zip(self.placed, cells, strict=True):
            if cell is None:
                continue
            there = things[placed.thing]
            shown = (cell,) if self.facts.inside(cell) else ()
            actual = self._where(placed.thing)
            kind = POSITIONS[placed.thing]
            self.found.append(_Found(kind, placed.start, placed.end, cell in there, actual, shown, tuple(there)))

    def _where(self, thing: str) -> str:
        """Where the things of a kind are, in words."""
        cells = self.facts.things[thing]
        if not cells:
            return f"there is no {thing}"
        name = thing if len(cells) == 1 else {"box": "boxes"}.get(thing, f"{thing}s")
        return f"the {name} {'is' if len(cells) == 1 else 'are'} at {place_words(cells)}"

    # -- rules: a match → verdict, what is so instead, cells; None for no statement -----------------------------------

    def _standing(self, match: re.Match[str]) -> _Verdict | None:
        """Whether the player is on the goal, or in a hole."""
        player, there = self.facts.things["player"], self._cells(match["b"])
        beside = any_of(adjacent(one, two) for one in player for two in there)
        if not player or (beside and match["preposition"].lower() == "at"):  # "at the goal" may mean beside it
            return None
        return bool(player & there), self._where("player"), (*player, *there)

    def _line(self, match: re.Match[str]) -> _Verdict | None:
        cells = self._cells(match["a"])
        axis = 0 if (match["axis"] or match["axis2"]).lower() == "row" else 1
        size = self.facts.size[axis]
        word = (match["ordinal"] or match["number"]).lower()
        edges = {"last": size - 1, "top": 0, "bottom": size - 1, "leftmost": 0, "rightmost": size - 1}
        if not cells or (word in ("top", "bottom") and axis) or (word in ("leftmost", "rightmost") and not axis):
            return None
        if word in edges:
            if self.facts.theme == "sokoban":  # the outer walls may or may not count
                return None
            line = edges[word]
        elif match["ordinal"]:
            line = ordinal_of(word) - 1
        else:
            line = count_of(word) - 1
        verdict: bool | None = any(cell[axis] == line for cell in cells)
        # perhaps counted from 0, or without the outer walls
        shifts = range(1, 1 + (not match["ordinal"]) + (self.facts.theme == "sokoban"))
        if not verdict and any(cell[axis] - line in shifts for cell in cells):
            verdict = None
        return verdict, self._where(self._thing(match["a"])), tuple(cells)

    def _same_line(self, match: re.Match[str]) -> _Verdict | None:
        other = match["b"] or match["c"]
        a, b = self._cells(match["a"]), self._cells(other)
        if not a or not b or self._thing(match["a"]) == self._thing(other):
            return None
        axis = 0 if match["axis"].lower() == "row" else 1
        verdict = any(one[axis] == two[axis] for one in a for two in b)
        return verdict, self._both(match["a"], other), (*a, *b)

    def _offset(self, match: re.Match[str]) -> _Verdict | None:
        groups = match.groupdict()
        offsets, close, exact = read_offsets(match["offsets"])
        thing = self._thing(match["a"])
        if match["tail"] or offsets is None or not thing:
            return None
        origin = self._reference(match, thing)
        if not origin:
            return None
        if groups.get("many") and groups["many"].lower() not in ("a", "an", "the", "one", "1"):
            return None
        cells, origins = self.facts.things[thing], self.facts.things[origin]
        if thing == "wall":
            if len(offsets) > 1:
                return None
            there = [neighbour(cell, offsets) for cell in origins]
            verdict = any_of(True if self.facts.is_wall(cell) else False if close else None for cell in there)
            names = " and ".join(name for cell in there for name in self.facts.names_at(cell))
            return verdict, f"that cell is {names}", tuple(cell for cell in there if self.facts.inside(cell))
        verdict = any_of(
            lies(cell, base, offsets, close=close, exact_axis=exact)
            for cell in cells
            for base in origins
            if cell != base
        )
        if verdict is None and not cells:
            return None
        if not (match["b"] or match["c"]) and not self._unambiguous(match, offsets, verdict):
            return None
        return verdict, self._both(thing, origin), (*cells, *origins)

    def _unambiguous(self, match: re.Match[str], offsets: Sequence[Offset], verdict: bool | None) -> bool:
        """Whether a side means the same of the player as of the board, where the statement does not say which it means.

        "On the left" may be either, of several things it may be said of most, and "is left" of what remains.
        """
        words = match["offsets"].lower().strip()
        (direction, number), *others = offsets
        if others or number is not None or direction not in ("left", "right") or re.search(r"\bmy\b", words):
            return True
        cells = self._cells(match["a"])
        twice_middle = self.facts.size[1] - 1
        sides = {2 * column < twice_middle for _, column in cells if 2 * column != twice_middle}
        return words not in ("left", "right") and sides == {(direction == "left") == verdict}

    def _reference(self, match: re.Match[str], thing: str) -> str:
        """The thing that directions are relative to; "" where it is uncertain."""
        if re.search(r"\bmy\b", match["offsets"], re.IGNORECASE):
            return "player" if thing != "player" else ""
        noun = match["b"] or match["c"]
        if noun is None:
            stays = thing in ("goal", "hole") or (thing == "box" and self.facts.theme == "sokoban")
            return "player" if stays else ""
        origin = self._thing(noun)
        return origin if origin not in ("wall", "ice", "empty") else ""

    def _cell(self, match: re.Match[str]) -> _Verdict | None:
        offsets, close, _ = read_offsets(match["offsets"])
        origin = self._reference(match, "")
        content = self._thing(match["content"])
        if offsets is None or not origin or not content:
            return None
        in_front = match.re is self.grammar.front
        there = [neighbour(cell, offsets) for cell in self.facts.things[origin]]
        verdict = any_of(self._contains(cell, content) for cell in there)
        if in_front and verdict is False and not close and content not in ("empty", "ice"):
            verdict = None
        names = " and ".join(name for cell in there for name in self.facts.names_at(cell))
        return verdict, f"that cell is {names}", tuple(cell for cell in there if self.facts.inside(cell))

    def _contains(self, cell: Cell, content: str) -> bool | None:
        if content == "wall":
            return self.facts.is_wall(cell) if self.facts.inside(cell) else None
        if content == "ice" and cell in self.facts.things["goal"]:
            return None
        if content == "empty" and cell in self.facts.things.get("goal", self.facts.things.get("target", frozenset())):
            return None
        return cell in self.facts.things[content]

    def _beside(self, match: re.Match[str]) -> _Verdict | None:
        a, b = self._cells(match["a"]), self._cells(match["b"])
        if (
            not a
            or not b
            or self._thing(match["a"]) == self._thing(match["b"])
            or self._thing(match["b"]) in ("ice", "wall")
        ):
            return None
        return any_of(adjacent(one, two) for one in a for two in b), self._both(match["a"], match["b"]), (*a, *b)

    def _distance(self, match: re.Match[str]) -> _Verdict | None:
        a, b = self._cells(match["a"]), self._cells(match["b"])
        if not a or not b or len(a) * len(b) > 1:
            return None
        verdict = any_of(apart(one, two, count_of(match["number"])) for one in a for two in b)
        return verdict, self._both(match["a"], match["b"]), (*a, *b)

    def _count(self, match: re.Match[str]) -> _Verdict | None:
        pairs = [(match["a"], match["number"]), (match["b"], match["number2"])]
        counted = [(self._thing(noun), count_of(number)) for noun, number in pairs if noun]
        if any(thing in ("", "player", "wall", "ice") for thing, _ in counted):
            return None
        cells = tuple(cell for thing, _ in counted for cell in self.facts.things[thing])
        numbers = [(len(self.facts.things[thing]), thing) for thing, _ in counted]
        actual = ", ".join(f"{number} {thing}" for number, thing in numbers)
        return all(len(self.facts.things[thing]) == number for thing, number in counted), f"there are: {actual}", cells

    def _on_target(self, match: re.Match[str]) -> _Verdict | None:
        boxes, targets = self.facts.things["box"], self.facts.things["target"]
        if match["ordinal"] and len(boxes) > 1:
            return None
        every = bool(match["all"]) or (match["a"].lower().endswith("es") and "one of" not in match.group().lower())
        if every and len(boxes) == 1:
            return None
        verdict = boxes <= targets if every else bool(boxes & targets)
        return verdict, f"{len(boxes & targets)} of {len(boxes)} boxes on targets", tuple(boxes)

    def _corner(self, match: re.Match[str]) -> _Verdict | None:
        thing = self._thing(match["a"])
        cells = self.facts.things.get(thing, frozenset())
        if not cells:
            return None
        if match["vertical"] is None:
            if self.facts.theme != "sokoban" or thing == "target":
                return None
            verdict = any(self.facts.cornered(cell) for cell in cells)
            return verdict, "walls do not meet there", tuple(cells)
        if self.facts.theme == "sokoban":
            return None
        rows, columns = self.facts.size
        corner = (0 if match["vertical"].lower() in ("top", "upper") else rows - 1,
                  0 if match["side"].lower() == "left" else columns - 1)  # fmt: skip
        return corner in cells, self._where(thing), tuple(cells)

    def _against(self, match: re.Match[str]) -> _Verdict | None:
        cells = self._cells(match["a"])
        if not cells or self._thing(match["a"]) == "wall":
            return None
        return any(self.facts.walled(cell) for cell in cells), "no wall is beside it", tuple(cells)

    def _size(self, match: re.Match[str]) -> _Verdict | None:
        rows, columns = self.facts.size
        stated = int(match["rows"]), int(match["columns"])
        inner = (rows - 2, columns - 2) if self.facts.theme == "sokoban" else None
        verdict: bool | None = stated == (rows, columns)
        if not verdict and (stated == inner or stated == (columns, rows)):
            verdict = None
        return verdict, f"the board has {rows} rows and {columns} columns", ()

    def _reach(self, match: re.Match[str]) -> _Verdict | None:
        goals = self.facts.things["goal"]
        connected = bool(goals & self.facts.reachable)
        verdict = connected != bool(match["no"])
        return verdict, "a way leads to the goal" if connected else "holes block every way to the goal", tuple(goals)

    def _both(self, a: str, b: str) -> str:
        """Where both things of a relation are."""
        one, two = (self._thing(noun) or noun for noun in (a, b))
        return f"{self._where(one)}; {self._where(two)}"


def _trimmed(sentence: Sentence, match: re.Match[str]) -> tuple[int, int]:
    """The match's place in the thought, without blanks at its ends."""
    text = match.group()
    start = sentence.start + match.start() + len(text) - len(text.lstrip())
    return start, start + len(text.strip())
