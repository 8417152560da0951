"""Claims about grids of Sokoban and FrozenLake: positions, directions, distances, neighbours, counts, corners."""

from __future__ import annotations

import re
from functools import lru_cache

from envs.base import Board, Claim, GridBoard
from envs.claims import coordinates
from envs.claims.claim_rules import Cell, Rule, Span, Verdict, compiled, number_of, read, table, trimmed
from envs.claims.coordinates import judge, position_of
from envs.claims.grid_facts import MOVABLE, GridFacts, Offset, adjacent, any_of, apart, in_direction, moved
from envs.claims.sentences import Sentence, sentences

_NOUNS = {
    "player": "i|me|we|us|you|((my|player|agent)( current)?|current) (position|location)|player|agent|robot|character|"
    "worker|P",
    "box": "box (position|location)|box(es)?|crates?|blocks?",
    "target": "(target|goal) (position|location)|targets?|goals?|destinations?|storage( spots?)?",
    "goal": "goal (position|location)|goals?|targets?|destinations?|G",
    "hole": "holes?",
    "wall": "walls?",
    "ice": "ice|frozen( (ice|tile|cell|lake))?|safe",
    "empty": "empty|free|open|floor|vacant|clear",
}
_THEMES = {
    "sokoban": ("player", "box", "target", "wall", "empty"),
    "frozen_lake": ("player", "goal", "hole", "ice", "empty"),
}
_SUBJECTS = {"sokoban": "{player}|{box}|{target}|{wall}", "frozen_lake": "{player}|{goal}|{hole}"}
_DIRECTIONS = {
    "left": r"(to|on|at|toward|towards)?\s*(the |my )?(left|west)([ -]hand side)?( side)?",
    "right": r"(to|on|at|toward|towards)?\s*(the |my )?(right|east)([ -]hand side)?( side)?",
    "up": "above|over|up|upwards?|north",
    "down": "below|beneath|underneath|under|down|downwards?|south",
}
_BEFORE = ("of", "of the", "of my", "each", "every", "both", "all", "all the", "both the",
           "next to", "next to the", "near the", "beside the")  # fmt: skip
"""Words before a subject that make the sentence about something else: a quantifier, or a place beside it."""
_WORDS = coordinates.WORDS | _NOUNS | _DIRECTIONS | {
    "not_all": "".join(rf"(?<!{words} )".replace(" ", r"\x20") for words in _BEFORE) + r"\b",
    "det": "((the|an?|my|our|one|this|another|any|one of the|current|other|first|second) ){0,2}",
    "label": r"(\s*\(\s*[\w@#$*+.√]\s*\)| [A-Z](?= (is|are|at|sits|stands|lies)\b)| #?\d(?=\s*(is|at|:|\()))?",
    "be": r"(\s*('m|'re|'s|:)| (am|is|are|stands?|sits?|lies?|remains?))",
    "adverbs": "( (currently|now|already|located|standing|sitting|positioned|placed|situated|exactly|also|still|only|"
    "just))*",
    "subject": "{not_all}{det}{a:subjects}{label}",
    "is": "{be}{adverbs}",
    "close": "directly|immediately|right|just|straight|exactly",
    "units": "cells?|squares?|steps?|tiles?|spaces?|rows?|columns?|cols?|positions?|units?|spots?|places?|moves?",
    "direction": "{left}|{right}|{up}|{down}",
    "offset": r"(({number}|a) {units} )?({close} )?{direction}\b|{number} ({close} )?{direction}\b",
    "chain": r"(?P<offsets>{offset}( {det}{c:things}\b)?(\s*(,|and|, and) {offset})?)",
    "other": r"{det}{b:things}\b",
    "reference": r"(( (of|from|to|than))? {other})?",
    "tail": r"(?P<tail> (side|half|part|edge|corner|wall|end|neighbou?r)\b| of \w+)?",
    "cell": "cell|square|tile|space|spot|position|field",
    "here": r"(on|in) (the|this) (board|grid|map|room|lake|puzzle|level)|in total|here|on it",
}  # fmt: skip
POSITIONS = {"player": "own_position"} | {thing: f"{thing}_position" for thing in ("box", "target", "goal", "hole")}
"""Thing → kind of the claims about its place."""
_SIDES = ("left", "right", "above", "below", "up", "down", "over", "neath", "under", "north", "south", "west", "east")
_SEEN = ("there", " see ", " have ")


