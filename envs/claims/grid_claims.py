"""Claims about grids of Sokoban and FrozenLake: positions, directions, distances, neighbours, counts, corners."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from envs.base import Board, Claim, GridBoard
from envs.claims import coordinates
from envs.claims.claim_rules import Cell, Match, Rule, Span, Verdict, compiled, read, read_number, table, trimmed
from envs.claims.coordinates import judge, read_position
from envs.claims.grid_facts import STEPS, THINGS, GridFacts, Offset, adjacent, any_true, apart, in_direction, moved
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
"""Words before a subject that make the sentence about something else: a quantifier, or a neighbouring place."""
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
_ENDS = ("last", "top", "bottom", "leftmost", "rightmost")
_SEEN = ("there", " see ", " have ")


def read_grid_claims(thought: str, board: Board) -> list[Claim] | None:
    """Return claims of a thought about a grid; None for other boards and themes."""
    if not isinstance(board, GridBoard) or board.theme not in THINGS or not any(board.rows):
        return None
    return list(_read(thought, board.theme, tuple(board.rows)))


@lru_cache(maxsize=2048)
def _read(thought: str, theme: str, rows: tuple[str, ...]) -> tuple[Claim, ...]:
    """Return the claims of a thought. Cached, since members of a group often write the same about the same state."""
    grid = GridChecks(theme, rows)
    return tuple(read(thought, grid, RULES[theme], grid.states, found=grid.positions(thought)))


class GridChecks(GridFacts):
    """Checks of statements about a grid; each gets a match of its rule."""

    def states(self, sentence: Sentence, match: Match, rule: Rule) -> bool:
        """Return True if a match states something; about movable things, only before anything is played ahead."""
        nouns = {name: text for name, text in match.groupdict().items() if name in "abc" and text}
        stay = "b" in nouns and not {self.thing(noun) for noun in nouns.values()} & {"player", "box", ""}
        settled = stay or match.start() < sentence.settled
        return settled and sentence.states(*match.span()) and not self.unknown_other(match, nouns)

    def thing(self, noun: str | None) -> str:
        """Return the thing that a noun names on boards of the theme; "" for none."""
        if noun is None or (len(noun) == 1 and noun not in "iIPG"):
            return ""
        return next((thing for thing in _THEMES[self.theme] if _NAMED[thing].fullmatch(noun)), "")

    def cells(self, noun: str | None) -> frozenset[Cell]:
        """Return the cells of a noun's thing."""
        return self.things.get(self.thing(noun), frozenset())

    def unknown_other(self, match: Match, nouns: dict[str, str]) -> bool:
        """Return True if the statement names "the other" of a thing that exists only once."""
        single = [match.string[: match.start(name)] for name, noun in nouns.items() if len(self.cells(noun)) < 2]
        return any(re.search(r"\b(?:an)?other\s+$", text_before, re.IGNORECASE) for text_before in single)

    def positions(self, thought: str) -> list[Span]:
        """Read statements of positions, which are judged together: all of them show how a thought counts."""
        pattern, more = _PLACES[self.theme]
        statements, offsets = [], list[Span]()
        for sentence in sentences(thought):
            for match in pattern.finditer(sentence.text):
                thing = self.thing(match["a"])
                ahead = thing in ("player", "box") and match.start() >= sentence.settled
                unknown = thing in ("", "wall") or self.unknown_other(match, {"a": match["a"]})
                if ahead or unknown or not sentence.states(*match.span()):
                    continue
                statements.append((*trimmed(sentence, match), thing, read_position(match["place"])))
                end = match.end()
                if (offset := _OFFSET_AFTER_PLACE.match(sentence.text, end)) and sentence.states(*offset.span()):
                    start, last = offset.span("steps")
                    offsets.append((sentence.start + start, sentence.start + last, self.offset(thing, offset["steps"])))
                while thing != "player" and (following := more.match(sentence.text, end)):  # a list
                    start, end = following.span("place")
                    if not sentence.states(start, end):
                        break
                    statements.append(
                        (sentence.start + start, sentence.start + end, thing, read_position(following["place"]))
                    )
        stated = [position for *_, position in statements]
        walled = self.theme == "sokoban"
        cells = judge(thought, stated, lambda number, cell: cell in self.things[statements[number][2]], walled=walled)
        return [
            (start, end, self.position(thing, cell))
            for (start, end, thing, _), cell in zip(statements, cells, strict=True)
        ] + offsets

    def offset(self, thing: str, text: str) -> Verdict:
        """Judge the offset after a position, as in "Goal 4,3: Down 3, Left 1": of a target from the box, else from me.

        Uncertain if there are several of them, and if it leads from me to a target.
        """
        origin = "box" if thing == "target" else "player"
        steps = [(match["direction"].lower(), int(match["number"])) for match in _STEP.finditer(text)]
        ends, starts = self.things[thing], self.things[origin]
        if (
            thing == origin
            or len(ends) != 1
            or len(starts) != 1
            or len({name in ("up", "down") for name, _ in steps}) < len(steps)
        ):
            return Verdict(None)
        true = {moved(start, steps) for start in starts} == ends
        from_me = {moved(start, steps) for start in self.things["player"]} == ends
        verdict = self.about(true or (None if from_me else False), origin, thing, kind="direction")
        return self.placed(verdict, thing, origin, steps)

    def position(self, thing: str, cell: Cell | None) -> Verdict:
        """Judge whether a thing is in a cell; None for an uncertain cell."""
        there, shown = self.things[thing], [cell] if cell and self.inside(cell) else []
        return Verdict(None if cell is None else cell in there, self.where(thing), shown, there, POSITIONS[thing])

    def about(self, true: bool | None, *things: str, kind: str = "") -> Verdict:
        """Return a verdict about things of these kinds; their true places are the correction."""
        cells = {cell for thing in things for cell in self.things[thing]}
        return Verdict(true, "; ".join(map(self.where, things)), cells, (), kind)

    def placed(self, verdict: Verdict, thing: str, origin: str, steps: Sequence[Offset]) -> Verdict:
        """Return the verdict on a distance with the cell in which it puts the thing, if it is false and names one."""
        origins, actual = self.things[origin], self.things[thing]
        exact = [(direction, number) for direction, number in steps if number]
        if verdict.true is not False or len(origins) != 1 or thing not in POSITIONS or len(exact) < len(steps):
            return verdict
        believed = moved(min(origins), exact)
        if not self.inside(believed):
            return verdict
        return verdict._replace(cells=[believed], actual_cells=actual, placed=POSITIONS[thing])

    def related(self, match: Match, holds: Callable[[Cell, Cell], bool | None]) -> Verdict | None:
        """Judge whether a relation is true between one of the first things and one of the second things."""
        a, b = self.thing(match["a"]), self.thing(match["b"] or match.groupdict().get("c"))
        if not a or not b or a == b or not self.things[a] or not self.things[b]:
            return None
        true = any_true(holds(first, second) for first in self.things[a] for second in self.things[b])
        return self.about(true, a, b, kind="wall" if a == "wall" else "")

    def same_line(self, match: Match) -> Verdict | None:
        axis = 0 if match["axis"].lower() == "row" else 1
        return self.related(match, lambda first, second: first[axis] == second[axis])

    def beside(self, match: Match) -> Verdict | None:
        return None if self.thing(match["b"]) in ("ice", "wall") else self.related(match, adjacent)

    def distance(self, match: Match) -> Verdict | None:
        single = len(self.cells(match["a"])) == len(self.cells(match["b"])) == 1
        number = read_number(match["number"])
        return self.related(match, lambda first, second: apart(first, second, number)) if single else None

    def standing(self, match: Match) -> Verdict | None:
        """Judge whether the player is on the goal, or in a hole; "at the goal" may mean next to it."""
        player, there = self.things["player"], self.cells(match["b"])
        next_to = any_true(adjacent(first, second) for first in player for second in there)
        if not player or (next_to and match["preposition"].lower() == "at"):
            return None
        return Verdict(bool(player & there), self.where("player"), player | there)

    def line(self, match: Match) -> Verdict | None:
        """Judge the row or column of a thing, counted from 1, perhaps from 0, or without the outer walls."""
        thing, axis = self.thing(match["a"]), 0 if (match["axis"] or match["axis2"]).lower() == "row" else 1
        word, walled = (match["ordinal"] or match["number"]).lower(), self.theme == "sokoban"
        last = self.size[axis] - 1
        named = ({"top": 0, "bottom": last}, {"leftmost": 0, "rightmost": last})[axis] | {"last": last}
        cells = self.things.get(thing)
        if not cells or (walled and word in named) or (word not in named and word in _ENDS):
            return None
        line = named[word] if word in named else read_number(word) - 1
        shifts = () if word in named else range(1, 1 + (not match["ordinal"]) + walled)
        off = {cell[axis] - line for cell in cells}
        true = True if 0 in off else None if off.intersection(shifts) else False
        return self.about(true, thing, kind=POSITIONS.get(thing, "wall"))

    def origin(self, match: Match, thing: str) -> str:
        """Return the thing that directions are relative to; "" if it is uncertain."""
        if re.search(r"\bmy\b", match["offsets"], re.IGNORECASE):
            return "player" if thing != "player" else ""
        if noun := match["b"] or match["c"]:
            origin = self.thing(noun)
            return origin if origin not in ("wall", "ice", "empty") else ""
        return "player" if thing in ("goal", "hole") or (thing == "box" and self.theme == "sokoban") else ""

    def direction(self, match: Match) -> Verdict | None:
        """Judge directions and distances of a thing from another one."""
        offsets, close, lines = _offsets(match["offsets"])
        thing = self.thing(match["a"])
        origin = self.origin(match, thing) if thing else ""
        several = (match.groupdict().get("many") or "a").lower() not in ("a", "an", "the", "one", "1")
        if match["tail"] or not offsets or not origin or several:
            return None
        cells, origins = self.things[thing], self.things[origin]
        if thing == "wall":
            there = [moved(cell, offsets) for cell in origins]
            return None if len(offsets) > 1 else self.neighbour(there, "wall", close=close, kind="wall")
        pairs = [(cell, base) for cell in cells for base in origins if cell != base]
        true = any_true(in_direction(cell, base, offsets, close=close, lines=lines) for cell, base in pairs)
        if true is None and not cells:
            return None
        if not (match["b"] or match["c"]) and not self.unambiguous(match["offsets"], offsets, cells, true):
            return None
        verdict = self.about(true, thing, origin)
        return verdict if lines and len(offsets) < 2 else self.placed(verdict, thing, origin, offsets)

    def unambiguous(self, text: str, offsets: list[Offset], cells: frozenset[Cell], true: bool | None) -> bool:
        """Return True if a side means the same for player and board, or the statement says which of them it means.

        "On the left" may mean either; said of several things, it may be true of most; "is left" may mean a remainder.
        """
        (direction, number), *others = offsets
        if others or number or direction not in ("left", "right") or re.search(r"\bmy\b", text, re.IGNORECASE):
            return True
        twice_middle = self.size[1] - 1
        sides = {2 * column < twice_middle for _, column in cells if 2 * column != twice_middle}
        return text.lower().strip() not in ("left", "right") and sides == {(direction == "left") == true}

    def cell(self, match: Match) -> Verdict | None:
        """Judge the content of a neighbouring cell. Without "the cell", a thing further away may be meant."""
        offsets, close, _ = _offsets(match["offsets"])
        origin, content = self.origin(match, ""), self.thing(match["content"])
        if not offsets or not origin or not content:
            return None
        close = close or "front" not in match.groupdict() or content in ("empty", "ice")
        return self.neighbour([moved(cell, offsets) for cell in self.things[origin]], content, close=close)

    def neighbour(self, there: list[Cell], content: str, *, close: bool, kind: str = "") -> Verdict:
        """Judge whether one of these cells contains a thing; uncertain if it does not and is not said to be close."""
        ends = self.things.get("goal") or self.things.get("target", frozenset())

        def contains(cell: Cell) -> bool | None:
            if content == "wall" and not self.inside(cell):
                return True if kind else None
            return None if content in ("ice", "empty") and cell in ends else cell in self.things[content]

        true = any_true(map(contains, there))
        names = " and ".join(map(self.names_at, there))
        shown = [cell for cell in there if self.inside(cell)]
        return Verdict(None if true is False and not close else true, f"that cell is {names}", shown, (), kind)

    def count(self, match: Match) -> Verdict | None:
        pairs = [(match["a"], match["number"]), (match["b"], match["number2"])]
        stated = {self.thing(noun): read_number(number) for noun, number in pairs if noun}
        if stated.keys() & {"", "player", "wall", "ice"}:
            return None
        actual = {thing: len(self.things[thing]) for thing in stated}
        words = ", ".join(f"{number} {thing}" for thing, number in actual.items())
        return self.about(stated == actual, *stated)._replace(actual=f"there are: {words}")

    def on_target(self, match: Match) -> Verdict | None:
        boxes, targets = self.things["box"], self.things["target"]
        every = bool(match["all"]) or (match["a"].lower().endswith("es") and "one of" not in match.group().lower())
        if (match["ordinal"] and len(boxes) > 1) or (every and len(boxes) == 1):
            return None
        true = boxes <= targets if every else bool(boxes & targets)
        return Verdict(true, f"{len(boxes & targets)} of {len(boxes)} boxes on targets", boxes)

    def corner(self, match: Match) -> Verdict | None:
        """Judge a named corner of a lake, or a corner between walls of a room."""
        thing, room = self.thing(match["a"]), self.theme == "sokoban"
        cells = self.things.get(thing)
        if not cells or room == bool(match["vertical"]) or (room and thing == "target"):
            return None
        if room:
            true = any(self.blocked(cell, "up", "down") and self.blocked(cell, "left", "right") for cell in cells)
            return Verdict(true, "walls do not meet there", cells)
        row = 0 if match["vertical"].lower() in ("top", "upper") else self.size[0] - 1
        column = 0 if match["side"].lower() == "left" else self.size[1] - 1
        return self.about((row, column) in cells, thing, kind=POSITIONS[thing])

    def against(self, match: Match) -> Verdict | None:
        cells = self.cells(match["a"])
        if not cells or self.thing(match["a"]) == "wall":
            return None
        return Verdict(any(self.blocked(cell, *STEPS) for cell in cells), "no wall is next to it", cells)

    def extent(self, match: Match) -> Verdict:
        (rows, columns), stated = self.size, (int(match["rows"]), int(match["columns"]))
        unclear = stated == (columns, rows) or (self.theme == "sokoban" and stated == (rows - 2, columns - 2))
        true = True if stated == (rows, columns) else None if unclear else False
        return Verdict(true, f"the board has {rows} rows and {columns} columns")

    def reach(self, match: Match) -> Verdict:
        actual = "a way leads to the goal" if self.connected else "holes block every way to the goal"
        return Verdict(self.connected != bool(match["no"]), actual, self.things["goal"])


