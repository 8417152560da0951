"""Generated word problems: reproducible, varied, with right answers."""

import re
from collections import Counter
from fractions import Fraction

import pytest

from envs.support import word_problems
from envs.support.rng import SeededRng, Stream
from envs.support.word_problems import KINDS, make_question


def draws(seed):
    return SeededRng(seed, Stream.START)


def numbers(text):
    return [Fraction(found) for found in re.findall(r"\d+(?:/\d+)?", text)]


# The answer, computed again from the numbers in the text.
RECKONED = {
    "_change": lambda n: n[2] - n[0] * n[1],
    "_together": lambda n: n[0] + n[0] + n[1],
    "_give_and_find": lambda n: n[0] - n[1] + n[2],
    "_share_cakes": lambda n: n[0] / n[1],
    "_journey": lambda n: n[0] * n[1] + n[2],
    "_part_given_away": lambda n: n[0] - n[0] * n[1],
    "_two_jugs": lambda n: n[0] + n[1],
    "_sale": lambda n: n[0] * (100 - n[1]) / 100,
    "_mean": lambda n: sum(n) / 3,
    "_ages": lambda n: (n[0] + n[2]) + (n[0] * n[1] + n[2]),
    "_seats": lambda n: n[0] * n[1] - n[2],
    "_unknown_number": lambda n: (n[2] - n[1]) / n[0],
    "_reading": lambda n: n[0] / n[1],
    "_marbles": lambda n: n[2] * n[0] / (n[0] + n[1]),
    "_minutes": lambda n: n[0] / 60,
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_answer_is_right(kind):
    for seed in range(200):
        text, answer = kind(draws(seed))
        given = numbers(text)
        if kind is word_problems._garden:
            expected = 2 * (given[0] + given[1]) if "fence" in text else given[0] * given[1]
        else:
            expected = RECKONED[kind.__name__](given)
        assert answer == expected, text
        assert answer > 0


def test_questions_cover_every_kind_and_rarely_repeat():
    questions = [make_question(draws(seed)) for seed in range(2000)]
    assert len({question.text for question in questions}) > 1600
    openings = Counter(" ".join(re.sub(r"\d+", "", question.text).split()[-4:]) for question in questions)
    assert len(openings) >= len(KINDS)
    assert sum("/" in question.answer for question in questions) > 100
    assert all(re.fullmatch(r"\d+(/\d+)?", question.answer) for question in questions)


def test_questions_from_a_seed_never_change():
    assert make_question(draws(0)).text == (
        "One jug holds 5/6 of a litre, another 1/2 of a litre. How many litres do they hold together? "
        "Write a whole number or a fraction in lowest terms."
    )
    assert [make_question(draws(seed)).answer for seed in range(8)] == [
        "4/3",
        "340",
        "15",
        "20",
        "4/9",
        "15",
        "9",
        "18",
    ]