def read_grid_claims(thought: str, board: Board) -> list[Claim] | None:
    """Claims of a thought about a grid; None for other boards and themes."""
    grid = GridFacts.of(board) if isinstance(board, GridBoard) else None
    return None if grid is None else list(_read(thought, grid))


@lru_cache(maxsize=2048)
def _read(thought: str, grid: GridFacts) -> tuple[Claim, ...]:
    """Cached: members of a group often write the same about the same state."""

    def states(sentence: Sentence, match: re.Match[str], rule: Rule) -> bool:
        """Of things that move only before anything is played ahead."""
        things = {_thing(grid, text) for name, text in match.groupdict().items() if name in "abc" and text}
        settled = match.start() < sentence.settled or (bool(_group(match, "b")) and not things & (MOVABLE | {""}))
        return settled and sentence.states(*match.span()) and not _unknown_other(grid, match)

    return tuple(read(thought, grid, RULES[grid.theme], states, found=_positions(thought, grid)))


def _group(match: re.Match[str], name: str) -> str | None:
    return match.groupdict().get(name)


def _thing(grid: GridFacts, noun: str | None) -> str:
    """The thing that a noun names on boards of the theme; "" for none."""
    if noun is None or (len(noun) == 1 and noun not in "iIPG"):
        return ""
    return next((thing for thing in _THEMES[grid.theme] if _NAMED[thing].fullmatch(noun)), "")


def _cells(grid: GridFacts, noun: str | None) -> frozenset[Cell]:
    return grid.things.get(_thing(grid, noun), frozenset())


def _unknown_other(grid: GridFacts, match: re.Match[str]) -> bool:
    """Whether the statement names "the other" one of a thing of which there is only one."""
    nouns = [name for name in "abc" if _group(match, name) and len(_cells(grid, match[name])) < 2]
    return any(re.search(r"\b(?:an)?other\s+$", match.string[: match.start(name)], re.IGNORECASE) for name in nouns)


def _positions(thought: str, grid: GridFacts) -> list[Span]:
    """Statements of positions, judged together: how a thought counts shows in all of them."""
    place, more = _PLACES[grid.theme]
    found = []
    for sentence in sentences(thought):
        for match in place.finditer(sentence.text) if sentence.asserts else ():
            thing = _thing(grid, match["a"])
            ahead = thing in MOVABLE and match.start() >= sentence.settled
            if thing in ("", "wall") or ahead or not sentence.states(*match.span()) or _unknown_other(grid, match):
                continue
            found.append((*trimmed(sentence, match), thing, position_of(match["place"])))
            end = match.end()
            while thing != "player" and (following := more.match(sentence.text, end)):  # a list
                start, end = following.span("place")
                if not sentence.states(start, end):
                    break
                found.append((sentence.start + start, sentence.start + end, thing, position_of(following["place"])))
    positions = [position for *_, position in found]
    cells = judge(
        thought, positions, lambda number, cell: cell in grid.things[found[number][2]], walled=grid.theme == "sokoban"
    )
    spans = []
    for (start, end, thing, _), cell in zip(found, cells, strict=True):
        there, shown = grid.things[thing], [cell] if cell and grid.inside(cell) else []
        true = None if cell is None else cell in there
        spans.append((start, end, Verdict(true, grid.where(thing), shown, there, POSITIONS[thing])))
    return spans


