"""Word problems made from a seed: a page of kinds, each with drawn names, things and numbers, and one right answer.

Answers are whole numbers or fractions in lowest terms. How answers are judged and paid is metamathqa.py's business.
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
    """What is asked, and the text that counts as right."""

    text: str
    answer: str


Made = tuple[str, int | Fraction]
"""The text of a question and the number that answers it."""


def make_question(draws: SeededRng) -> Question:
    """A question of a drawn kind with drawn contents."""
    text, answer = draws.choice(KINDS)(draws)
    return Question(text, str(answer))


def _from(draws: SeededRng, low: int, high: int) -> int:
    """A whole number from low to high."""
    return low + draws.below(high - low + 1)


def _proper(draws: SeededRng, largest: int) -> Fraction:
    """A fraction between 0 and 1 whose denominator is at most `largest`."""
    below = _from(draws, 2, largest)
    return Fraction(_from(draws, 1, below - 1), below)


def _change(draws: SeededRng) -> Made:
    who, goods = draws.choice(PEOPLE), draws.choice(GOODS)
    count, price, rest = _from(draws, 2, 9), _from(draws, 2, 12), _from(draws, 1, 20)
    paid = count * price + rest
    return (
        f"{who} buys {count} {goods} at {price} euros each and pays with {paid} euros. How many euros come back?",
        rest,
    )


def _together(draws: SeededRng) -> Made:
    one, other = draws.sample(PEOPLE, 2)
    things, has, more = draws.choice(THINGS), _from(draws, 3, 40), _from(draws, 2, 20)
    return (
        f"{one} has {has} {things}. {other} has {more} more than {one}. How many {things} do they have together?",
        2 * has + more,
    )


def _give_and_find(draws: SeededRng) -> Made:
    who, friend = draws.sample(PEOPLE, 2)
    things, gives, finds = draws.choice(THINGS), _from(draws, 2, 15), _from(draws, 2, 15)
    has = gives + _from(draws, 1, 30)
    return (
        f"{who} had {has} {things}, gave {gives} of them to {friend} and then found {finds} new ones. "
        f"How many {things} does {who} have now?",
        has - gives + finds,
    )


def _share_cakes(draws: SeededRng) -> Made:
    cakes, children = _from(draws, 2, 12), _from(draws, 3, 9)
    return (
        f"{cakes} cakes are divided equally among {children} children. How many cakes does each child get? "
        "Write a whole number or a fraction in lowest terms.",
        Fraction(cakes, children),
    )


def _garden(draws: SeededRng) -> Made:
    long, wide = _from(draws, 4, 25), _from(draws, 2, 15)
    if draws.below(2):
        return f"A garden is {long} m long and {wide} m wide. How many square metres does it cover?", long * wide
    return f"A fence runs once around a field of {long} m by {wide} m. How many metres long is it?", 2 * (long + wide)


def _journey(draws: SeededRng) -> Made:
    speed, hours, left = 5 * _from(draws, 4, 24), _from(draws, 2, 6), 5 * _from(draws, 1, 30)
    return (
        f"A train goes {speed} km in an hour. After {hours} hours it still has {left} km to go. "
        "How many kilometres long is its whole way?",
        speed * hours + left,
    )


def _part_given_away(draws: SeededRng) -> Made:
    who, things, part = draws.choice(PEOPLE), draws.choice(THINGS), _proper(draws, 6)
    has = part.denominator * _from(draws, 2, 12)
    return f"{who} has {has} {things} and gives away {part} of them. How many are left?", int(has * (1 - part))


def _two_jugs(draws: SeededRng) -> Made:
    one, other = _proper(draws, 8), _proper(draws, 8)
    return (
        f"One jug holds {one} of a litre, another {other} of a litre. How many litres do they hold together? "
        "Write a whole number or a fraction in lowest terms.",
        one + other,
    )


def _sale(draws: SeededRng) -> Made:
    percent, price = 5 * _from(draws, 1, 10), 20 * _from(draws, 1, 15)
    return (
        f"A coat for {price} euros becomes {percent} percent cheaper. How many euros does it cost then?",
        price - price * percent // 100,
    )


def _mean(draws: SeededRng) -> Made:
    who, first, second, mean = draws.choice(PEOPLE), _from(draws, 10, 20), _from(draws, 10, 20), _from(draws, 14, 18)
    third = 3 * mean - first - second
    return (
        f"{who} threw a ball three times: {first} m, {second} m and {third} m far. What is the mean in metres?",
        mean,
    )


def _ages(draws: SeededRng) -> Made:
    one, other = draws.sample(PEOPLE, 2)
    young, times, years = _from(draws, 3, 12), _from(draws, 2, 4), _from(draws, 2, 10)
    return (
        f"{one} is {young} years old and {other} is {times} times as old. "
        f"How old will the two be together in {years} years?",
        young + times * young + 2 * years,
    )


def _seats(draws: SeededRng) -> Made:
    rows, seats = _from(draws, 5, 20), _from(draws, 6, 18)
    taken = _from(draws, 1, rows * seats - 1)
    return f"A hall has {rows} rows of {seats} seats, and {taken} are taken. How many seats are free?", (
        rows * seats - taken
    )


def _unknown_number(draws: SeededRng) -> Made:
    number, times, plus = _from(draws, 2, 25), _from(draws, 2, 9), _from(draws, 1, 30)
    return (
        f"I think of a number, multiply it by {times} and add {plus}. The result is {number * times + plus}. "
        "What is my number?",
        number,
    )


def _reading(draws: SeededRng) -> Made:
    who, daily, days = draws.choice(PEOPLE), _from(draws, 5, 30), _from(draws, 3, 12)
    pages = daily * days
    return f"A book has {pages} pages. {who} reads {daily} pages a day. After how many days is it read?", days


def _marbles(draws: SeededRng) -> Made:
    red, blue, bags = _from(draws, 1, 5), _from(draws, 1, 5), _from(draws, 2, 12)
    return (
        f"In a box, {red} red marbles come with every {blue} blue ones, {(red + blue) * bags} marbles in all. "
        "How many of them are red?",
        red * bags,
    )


def _minutes(draws: SeededRng) -> Made:
    minutes = 5 * _from(draws, 1, 35)
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
"""In an order that is part of every seed's meaning: add new kinds at the end."""