def _offsets(text: str) -> tuple[list[Offset], bool, bool]:
    """Return directions with numbers, none if two share an axis; whether they are close; whether lines count."""
    matches = list(_OFFSET.finditer(text))
    names = [
        next(name for name in _DIRECTIONS if _NAMED[name].fullmatch(match["direction"].strip())) for match in matches
    ]
    numbers = [read_number(match["number"]) if match["number"] else None for match in matches]
    clear = len({name in ("up", "down") for name in names}) == len(names) and 0 not in numbers
    lines = any((match["unit"] or "").lower().startswith(("row", "col")) for match in matches)
    return list(zip(names, numbers, strict=True)) if clear else [], any(match["close"] for match in matches), lines


_ROOM = (
    ("boxes_on_targets", r"\b(?P<all>both|all( of)?( the)?|every|each)?\s*"
     r"((the|a|one|my|one of the|(?P<ordinal>first|second|other)) )*(?P<a>box(es)?|crates?)('s)? (is|are){adverbs} on "
     r"(top of )?(the|a|its|their|one of the|every)?\s*(?P<b>targets?|goals?)", GridChecks.on_target, (" on ",)),
    ("wall", r"{subject}{is} (up )?(against|next to|along|touching) (a|the) wall\b", GridChecks.against, ("wall",)),
)  # fmt: skip
_LAKE = (
    ("way", r"\bthe (?P<a>goal) (is|can be) (?P<no>un)?reach(able|ed)\b", GridChecks.reach, ("reach",)),
    ("own_position", r"{not_all}{det}{a:player}{label}{is} (?P<preposition>in|at|on) (the|a) (?P<b>goal|hole)\b"
     r"(?!['’-]| (line|side|row|column|end|post|area|half|plate))", GridChecks.standing, ("goal", "hole")),
)  # fmt: skip
_BOTH = (
    ("wall", r"{subject}{is} (stuck )?(in|at|on) (a|the) ((?P<vertical>top|upper|bottom|lower)[\s-](?P<side>left|right)"
     r"[\s-])?corner\b", GridChecks.corner, ("corner",)),
    ("direction", r"{subject}( and ({other}))?{is} (in|on) (the )?same (?P<axis>row|column)"
     r"( (as|with) {det}{c:things}\b)?", GridChecks.same_line, ("same",)),
    ("wall", r"{subject}{is} (in|on|at) (the )?((?P<axis>row|column|col) #?{number:number}|(?P<ordinal>{ordinal}|last|"
     r"top|bottom|leftmost|rightmost) (?P<axis2>row|column))\b(?!\s*(,|and)?\s*(the )?(row|col|{ordinal}))",
     GridChecks.line, ("row", "col")),
    ("direction", r"{subject}{is} {number:number} (cells?|squares?|steps?|tiles?|spaces?) (away )?from {other}",
     GridChecks.distance, ("from",)),
    ("neighbour", r"\bthe (next )?{cell} {chain}{reference}{is} (an? |the )?{content:contents}\b", GridChecks.cell,
     ("cell", "square", "tile", "space", "spot", "position", "field")),
    ("direction", r"\b(there('s| is| are)|i see|i have|we have) (?P<many>{count}|the|some) {a:subjects} {chain}"
     r"{reference}{tail}", GridChecks.direction, _SEEN),
    ("direction", r"{subject}{is} {chain}{reference}{tail}", GridChecks.direction, _SIDES),
    ("direction", r"{subject}{is} ({close} )?(adjacent to|next to|beside|touching) {other}", GridChecks.beside,
     ("adjacent", "next to", "beside", "touching")),
    ("neighbour", r"(?P<front>)(?<![\w-])(?<!\w\s){chain}{reference},? (is|there is|there's|are) (an? |the )?"
     r"{content:contents}\b", GridChecks.cell, _SIDES),
    ("count", r"\b(there('s| is| are)|i see|we have|i have) (only |exactly |just )?{number:number} {a:subjects}"
     r"( and (?P<number2>{number}) {b:things})?(?=\s*(,|$|[:(]|{here}))", GridChecks.count, _SEEN),
    ("size", r"\b(it|this|the (board|grid|room|map|lake|puzzle))('s| is| has| measures) (an? )?(?P<rows>\d{1,2})\s*"
     r"(x|×|by)\s*(?P<columns>\d{1,2})( (grid|board|map|room|lake|cells))?\b", GridChecks.extent, ("x", "×", "by")),
)  # fmt: skip
"""Kind, pattern, check and required texts (one of them must occur), most specific first."""