def _about(grid: GridFacts, match: re.Match[str], true: bool | None, *nouns: str) -> Verdict:
    """A verdict about the things that these groups name."""
    things = [_thing(grid, match[name]) for name in nouns]
    cells = [cell for thing in things for cell in grid.things[thing]]
    return Verdict(true, grid.where(*things), cells, (), "wall" if things[0] == "wall" else "")


def _related(grid: GridFacts, match: re.Match[str]) -> str:
    """The group of the second thing of a relation between two things; "" without one."""
    name = "b" if match["b"] else "c"
    a, b = _thing(grid, match["a"]), _thing(grid, _group(match, name))
    return name if a and b and a != b and grid.things[a] and grid.things[b] else ""


def _standing(grid: GridFacts, match: re.Match[str]) -> Verdict | None:
    player, there = grid.things["player"], _cells(grid, match["b"])
    beside = any_of(adjacent(one, two) for one in player for two in there)
    if not player or (beside and match["preposition"].lower() == "at"):  # "at the goal" may mean beside it
        return None
    return Verdict(bool(player & there), grid.where("player"), player | there)


def _line(grid: GridFacts, match: re.Match[str]) -> Verdict | None:
    """Row or column of a thing."""
    cells, axis = _cells(grid, match["a"]), 0 if (match["axis"] or match["axis2"]).lower() == "row" else 1
    word, walled = (match["ordinal"] or match["number"]).lower(), grid.theme == "sokoban"
    if not cells or word in (("leftmost", "rightmost"), ("top", "bottom"))[axis]:
        return None
    if word in ("last", "top", "bottom", "leftmost", "rightmost"):
        if walled:  # the outer walls may or may not count
            return None
        line = 0 if word in ("top", "leftmost") else grid.size[axis] - 1
    else:
        line = number_of(word) - 1
    true: bool | None = any(cell[axis] == line for cell in cells)
    shifts = range(1, 1 + (not match["ordinal"]) + walled)  # counted from 0, or without the outer walls
    if not true and any(cell[axis] - line in shifts for cell in cells):
        true = None
    thing = _thing(grid, match["a"])
    return Verdict(true, grid.where(thing), cells, (), POSITIONS.get(thing, "wall"))


def _same_line(grid: GridFacts, match: re.Match[str]) -> Verdict | None:
    if not (other := _related(grid, match)):
        return None
    axis = 0 if match["axis"].lower() == "row" else 1
    true = any(a[axis] == b[axis] for a in _cells(grid, match["a"]) for b in _cells(grid, match[other]))
    return _about(grid, match, true, "a", other)


def _offsets(text: str) -> tuple[list[Offset], bool, bool]:
    """Directions with numbers, none where two are along the same axis; whether they are close; whether lines count."""
    offsets: list[Offset] = []
    close = lines = False
    for match in _OFFSET.finditer(text):
        name = next(name for name in _DIRECTIONS if _NAMED[name].fullmatch(match["direction"].strip()))
        offsets.append((name, number_of(match["number"]) if match["number"] else None))
        close = close or bool(match["close"])
        lines = lines or (match["unit"] or "").lower().startswith(("row", "col"))
    clear = len({name in ("up", "down") for name, _ in offsets}) == len(offsets)
    return (offsets if clear and all(number != 0 for _, number in offsets) else []), close, lines


def _origin(grid: GridFacts, match: re.Match[str], thing: str) -> str:
    """The thing that directions are relative to; "" where it is uncertain."""
    if re.search(r"\bmy\b", match["offsets"], re.IGNORECASE):
        return "player" if thing != "player" else ""
    noun = match["b"] or match["c"]
    if noun is None:
        return "player" if thing in ("goal", "hole") or (thing == "box" and grid.theme == "sokoban") else ""
    origin = _thing(grid, noun)
    return origin if origin not in ("wall", "ice", "empty") else ""


