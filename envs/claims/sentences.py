"""Sentences and clauses of a thought, with a test whether each states something about the present.

Questions, conditions, plans, wishes, guesses, memories and denials state nothing. After the first sentence that plays
ahead ("if I push …", "then …"), the pieces that can move are no longer where the board shows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

MAX_SENTENCE = 600
"""Longer sentences are not read: they are lists, code or repetition."""

_PLAIN = str.maketrans('`_“”"’‘\t\u00a0−–', "     ''  --")
_MARKS = re.compile(r"(?<!\d)\*\*|\*\*(?!\d)|(?<=[A-Za-z)])\*|\*(?=[A-Za-z])|(?m:^) *[*+•-] ")
"""Emphasis, and the signs of list items, which are not a minus in front of a number."""
_CODE = re.compile(r"```[a-z][\w+#-]*\n.*?(?:```|\Z)", re.IGNORECASE | re.DOTALL)
"""A block of program code: a fence that names its language."""
_END = re.compile(r"[.!?…](?=[\s)\]]|$)|\n|[;|]")
_BREAK = re.compile(
    r",(?![\s]*\d)|[()](?=\s)| - |—|→|=>|->|: |"
    r"\b(?:but|so(?! far)|because|since|while|whereas|which|therefore|thus|hence|although|though|where)\b|"
    r"\band(?= (?:i|i'm|i've|we|it|there|there's|then|need|needs|should|must|want|wants|can|will|the|my|have to)\b)",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"^\s*with\b|\b(?:if|would|wouldn't|suppose|supposing|assume|assuming|unless|when|whenever|once (?:i|the|we|it)|"
    r"imagine|whether|maybe|perhaps|might|probably|possibly|presumably|ideally|hopefully|hypothetically|pretend|"
    r"otherwise|let's say|what|for example|e\.g|say that|i guess|wonder|wondering)\b|'d\b",
    re.IGNORECASE,
)
"""Words that take the whole sentence out of the present."""
_CLAUSE = re.compile(
    r"\b(?:not|cannot|no|none|never|neither|nor|without|hardly|isn|aren|wasn|need|needs|needed|want|wants|should|shall|"
    r"must|may|could|can|will|won't|going to|gonna|have to|has to|try|trying|let me push|let me move|plan|aim|seem|"
    r"seems|appears?|looks like|likely|i think|i believe|unsure|about|around|roughly|nearly|almost|approximately|"
    r"so that|in order|make sure|ensure|until|till|before|after|afterwards|later|then|next turn|was|were|had|been|"
    r"moved|pushed|went|used to|previously|earlier|originally|initially|become|becomes|end up|ends up|ending|get|gets|"
    r"getting|got|bring|put|lands?|new|would|instead of|rather)\b|n't\b|'ll\b",
    re.IGNORECASE,
)
"""Words that take their clause out of the present."""
_MOTION = re.compile(
    r"\b(?:push|pushing|move|moves|moving|go|goes|going|step|walk|walking|slide|sliding|press|take|try|trying|choose|do|"
    r"play|use)\b[^.]*?\b(?:up|down|left|right|north|south|east|west|upwards?|downwards?)\b",
    re.IGNORECASE,
)
_AHEAD = re.compile(
    r"\b(?:if|would|once (?:i|the|we|it)|then|after|will|suppose|assuming|imagine)\b|'ll\b|'d\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Sentence:
    """A piece of the plain text. `text` has the same length as in the thought; `start` is its place there.

    `asserts` is False for a question, condition or guess. Up to the character `settled`, nothing plays ahead. `clauses`
    contain start, end and whether they state something about the present.
    """

    text: str
    start: int
    asserts: bool
    settled: int
    clauses: tuple[tuple[int, int, bool], ...]

    def states(self, start: int, end: int, *, ignore: re.Pattern[str] | None = None) -> bool:
        """Return True if every clause in the range states something about the present.

        Args:
            start, end: range within the sentence.
            ignore: words within the range that do not count as a denial or a memory.
        """
        for first, last, present in self.clauses:
            if first < end and start < last and not present:
                if ignore is None:
                    return False
                rest = self.text[first : max(first, start)] + " " + self.text[min(last, end) : last]
                if _CLAUSE.search(rest) or not ignore.search(self.text[max(first, start) : min(last, end)]):
                    return False
        return self.asserts


def plain(thought: str) -> str:
    """Remove code, emphasis and list signs, and simplify quotes and dashes; characters keep their places."""
    prose = _CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), thought)
    return _MARKS.sub(lambda match: " " * len(match.group()), prose.translate(_PLAIN))


def sentences(thought: str) -> Iterator[Sentence]:
    """Yield the sentences of a thought in order, without empty and overlong sentences."""
    text = plain(thought)
    ends = [(match.start(), match.end(), match.group()) for match in _END.finditer(text)] + [(len(text), 0, "")]
    start, ahead = 0, False
    for end, following, closing in ends:
        piece, first, start = text[start:end], start, following
        if len(piece) > MAX_SENTENCE:
            ahead = True
        elif piece.strip():
            plays = [match.start() for match in (_MOTION.search(piece), _AHEAD.search(piece)) if match]
            asserts = closing != "?" and _WHOLE.search(piece) is None
            settled = 0 if ahead else min(plays, default=len(piece))
            yield Sentence(piece, first, asserts, settled, tuple(_clauses(piece)) if asserts else ())
            ahead = ahead or bool(plays)


def _clauses(piece: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the clauses of a sentence, each with the word that links it."""
    starts = [0, *(match.start() for match in _BREAK.finditer(piece)), len(piece)]
    for first, last in pairwise(starts):
        yield first, last, _CLAUSE.search(piece, first, last) is None
