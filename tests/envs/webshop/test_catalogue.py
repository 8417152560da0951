"""Requests, goals and their seeds; the generated catalogue."""

import hashlib
import math
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from envs.webshop import generated, reward
from envs.webshop.catalogue import Catalogue, Product, Request, place, price_limit
from tests.envs.webshop.shop import product

ROOT = Path(generated.__file__).parents[2]
SHIRT = product(1, "Shirt", options={"size": ("s", "m", "l"), "color": ("red", "blue")}, attributes=("soft",))


def test_every_combination_of_options_is_a_goal_of_its_own():
    catalogue = Catalogue("test", (product(0, "Lamp"), SHIRT), (Request(0, "A lamp.", ()), Request(1, "A shirt.", ())))
    assert catalogue.goals == 1 + 6
    goals = [catalogue.goal(number) for number in range(7)]
    assert goals[0].options == ()
    assert {goal.options for goal in goals[1:]} == {(c, s) for c in ("red", "blue") for s in ("s", "m", "l")}
    limit = goals[1].price_limit
    color, size = goals[1].options
    assert goals[1].text == f"A shirt, color {color}, size {size}, price at most {limit:.2f} dollars"


def test_human_wording_names_one_choice():
    catalogue = Catalogue("test", (SHIRT,), (Request(0, "A red one in m", ("soft",), ("red", "m")),) * 2)
    assert catalogue.goals == 2
    assert catalogue.goal(1).options == ("red", "m")
    assert catalogue.goal(1).text.startswith("A red one in m, price at most ")


@pytest.mark.parametrize("price", [0.0, 5.0, 10.0, 123.45, 955.0, 969.99])
def test_the_limit_lies_above_the_price_within_four_tens(price):
    limits = {price_limit(Product(f"A{number}", "x", price, "")) for number in range(40)}
    assert all(price < limit <= price + 40 and limit % 10 == 0 for limit in limits)
    assert len(limits) > 1 or price > 950


def test_a_price_near_the_highest_has_no_limit():
    assert price_limit(Product("A", "x", 985.0, "")) == math.inf
    catalogue = Catalogue("test", (Product("A", "x", 985.0, ""),), (Request(0, "Dear thing.", ()),))
    assert catalogue.goal(0).text == "Dear thing"


@pytest.mark.parametrize("seed", [0, 1, 499, 500, 999, 1000, 12345, 2**62])
def test_large_catalogues_are_split_as_published(seed):
    goals = 6910
    assert place(seed, "test", goals) == seed % 500
    assert place(seed, "validation", goals) == seed % 1000 + 500
    assert place(seed, "train", goals) == seed % (goals - 1500) + 1500


@pytest.mark.parametrize("goals", [6, 7, 44, 501, 2999, 3000])
def test_small_catalogues_are_split_completely_without_overlap(goals):
    parts = [{place(seed, split, goals) for seed in range(goals)} for split in ("test", "validation", "train")]
    assert all(parts)
    assert sum(map(len, parts)) == goals
    assert set.union(*parts) == set(range(goals))


def test_very_small_catalogues_share_their_goals_among_the_splits():
    for split in ("test", "validation", "train"):
        assert {place(seed, split, 3) for seed in range(9)} == {0, 1, 2}


def test_goals_are_permuted_as_published():
    catalogue = generated.catalogue()
    order = list(range(catalogue.goals))
    random.Random(42).shuffle(order)
    assert catalogue.draw(7, "test") == catalogue.goal(order[7])
    assert catalogue.draw(7, "train") != catalogue.draw(7, "test")


def fingerprint() -> str:
    catalogue = generated.catalogue()
    goals = [catalogue.goal(number) for number in range(0, catalogue.goals, 7)]
    return hashlib.sha256(repr((catalogue.products, goals, catalogue.draw(5, "train"))).encode()).hexdigest()[:16]


def test_the_generated_catalogue_is_the_same_in_every_process_and_version():
    code = "from tests.envs.webshop.test_catalogue import fingerprint; print(fingerprint())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fingerprint() == "ee368b4378029c48"


def test_the_generated_catalogue_is_a_shop_worth_searching():
    catalogue = generated.catalogue()
    assert len(catalogue.products) >= 300
    assert len({product.asin for product in catalogue.products}) == len(catalogue.products)
    assert len({product.title for product in catalogue.products}) == len(catalogue.products)
    assert len({product.path[0] for product in catalogue.products}) >= 6
    kinds = Counter(product.query for product in catalogue.products)
    assert min(kinds.values()) >= 10
    assert all(product.options and product.bullets and product.description for product in catalogue.products)
    assert sum(bool(product.reviews) for product in catalogue.products) > 200
    assert len(generated.catalogue(limit=40).products) == 40


def test_every_requested_fact_is_visible_in_the_shop():
    catalogue = generated.catalogue()
    for request in catalogue.requests:
        target = catalogue.products[request.product]
        text = " ".join((target.title, target.description, *target.bullets)).lower()
        assert all(attribute in text for attribute in request.attributes)
        assert set(request.attributes) <= set(target.attributes)


def test_in_the_generated_catalogue_only_a_careful_purchase_is_perfect():
    """Of the other products of the same kind few serve a request, even when their options are chosen best."""
    catalogue = generated.catalogue()
    perfect = others = 0
    for number in range(0, catalogue.goals, 37):
        goal = catalogue.goal(number)
        for other in catalogue.products:
            if other.asin == goal.asin:
                continue
            values = [value for group in other.options.values() for value in group if value in goal.options]
            total = reward.score(other, values, goal).total
            if other.query == goal.query:
                others += 1
                perfect += total == 1
            else:
                assert total < 1
    assert others > 700
    assert perfect / others < 0.05