def _direction(grid: GridFacts, match: re.Match[str]) -> Verdict | None:
    offsets, close, lines = _offsets(match["offsets"])
    thing = _thing(grid, match["a"])
    origin = _origin(grid, match, thing) if thing else ""
    several = (_group(match, "many") or "a").lower() not in ("a", "an", "the", "one", "1")
    if match["tail"] or not offsets or not origin or several:
        return None
    cells, origins = grid.things[thing], grid.things[origin]
    if thing == "wall":
        there = [moved(cell, offsets) for cell in origins]
        return None if len(offsets) > 1 else _neighbour(grid, there, "wall", close=close, kind="wall")
    true = any_of(
        in_direction(cell, base, offsets, close=close, lines=lines)
        for cell in cells
        for base in origins
        if cell != base
    )
    if true is None and not cells:
        return None
    if not (match["b"] or match["c"]) and not _unambiguous(grid, match["offsets"], offsets, cells, true):
        return None
    return Verdict(true, grid.where(thing, origin), cells | origins)


def _unambiguous(grid: GridFacts, text: str, offsets: list[Offset], cells: frozenset[Cell], true: bool | None) -> bool:
    """Whether a side means the same of the player as of the board, where the statement does not say which it means.

    "On the left" may be either, of several things it may be said of most, and "is left" of what remains.
    """
    (direction, number), *others = offsets
    if others or number is not None or direction not in ("left", "right") or re.search(r"\bmy\b", text, re.IGNORECASE):
        return True
    twice_middle = grid.size[1] - 1
    sides = {2 * column < twice_middle for _, column in cells if 2 * column != twice_middle}
    return text.lower().strip() not in ("left", "right") and sides == {(direction == "left") == true}


def _cell(grid: GridFacts, match: re.Match[str]) -> Verdict | None:
    """What a neighbouring cell contains. Without "the cell", a thing further away may be meant."""
    offsets, close, _ = _offsets(match["offsets"])
    origin, content = _origin(grid, match, ""), _thing(grid, match["content"])
    if not offsets or not origin or not content:
        return None
    far = "front" in match.groupdict() and content not in ("empty", "ice")
    return _neighbour(grid, [moved(cell, offsets) for cell in grid.things[origin]], content, close=close or not far)


def _neighbour(grid: GridFacts, there: list[Cell], content: str, *, close: bool, kind: str = "") -> Verdict:
    """Whether one of these cells contains a thing; uncertain where it does not and is not said to be close."""
    ends = grid.things.get("goal") or grid.things.get("target", frozenset())

    def contains(cell: Cell) -> bool | None:
        if content == "wall" and not grid.inside(cell):
            return True if kind else None
        return None if content in ("ice", "empty") and cell in ends else cell in grid.things[content]

    true = any_of(map(contains, there))
    names = " and ".join(map(grid.names_at, there))
    shown = [cell for cell in there if grid.inside(cell)]
    return Verdict(None if true is False and not close else true, f"that cell is {names}", shown, (), kind)


def _beside(grid: GridFacts, match: re.Match[str]) -> Verdict | None:
    if not _related(grid, match) or _thing(grid, match["b"]) in ("ice", "wall"):
        return None
    true = any_of(adjacent(a, b) for a in _cells(grid, match["a"]) for b in _cells(grid, match["b"]))
    return _about(grid, match, true, "a", "b")


def _distance(grid: GridFacts, match: re.Match[str]) -> Verdict | None:
    a, b = _cells(grid, match["a"]), _cells(grid, match["b"])
    if len(a) != 1 or len(b) != 1:
        return None
    return _about(grid, match, apart(min(a), min(b), number_of(match["number"])), "a", "b")


def _count(grid: GridFacts, match: re.Match[str]) -> Verdict | None:
    stated = {_thing(grid, match["a"]): number_of(match["number"])}
    if match["b"]:
        stated[_thing(grid, match["b"])] = number_of(match["number2"])
    if stated.keys() & {"", "player", "wall", "ice"}:
        return None
    actual = {thing: len(grid.things[thing]) for thing in stated}
    words = ", ".join(f"{number} {thing}" for thing, number in actual.items())
    cells = [cell for thing in stated for cell in grid.things[thing]]
    return Verdict(stated == actual, f"there are: {words}", cells)


