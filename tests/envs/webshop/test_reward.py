"""Score of a purchase."""

import math
from dataclasses import replace

import pytest

from envs.webshop import reward
from envs.webshop.catalogue import Goal
from tests.envs.webshop.shop import product

SHIRT = product(
    1,
    "Acme Linen Shirt",
    query="shirts",
    path=("Clothing", "Men", "Shirts"),
    attributes=("machine wash", "loose fit"),
    bullets=("Has a Chest Pocket.",),
    description="Dries fast on the line.",
)
GOAL = Goal(
    text="",
    asin="P0001",
    name=SHIRT.title,
    query="shirts",
    path=SHIRT.path,
    attributes=("machine wash", "loose fit"),
    options=("blue", "small"),
    price_limit=20.0,
)


def test_a_perfect_purchase_has_reward_one():
    found = reward.score(SHIRT, ["small", "blue"], GOAL)
    assert (found.r_type, found.attributes, found.options, found.price, found.parts) == (1.0, 2, 2, True, 5)
    assert found.total == 1


@pytest.mark.parametrize(
    ("chosen", "limit", "attributes", "wanted"),
    [
        (["small"], 20.0, GOAL.attributes, 4 / 5),
        ([], 20.0, GOAL.attributes, 3 / 5),
        (["small", "blue"], 9.99, GOAL.attributes, 4 / 5),
        (["small", "blue"], 10.0, GOAL.attributes, 5 / 5),
        (["small", "blue"], math.inf, GOAL.attributes, 5 / 5),
        (["small", "blue"], 20.0, ("waterproof", "loose fit"), 4 / 5),
        (["small", "red"], 9.0, ("waterproof",), 1 / 4),
    ],
)
def test_each_point_that_does_not_match_costs_its_share(chosen, limit, attributes, wanted):
    goal = replace(GOAL, price_limit=limit, attributes=attributes)
    assert reward.score(SHIRT, chosen, goal).total == pytest.approx(wanted)


def test_extra_options_do_not_matter_and_a_choice_matches_one_goal_option():
    assert reward.score(SHIRT, ["small", "blue", "long"], GOAL).total == 1
    assert reward.score(SHIRT, ["blue", "blue"], GOAL).options == 1


@pytest.mark.parametrize(
    ("name", "query", "path", "wanted"),
    [
        ("Acme Linen Shirt", "", (), 1.0),
        ("Shirt", "", (), 1.0),  # a third of the words of the goal's name
        ("Shirt", "shirts", (), 1.0),
        ("Lamp", "shirts", ("Clothing", "Men", "Shirts"), 0.0),  # no word in common: 0, whatever else is the same
    ],
)
def test_the_kind_of_product_counts_by_its_name(name, query, path, wanted):
    bought = replace(SHIRT, title=name, query=query, path=path)
    assert reward.type_factor(bought, GOAL) == wanted


@pytest.mark.parametrize(
    ("shared", "query", "path", "wanted"),
    [
        (3, "", (), 1.0),  # 3/12 of the name
        (2, "", (), 0.5),  # 2/12
        (2, "shirts", (), 1.0),
        (2, "", ("Clothing", "Men"), 1.0),
        (2, "", ("Clothing", "Women"), 0.5),
        (1, "shirts", ("Clothing", "Men"), 0.1),  # 1/12: below a tenth the same query does not help
        (0, "shirts", ("Clothing", "Men"), 0.0),
    ],
)
def test_the_kind_of_product_counts_by_name_query_and_categories(shared, query, path, wanted):
    names = [f"word{chr(97 + number)}" for number in range(12)]
    goal = replace(GOAL, name=" ".join(names))
    bought = replace(SHIRT, title=" ".join([*names[:shared], "other"]), query=query, path=path)
    assert reward.type_factor(bought, goal) == wanted


def test_an_empty_query_is_the_same_as_no_other():
    goal = replace(GOAL, name="12 34", query="", path=())
    assert reward.type_factor(replace(SHIRT, query="", path=()), goal) == 0.5
    assert reward.type_factor(replace(SHIRT, query="", path=SHIRT.path), replace(goal, path=SHIRT.path)) == 1.0


def test_content_words_exclude_stop_words():
    found = reward.content_words("The Women's 2 Pack of Linen Shirts with a Pocket (50 ml), Crème")
    assert found == {"women", "pack", "linen", "shirts", "pocket", "ml", "crème"}
    assert reward.content_words("2 x 4") == frozenset()


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        ("machine wash", True),
        ("machine washable", True),  # nearly the same
        ("machine dry", False),
        ("wash machine", True),
        ("loose", True),  # all its words are among those of "loose fit"
        ("chest pocket", True),  # stands in a bullet
        ("dries fast", True),  # stands in the description
        ("linen shirt", True),  # stands in the title
        ("water proof", False),
    ],
)
def test_an_attribute_matches_a_similar_one_or_page_text(wanted, matches):
    assert reward.has_attribute(SHIRT, wanted) is matches


@pytest.mark.parametrize(
    ("chosen", "wanted", "matches"),
    [
        ("light blue", "blue", True),
        ("Navy / Blue", "sky blue", True),
        ("x-large", "x large", True),
        ("small", "medium", False),
        ("assorted", "red", False),
        ("+", "+", True),
        ("30 litre", "45 litre", False),
        ("black", "white", False),
    ],
)
def test_options_match_after_colour_normalisation(chosen, wanted, matches):
    assert reward.score(SHIRT, [chosen], replace(GOAL, options=(wanted,))).options == matches
