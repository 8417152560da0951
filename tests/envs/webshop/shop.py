"""A few products and their files, for the WebShop tests."""

import json
from pathlib import Path

from envs.webshop.catalogue import Catalogue, Product, Request

REAL = Path(__file__).parents[4] / "shared" / "data" / "webshop"
"""The 100 real products; not a part of the project."""

SHIRT = {
    "asin": "B000SHIRT1",
    "name": "Acme Linen Shirt",
    "full_description": "A shirt for hot days.",
    "small_description": ["Made of linen.", "Machine wash cold."],
    "pricing": "$19.99 to $27.99",
    "query": "men's shirts",
    "product_category": "Clothing › Men › Shirts",
    "average_rating": 4.5,
    "customization_options": {
        "Size": [{"value": "Small"}, {"value": "X-Large"}],
        "Color": [{"value": "Light Blue"}, {"value": "Black/White"}],
        "Style": None,
    },
}
LAMP = {"asin": "B000LAMP01", "name": "Acme Desk Lamp", "full_description": "It shines.", "pricing": "$8.00"}
INSTRUCTIONS = {
    "B000SHIRT1": {
        "attributes": ["machine wash", "loose fit"],
        "instruction": "Find me machine wash men's shirts",
        "instruction_attributes": ["machine wash"],
    },
    "B000LAMP01": {"attributes": []},
}


def write(folder: Path, products=None, instructions=None, human=None) -> Path:
    """The benchmark's files, as it publishes them."""
    (folder / "items_shuffle.json").write_text(json.dumps([SHIRT, LAMP] if products is None else products))
    (folder / "items_ins_v2.json").write_text(json.dumps(INSTRUCTIONS if instructions is None else instructions))
    if human is not None:
        (folder / "items_human_ins.json").write_text(json.dumps(human))
    return folder


def product(number: int, title: str, **more) -> Product:
    return Product(asin=f"P{number:04d}", title=title, price=10.0, price_text="$10.0", **more)


def catalogue_of(count: int, title: str = "Blue Shirt") -> Catalogue:
    """So many products that one search finds, each asked for."""
    products = tuple(product(number, f"{title} {number}", attributes=("soft",)) for number in range(count))
    return Catalogue("test", products, tuple(Request(number, "A shirt", ("soft",)) for number in range(count)))