def _on_target(grid: GridFacts, match: re.Match[str]) -> Verdict | None:
    boxes, targets = grid.things["box"], grid.things["target"]
    every = bool(match["all"]) or (match["a"].lower().endswith("es") and "one of" not in match.group().lower())
    if (match["ordinal"] and len(boxes) > 1) or (every and len(boxes) == 1):
        return None
    true = boxes <= targets if every else bool(boxes & targets)
    return Verdict(true, f"{len(boxes & targets)} of {len(boxes)} boxes on targets", boxes)


def _corner(grid: GridFacts, match: re.Match[str]) -> Verdict | None:
    """A named corner of a lake, or where walls meet in a room."""
    thing, room = _thing(grid, match["a"]), grid.theme == "sokoban"
    cells = grid.things.get(thing, frozenset())
    if not cells or room == bool(match["vertical"]) or (room and thing == "target"):
        return None
    if not room:
        rows, columns = grid.size
        row = 0 if match["vertical"].lower() in ("top", "upper") else rows - 1
        corner = (row, 0 if match["side"].lower() == "left" else columns - 1)
        return Verdict(corner in cells, grid.where(thing), cells, (), POSITIONS[thing])
    walls = [grid.blocked(cell) for cell in cells]
    true = any((wall["up"] or wall["down"]) and (wall["left"] or wall["right"]) for wall in walls)
    return Verdict(true, "walls do not meet there", cells)


def _against(grid: GridFacts, match: re.Match[str]) -> Verdict | None:
    cells = _cells(grid, match["a"])
    if not cells or _thing(grid, match["a"]) == "wall":
        return None
    return Verdict(any(any(grid.blocked(cell).values()) for cell in cells), "no wall is beside it", cells)


def _size(grid: GridFacts, match: re.Match[str]) -> Verdict:
    (rows, columns), stated = grid.size, (int(match["rows"]), int(match["columns"]))
    unclear = stated == (columns, rows) or (grid.theme == "sokoban" and stated == (rows - 2, columns - 2))
    true = True if stated == (rows, columns) else None if unclear else False
    return Verdict(true, f"the board has {rows} rows and {columns} columns")


def _reach(grid: GridFacts, match: re.Match[str]) -> Verdict:
    actual = "a way leads to the goal" if grid.connected else "holes block every way to the goal"
    return Verdict(grid.connected != bool(match["no"]), actual, grid.things["goal"])