def _vocabulary(theme: str) -> dict[str, str]:
    named = [f"{{{thing}}}" for thing in _THEMES[theme]]
    return _WORDS | {"subjects": _SUBJECTS[theme], "things": "|".join(named[:-1]), "contents": "|".join(named[1:])}


RULES = {
    "sokoban": table(_vocabulary("sokoban"), *_ROOM, *_BOTH),
    "frozen_lake": table(_vocabulary("frozen_lake"), *_LAKE, *_BOTH),
}
_NAMED = {name: compiled(pattern) for name, pattern in (_NOUNS | _DIRECTIONS).items()}
_OFFSET = compiled(
    r"(?P<number>{number}|a)?\s*{unit:units}?\s*((?P<close>{close})(?= \S))?\s*{direction:direction}\b",
    _vocabulary("sokoban"),
)
_STEP = compiled(r"(?P<direction>up|down|left|right) (?P<number>\d{1,2})\b")
_OFFSET_AFTER_PLACE = compiled(
    r"\s*: (?P<steps>{step}(\s*(,|and|, and) {step})?|here)(?=\s*$|\s*[,;)])",
    {"step": r"(up|down|left|right) \d{1,2}\b"},
)
_PLACES = {
    theme: (
        compiled(
            r"{subject}{be}?{adverbs}( (at|in|on))?( (the )?(position|cell|square|coordinates?|tile|location|spot))?"
            r"\s*:?\s*(in )?(the )?{place:place}",
            _vocabulary(theme),
        ),
        compiled(
            r"\s*(,|and|,\s*and|;)?\s*(?P<place>[(\[]\s*\d{1,2}\s*,\s*\d{1,2}\s*[)\]]|(?<!\d)\d{1,2},\d{1,2}(?!\d)|"
            r"row\s*\d{1,2}\s*,?\s*(column|col)\.?\s*\d{1,2})"
        ),
    )
    for theme in _THEMES
}
