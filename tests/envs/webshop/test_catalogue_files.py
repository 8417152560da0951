"""Reader of the benchmark's files, and its errors."""

import json
import math
import os

import pytest

from envs.webshop import catalogue_files
from envs.webshop.catalogue_files import CatalogueError, load
from tests.envs.webshop.shop import INSTRUCTIONS, LAMP, REAL, SHIRT, write


def test_the_published_files_become_products_and_goals(tmp_path):
    catalogue = load(write(tmp_path))
    shirt, lamp = catalogue.products
    assert (shirt.asin, shirt.title, shirt.query, shirt.rating) == (
        "B000SHIRT1",
        "Acme Linen Shirt",
        "men's shirts",
        "4.5",
    )
    assert shirt.options == {"size": ("small", "x-large"), "color": ("light blue", "black | white")}
    assert shirt.path == ("Clothing", "Men", "Shirts")
    assert shirt.bullets == ("Made of linen.", "Machine wash cold.")
    assert shirt.attributes == ("machine wash", "loose fit")
    assert shirt.price_text == "$19.99 to $27.99"
    assert 19.99 <= shirt.price <= 27.99
    assert (lamp.price, lamp.price_text, lamp.options, lamp.attributes) == (8.0, "$8.0", {}, ())
    assert catalogue.goals == 4
    assert catalogue.goal(0).attributes == ("machine wash",)


def test_files_with_one_product_per_line_are_read(tmp_path):
    write(tmp_path)
    lines = [json.dumps({"id": entry["asin"], "contents": "", "product": entry}) for entry in (SHIRT, LAMP)]
    (tmp_path / "items_shuffle.json").rename(tmp_path / "unused.txt")
    (tmp_path / "products_2.jsonl").write_text("\n".join(lines) + "\n")
    assert [product.asin for product in load(tmp_path).products] == ["B000SHIRT1", "B000LAMP01"]


def test_a_product_file_uses_the_requests_with_the_same_name_ending(tmp_path):
    (tmp_path / "items_shuffle_1000.json").write_text(json.dumps([SHIRT]))
    (tmp_path / "items_ins_v2_1000.json").write_text(json.dumps(INSTRUCTIONS))
    (tmp_path / "items_ins_v2.json").write_text("not read")
    assert load(tmp_path).goals == 4


HUMAN = {
    "B000SHIRT1": [
        {
            "instruction": "Blue one in small.",
            "instruction_attributes": ["loose fit"],
            "instruction_options": ["small", "light blue"],
        },
        {"instruction": "Any shirt.", "instruction_attributes": [], "instruction_options": []},
        {
            "instruction": "A big one.",
            "instruction_attributes": ["loose fit"],
            "instruction_options": {"size": "X-Large"},
        },
    ],
    "B000NOTOURS": [{"instruction": "Else.", "instruction_attributes": ["x"], "instruction_options": []}],
}


def test_human_requests_are_preferred(tmp_path):
    folder = write(tmp_path, human=HUMAN)
    catalogue = load(folder)
    assert [catalogue.goal(number).options for number in range(catalogue.goals)] == [
        ("small", "light blue"),
        ("x-large",),
    ]
    assert catalogue.goal(0).text.startswith("Blue one in small")
    assert load(folder, "human").goals == 2
    assert load(folder, "synthetic").goals == 4


def test_without_human_requests_synthetic_ones_are_used(tmp_path):
    human = {"B000NOTOURS": HUMAN["B000NOTOURS"]}
    assert load(write(tmp_path, human=human)).goals == 4
    with pytest.raises(CatalogueError, match="there are no requests"):
        load(tmp_path, "human")


BARE_INSTRUCTION = {"instruction": "Find me things", "instruction_attributes": ["good"]}


def test_a_record_with_nothing_in_it_is_a_product_with_defaults(tmp_path):
    folder = write(tmp_path, products=[{}, {"asin": None, "name": ""}], instructions={"item1": BARE_INSTRUCTION})
    first, second = load(folder).products
    assert (first.asin, second.asin) == ("item1", "item2")
    assert (first.title, first.price, first.price_text, first.rating) == ("Untitled product", 100.0, "$100.0", "N.A.")
    assert first.description == first.query == ""
    assert first.bullets == first.reviews == first.path == first.attributes == ()


@pytest.mark.parametrize("key", [key for key in SHIRT if key != "asin"])
@pytest.mark.parametrize("value", [None, "", [], {}])
def test_any_field_may_be_missing_or_empty(tmp_path, key, value):
    catalogue = load(write(tmp_path, products=[{**SHIRT, key: value}]))
    assert catalogue.goals >= 1
    assert catalogue.goal(0).asin == "B000SHIRT1"


def test_duplicate_ids_keep_the_first_record(tmp_path):
    catalogue = load(write(tmp_path, products=[SHIRT, {**SHIRT, "name": "Another"}, LAMP]))
    assert [product.title for product in catalogue.products] == ["Acme Linen Shirt", "Acme Desk Lamp"]


