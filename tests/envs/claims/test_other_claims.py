"""Claims about bandits, Countdown and the shop, and the registry that finds an environment's reader."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

import envs
from envs import registry
from envs.bandit import Bandit
from envs.base import Arm, ArmsBoard, GridBoard, TextBoard
from envs.claims import sentences
from tests.envs.claims.test_grid_claims import TEXT


def read(environment, thought, board):
    return [
        (thought[claim.start : claim.end], claim.true) for claim in registry.read_claims(environment, thought, board)
    ]


@cache
def shop_page(*actions):
    env = envs.make("WebShop")
    env.reset(seed=3)
    for action in actions:
        env.step(action)
    return env.board()


PRODUCT = ("search[cast iron pans]", "click[nizi]")
ARMS = ArmsBoard(arms=[Arm(name="Phoenix", pulls=3, total=0.45, last=0.15), Arm(name="Dragon")])
TASK = TextBoard(text="Target  24\nNumbers 3 8 1")


@given(st.integers(0, 40), st.integers(0, 40))
def test_counts_of_pulls_are_compared(pulls, stated):
    board = ArmsBoard(arms=[Arm(name="Left one", pulls=pulls), Arm(name="Dragon")])
    assert read("Bandit", f"Left one has been pulled {stated} times.", board) == [
        (f"Left one has been pulled {stated} times", stated == pulls)
    ]


@given(st.integers(0, 999), st.integers(1, 999), st.sampled_from("+-*/"), st.integers(-5, 5))
def test_equations_are_true_or_false(a, b, operator, error):
    value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[operator]
    stated = int(value) + error
    text = f"{a} {operator} {b} = {stated}"
    assert read("Countdown", f"First, {text}.", TASK) == [(text, stated == value)]


@given(st.integers(2, 500), st.integers(2, 500))
def test_rounded_quotients_are_true(a, b):
    decimals = f"{a / b:.2f}"
    assert [true for _, true in read("Countdown", f"{a} / {b} = {decimals}", TASK)] == [True]


@given(TEXT)
def test_any_text_is_read_without_an_error(thought):
    for environment, board in (("Bandit", ARMS), ("Countdown", TASK), ("WebShop", shop_page(*PRODUCT))):
        for claim in registry.read_claims(environment, thought, board):
            assert 0 <= claim.start < claim.end <= len(thought)


def test_prices_and_options_of_a_page_are_compared():
    board = shop_page(*PRODUCT, "click[12 inch]")
    claims = registry.read_claims("WebShop", "The price is $109.24. 10 inch is selected.", board)
    assert [claim.true for claim in claims] == [True, False]
    assert claims[0].marks == ["Price: $109.24"]
    assert claims[1].actual == "chosen: 12 inch"


def test_signs_of_list_items_are_no_minus_and_code_states_nothing():
    assert read("Countdown", "Results:\n- 3 * 8 = 24\n+ 8 - 3 = 4", TASK) == [
        ("3 * 8 = 24", True),
        ("8 - 3 = 4", False),
    ]
    assert read("Countdown", "```python\ntarget = 30\n```\nThe target is 24.", TASK) == [("target is 24", True)]
    assert read("Countdown", "Numbers of the target: 3, 8 and 1.", TASK) == []


def test_numbers_that_are_too_large_to_evaluate_are_silent():
    assert read("Countdown", "9 ** 9 ** 9 = 5", TASK) == []
    assert read("Countdown", "1 / 0 = 5", TASK) == []


def test_an_environment_without_a_reader_compares_nothing():
    assert registry.read_claims("MetaMathQA", "2 + 2 = 5", TextBoard(text="2 + 2")) is None
    assert registry.read_claims("no such environment", "I am at 1,1.", ARMS) is None
    assert registry.read_claims("Bandit", "There are two arms.", None) is None
    assert registry.read_claims("Bandit", "There are two arms.", TASK) is None
    for environment in ("Countdown", "WebShop", "Sokoban"):
        assert registry.read_claims(environment, "There are two arms.", ARMS) is None


def test_a_reader_that_fails_costs_only_its_claims(monkeypatch):
    def fail(thought, board):
        raise RuntimeError("a bug")

    monkeypatch.setattr(Bandit, "read_claims", fail)
    with pytest.warns(RuntimeWarning, match="Bandit could not compare .* a bug"):
        assert registry.read_claims("Bandit", "There are two arms.", ARMS) is None


def test_a_reader_gets_the_first_part_of_a_long_thought(monkeypatch):
    seen = []
    monkeypatch.setattr(Bandit, "read_claims", lambda thought, board: seen.append(len(thought)))
    registry.read_claims("Bandit", "x" * 100_000, ARMS)
    assert seen == [registry.MAX_CLAIM_TEXT]


def test_emphasis_and_quotes_keep_every_character_in_its_place():
    text = "**Box**: `(3, 4)` – “the” *goal* and 3 * 4 and 2**3\n* item"
    assert len(sentences.plain(text)) == len(text)
    assert "3 * 4 and 2**3" in sentences.plain(text)
    assert "*goal" not in sentences.plain(text)


def test_questions_conditions_and_denials_state_nothing():
    for text in ("Is it here?", "If it is here.", "Maybe it is here."):
        assert not any(sentence.asserts for sentence in sentences.sentences(text))
    (denial,) = sentences.sentences("It is not here, but that is there")
    assert not denial.states(0, 5)
    assert denial.states(denial.text.index("that"), len(denial.text))


def test_grids_are_drawn_from_the_text_that_the_policy_read():
    env = envs.make("SokobanNewVocab")
    env.reset(seed=1)
    board = env.board()
    assert isinstance(board, GridBoard)
    row, column = env.player
    thought = f"I am at {row + 1},{column + 1}."
    assert read("SokobanNewVocab", thought, board) == [(thought[:-1], True)]


def test_overlong_sentences_are_not_read():
    assert list(sentences.sentences("1 + " * sentences.MAX_SENTENCE)) == []
    assert len(list(sentences.sentences("I am here.\n" * 1000))) == 1000