_ROOM = (
    ("boxes_on_targets", r"\b(?P<all>both|all( of)?( the)?|every|each)?\s*"
     r"((the|a|one|my|one of the|(?P<ordinal>first|second|other)) )*(?P<a>box(es)?|crates?)('s)? (is|are){adverbs} on "
     r"(top of )?(the|a|its|their|one of the|every)?\s*(?P<b>targets?|goals?)", _on_target, (" on ",)),
    ("wall", r"{subject}{is} (up )?(against|next to|along|touching) (a|the) wall\b", _against, ("wall",)),
)  # fmt: skip
_LAKE = (
    ("way", r"\bthe (?P<a>goal) (is|can be) (?P<no>un)?reach(able|ed)\b", _reach, ("reach",)),
    ("own_position", r"{not_all}{det}{a:player}{label}{is} (?P<preposition>in|at|on) (the|a) (?P<b>goal|hole)\b"
     r"(?!['’-]| (line|side|row|column|end|post|area|half|plate))", _standing, ("goal", "hole")),
)  # fmt: skip
_BOTH = (
    ("wall", r"{subject}{is} (stuck )?(in|at|on) (a|the) ((?P<vertical>top|upper|bottom|lower)[\s-](?P<side>left|right)"
     r"[\s-])?corner\b", _corner, ("corner",)),
    ("direction", r"{subject}( and ({other}))?{is} (in|on) (the )?same (?P<axis>row|column)"
     r"( (as|with) {det}{c:things}\b)?", _same_line, ("same",)),
    ("wall", r"{subject}{is} (in|on|at) (the )?((?P<axis>row|column|col) #?{number:number}|(?P<ordinal>{ordinal}|last|"
     r"top|bottom|leftmost|rightmost) (?P<axis2>row|column))\b(?!\s*(,|and)?\s*(the )?(row|col|{ordinal}))",
     _line, ("row", "col")),
    ("direction", r"{subject}{is} {number:number} (cells?|squares?|steps?|tiles?|spaces?) (away )?from {other}",
     _distance, ("from",)),
    ("neighbour", r"\bthe (next )?{cell} {chain}{reference}{is} (an? |the )?{content:contents}\b", _cell,
     ("cell", "square", "tile", "space", "spot", "position", "field")),
    ("direction", r"\b(there('s| is| are)|i see|i have|we have) (?P<many>{count}|the|some) {a:subjects} {chain}"
     r"{reference}{tail}", _direction, _SEEN),
    ("direction", r"{subject}{is} {chain}{reference}{tail}", _direction, _SIDES),
    ("direction", r"{subject}{is} ({close} )?(adjacent to|next to|beside|touching) {other}", _beside,
     ("adjacent", "next to", "beside", "touching")),
    ("neighbour", r"(?P<front>)(?<![\w-])(?<!\w\s){chain}{reference},? (is|there is|there's|are) (an? |the )?"
     r"{content:contents}\b", _cell, _SIDES),
    ("count", r"\b(there('s| is| are)|i see|we have|i have) (only |exactly |just )?{number:number} {a:subjects}"
     r"( and (?P<number2>{number}) {b:things})?(?=\s*(,|$|[:(]|{here}))", _count, _SEEN),
    ("size", r"\b(it|this|the (board|grid|room|map|lake|puzzle))('s| is| has| measures) (an? )?(?P<rows>\d{1,2})\s*"
     r"(x|×|by)\s*(?P<columns>\d{1,2})( (grid|board|map|room|lake|cells))?\b", _size, ("x", "×", "by")),
)  # fmt: skip
"""Kind, pattern, check and texts of which one must occur, most specific first."""


def _words(theme: str) -> dict[str, str]:
    named = [f"{{{thing}}}" for thing in _THEMES[theme]]
    return _WORDS | {"subjects": _SUBJECTS[theme], "things": "|".join(named[:-1]), "contents": "|".join(named[1:])}


RULES = {
    "sokoban": table(_words("sokoban"), *_ROOM, *_BOTH),
    "frozen_lake": table(_words("frozen_lake"), *_LAKE, *_BOTH),
}
_NAMED = {name: compiled(pattern) for name, pattern in (_NOUNS | _DIRECTIONS).items()}
_OFFSET = compiled(
    r"(?P<number>{number}|a)?\s*{unit:units}?\s*((?P<close>{close})(?= \S))?\s*{direction:direction}\b",
    _words("sokoban"),
)
_PLACES = {
    theme: (
        compiled(
            r"{subject}{be}?{adverbs}( (at|in|on))?( (the )?(position|cell|square|coordinates?|tile|location|spot))?"
            r"\s*:?\s*(in )?(the )?{place:place}",
            _words(theme),
        ),
        compiled(
            r"\s*(,|and|,\s*and|;)?\s*(?P<place>[(\[]\s*\d{1,2}\s*,\s*\d{1,2}\s*[)\]]|(?<!\d)\d{1,2},\d{1,2}(?!\d)|"
            r"row\s*\d{1,2}\s*,?\s*(column|col)\.?\s*\d{1,2})"
        ),
    )
    for theme in _THEMES
}
