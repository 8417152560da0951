"""Generator of word problems: kinds with random names, things and numbers, each with one right answer.

Answers are integers or fractions in lowest terms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from envs.support.rng import SeededRng

PEOPLE = ("Ada", "Ben", "Chen", "Dora", "Emil", "Fatima", "Goran", "Hana", "Ivo", "Jun", "Kofi", "Lena", "Mateo", "Nia")
THINGS = ("apples", "beads", "books", "buttons", "cards", "coins", "marbles", "pears", "shells", "stamps", "stones")
GOODS = ("notebooks", "pencils", "tickets", "loaves of bread", "cups of tea", "lamps", "baskets")


@dataclass(frozen=True)
class Question:
    """Text of a question, and its right answer."""

    text: str
    answer: str


Made = tuple[str, int | Fraction]
"""The text of a question and the number that answers it."""


def make_question(rng: SeededRng) -> Question:
    """Return a question of a random kind with random contents."""
    text, answer = rng.choice(KINDS)(rng)
    return Question(text, str(answer))


def _from(rng: SeededRng, low: int, high: int) -> int:
    """Return an integer from low to high."""
    return low + rng.below(high - low + 1)


def _proper(rng: SeededRng, largest: int) -> Fraction:
    """Return a fraction between 0 and 1 with a denominator of at most `largest`."""
    below = _from(rng, 2, largest)
    return Fraction(_from(rng, 1, below - 1), below)


def _change(rng: SeededRng) -> Made:
    who, goods = rng.choice(PEOPLE), rng.choice(GOODS)
    count, price, rest = _from(rng, 2, 9), _from(rng, 2, 12), _from(rng, 1, 20)
    paid = count * price + rest
    return (
        f"{who} buys {count} {goods} at {price} euros each and pays with {paid} euros. How many euros come back?",
        rest,
    )


def _together(rng: SeededRng) -> Made:
    first, second = rng.sample(PEOPLE, 2)
    things, has, more = rng.choice(THINGS), _from(rng, 3, 40), _from(rng, 2, 20)
    return (
        f"{first} has {has} {things}. {second} has {more} more than {first}. How many {things} do they have together?",
        2 * has + more,
    )


def _give_and_find(rng: SeededRng) -> Made:
    who, friend = rng.sample(PEOPLE, 2)
    things, gives, finds = rng.choice(THINGS), _from(rng, 2, 15), _from(rng, 2, 15)
    has = gives + _from(rng, 1, 30)
    return (
        f"{who} had {has} {things}, gave {gives} of them to {friend} and then found {finds} new ones. "
        f"How many {things} does {who} have now?",
        has - gives + finds,
    )


def _share_cakes(rng: SeededRng) -> Made:
    cakes, children = _from(rng, 2, 12), _from(rng, 3, 9)
    return (
        f"{cakes} cakes are divided equally among {children} children. How many cakes does each child get? "
        "Write a whole number or a fraction in lowest terms.",
        Fraction(cakes, children),
    )


def _garden(rng: SeededRng) -> Made:
    long, wide = _from(rng, 4, 25), _from(rng, 2, 15)
    if rng.below(2):
        return f"A garden is {long} m long and {wide} m wide. How many square metres does it cover?", long * wide
    return f"A fence runs once around a field of {long} m by {wide} m. How many metres long is it?", 2 * (long + wide)


def _journey(rng: SeededRng) -> Made:
    speed, hours, left = 5 * _from(rng, 4, 24), _from(rng, 2, 6), 5 * _from(rng, 1, 30)
    return (
        f"A train goes {speed} km in an hour. After {hours} hours it still has {left} km to go. "
        "How many kilometres long is its whole way?",
        speed * hours + left,
    )


def _part_given_away(rng: SeededRng) -> Made:
    who, things, part = rng.choice(PEOPLE), rng.choice(THINGS), _proper(rng, 6)
    has = part.denominator * _from(rng, 2, 12)
    return f"{who} has {has} {things} and gives away {part} of them. How many are left?", int(has * (1 - part))


def _two_jugs(rng: SeededRng) -> Made:
    first, second = _proper(rng, 8), _proper(rng, 8)
    return (
        f"One jug holds {first} of a litre, another {second} of a litre. How many litres do they hold together? "
        "Write a whole number or a fraction in lowest terms.",
        first + second,
    )


def _sale(rng: SeededRng) -> Made:
    percent, price = 5 * _from(rng, 1, 10), 20 * _from(rng, 1, 15)
    return (
        f"A coat for {price} euros becomes {percent} percent cheaper. How many euros does it cost then?",
        price - price * percent // 100,
    )


def _mean(rng: SeededRng) -> Made:
    who, first, second, mean = rng.choice(PEOPLE), _from(rng, 10, 20), _from(rng, 10, 20), _from(rng, 14, 18)
    third = 3 * mean - first - second
    return (
        f"{who} threw a ball three times: {first} m, {second} m and {third} m far. What is the mean in metres?",
        mean,
    )


def _ages(rng: SeededRng) -> Made:
    younger, older = rng.sample(PEOPLE, 2)
    young, times, years = _from(rng, 3, 12), _from(rng, 2, 4), _from(rng, 2, 10)
    return (
        f"{younger} is {young} years old and {older} is {times} times as old. "
        f"How old will the two be together in {years} years?",
        young + times * young + 2 * years,
    )


def _seats(rng: SeededRng) -> Made:
    rows, seats = _from(rng, 5, 20), _from(rng, 6, 18)
    taken = _from(rng, 1, rows * seats - 1)
    return f"A hall has {rows} rows of {seats} seats, and {taken} are taken. How many seats are free?", (
        rows * seats - taken
    )


def _unknown_number(rng: SeededRng) -> Made:
    number, times, plus = _from(rng, 2, 25), _from(rng, 2, 9), _from(rng, 1, 30)
    return (
        f"I think of a number, multiply it by {times} and add {plus}. The result is {number * times + plus}. "
        "What is my number?",
        number,
    )


def _reading(rng: SeededRng) -> Made:
    who, daily, days = rng.choice(PEOPLE), _from(rng, 5, 30), _from(rng, 3, 12)
    pages = daily * days
    return f"A book has {pages} pages. {who} reads {daily} pages a day. After how many days is it read?", days


def _marbles(rng: SeededRng) -> Made:
    red, blue, bags = _from(rng, 1, 5), _from(rng, 1, 5), _from(rng, 2, 12)
    return (
        f"In a box, {red} red marbles come with every {blue} blue ones, {(red + blue) * bags} marbles in all. "
        "How many of them are red?",
        red * bags,
    )


def _minutes(rng: SeededRng) -> Made:
    minutes = 5 * _from(rng, 1, 35)
    return (
        f"A film lasts {minutes} minutes. How many hours is that? Write a whole number or a fraction in lowest terms.",
        Fraction(minutes, 60),
    )


KINDS: tuple[Callable[[SeededRng], Made], ...] = (
    _change,
    _together,
    _give_and_find,
    _share_cakes,
    _garden,
    _journey,
    _part_given_away,
    _two_jugs,
    _sale,
    _mean,
    _ages,
    _seats,
    _unknown_number,
    _reading,
    _marbles,
    _minutes,
)
"""The order determines the question of every seed: add new kinds at the end."""