@pytest.mark.parametrize(
    ("pricing", "price", "text"),
    [
        ("$1,299.50", 1299.5, "$1299.5"),
        ([12.5], 12.5, "$12.5"),
        ([], 100.0, "$100.0"),
        ("no price", 100.0, "$100.0"),
        (["$3.00"], 3.0, "$3.0"),
    ],
)
def test_prices_are_read_in_every_form(tmp_path, pricing, price, text):
    found = load(write(tmp_path, products=[{**SHIRT, "pricing": pricing}])).products[0]
    assert (found.price, found.price_text) == (price, text)


def test_the_number_of_products_is_limited(tmp_path):
    assert len(load(write(tmp_path), limit=1).products) == 1


def test_reviews_have_their_stars(tmp_path):
    reviews = [{"score": 4, "title": "Good", "body": "It fits."}, "Plain words", {"review": "No stars"}]
    found = load(write(tmp_path, products=[{**SHIRT, "Reviews": reviews}])).products[0]
    assert found.reviews == ("4 of 5: Good. It fits.", "Plain words", "No stars")


def test_an_option_cannot_contain_the_answer_separator(tmp_path):
    options = {"Size": [{"value": "A||B"}, {"value": "  "}, {"value": 7}]}
    found = load(write(tmp_path, products=[{**SHIRT, "customization_options": options}])).products[0]
    assert found.options == {"size": ("a|b", "7")}


def test_files_are_read_once_until_they_change(tmp_path):
    folder = write(tmp_path)
    first = load(folder)
    assert load(str(folder)) is first
    write(folder, products=[LAMP, SHIRT, {"name": "New"}])
    os.utime(folder / "items_shuffle.json", ns=(1, 1))
    assert len(load(folder).products) == 3


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("items_shuffle.json", "[{]", r"items_shuffle\.json is not JSON .* fetch the file again"),
        ("items_shuffle.json", '{"a": 1}', r"items_shuffle\.json must hold a list of products, not a dict"),
        ("items_shuffle.json", "[{}, 3]", r"items_shuffle\.json: product 2 is a int, not an object; correct or remove"),
        ("items_ins_v2.json", "[]", r"items_ins_v2\.json must map product ids to requests, but it is a list"),
        ("items_ins_v2.json", '{"B000SHIRT1": 5}', r"product 1 \(or its entry in items_ins_v2\.json\)"),
        ("items_ins_v2.json", "{}", r"there are no requests .* items_shuffle\.json has one in items_ins_v2\.json"),
        (
            "items_shuffle.json",
            '[{"pricing": [{}]}]',
            r"product 1 .* cannot be read: .*; correct or remove that record",
        ),
    ],
)
def test_errors_name_the_problem_and_the_remedy(tmp_path, name, text, message):
    write(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(CatalogueError, match=message):
        load(tmp_path)


def test_a_broken_line_is_named_by_its_number(tmp_path):
    (tmp_path / "products.jsonl").write_text(json.dumps({"product": SHIRT}) + "\n\n{broken\n")
    with pytest.raises(CatalogueError, match=r"products\.jsonl, line 3 is not JSON"):
        load(tmp_path)


def test_binary_files_are_reported(tmp_path):
    (tmp_path / "items_shuffle.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CatalogueError, match=r"items_shuffle\.json cannot be read"):
        load(tmp_path)


def test_a_missing_or_empty_folder_is_reported(tmp_path):
    with pytest.raises(CatalogueError, match="is not a folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(CatalogueError, match="holds no product file"):
        load(tmp_path)
    with pytest.raises(CatalogueError, match=r"holds no items_human_ins\.json"):
        load(write(tmp_path), "human")


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no real products at {REAL}")
def test_the_real_products_are_read():
    catalogue = catalogue_files.load(REAL)
    assert len(catalogue.products) == 100
    assert len({request.product for request in catalogue.requests}) == 44
    assert sum(bool(product.options) for product in catalogue.products) == 39
    goals = [catalogue.goal(number) for number in range(catalogue.goals)]
    assert len(set(goals)) == len(goals)
    dearest = next(goal for goal in goals if goal.asin == "B09688C4XM")  # 1,847 dollars: above every limit
    assert dearest.price_limit == math.inf
    assert "price" not in dearest.text


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no real products at {REAL}")
def test_options_built_from_raw_records_equal_the_published_options(tmp_path):
    lines = (REAL / "products_100.jsonl").read_text(encoding="utf-8").splitlines()
    raw = [json.loads(line)["product"] for line in lines]
    ready = [entry.pop("options") for entry in raw]
    instructions = json.loads((REAL / "items_ins_v2_1000.json").read_text(encoding="utf-8"))
    products = load(write(tmp_path, products=raw, instructions=instructions)).products
    assert [{name: list(values) for name, values in product.options.items()} for product in products] == ready
