"""Reader of the benchmark's product and goal files, as published or with one product per line.

Missing fields have defaults: title "Untitled product", price 100 dollars (as in the benchmark), rating "N.A.", an id
from the position in the file, everything else empty. Of records with equal ids, the first counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from envs.support import data_files
from envs.webshop.catalogue import Catalogue, Product, Request, seeded_draws

Goals = Literal["auto", "human", "synthetic"]

PRODUCTS = ("items_shuffle.json", "items_shuffle*.json", "products*.json", "products*.jsonl")
INSTRUCTIONS = ("items_ins_v2.json", "items_ins_v2*.json")
HUMAN = "items_human_ins.json"
MAX_BYTES = 16 * data_files.GIB
"""Maximum size of a file; the published product file has about 5 GiB."""
DEFAULT_PRICE = 100.0
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class CatalogueError(ValueError):
    """Files that are not a catalogue. The message names file and record, and says what to do."""


def load(folder: str | Path, goals: Goals = "auto", limit: int | None = None) -> Catalogue:
    """Load the catalogue in a folder, cached per process until its files change.

    Args:
        folder: contains a product file (`items_shuffle*.json`, or `products*.jsonl` with one product per line) and
            `items_ins_v2*.json` with attributes and requests by product, or `items_human_ins.json`, or both.
        goals: kind of requests; "auto" prefers human ones if their file exists.
        limit: maximum number of products, from the first.
    Raises:
        CatalogueError: a file is missing or cannot be read.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise CatalogueError(f"{path} is not a folder; name one that holds {PRODUCTS[1]}, or leave the path empty")
    products = _first(path, PRODUCTS)
    if products is None:
        raise CatalogueError(f"{path} holds no product file: put {PRODUCTS[0]} or {PRODUCTS[3]} there")
    human = path / HUMAN
    files = (products, _instructions_for(products), human if human.exists() else None)
    marks = tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) if file else None for file in files)
    return _load(marks, goals, limit)


@lru_cache(maxsize=4)
def _load(marks: tuple[tuple[str, int, int] | None, ...], goals: Goals, limit: int | None) -> Catalogue:
    products_file, instructions_file, human_file = (Path(mark[0]) if mark else None for mark in marks)
    assert products_file is not None
    if goals == "human" and human_file is None:
        raise CatalogueError(f"{products_file.parent} holds no {HUMAN}: put it there, or choose the synthetic goals")
    instructions = _by_asin(instructions_file)
    human_instructions = _by_asin(human_file) if goals != "synthetic" else {}
    products: list[Product] = []
    synthetic: list[Request] = []
    human: list[Request] = []
    asins: set[str] = set()
    for number, record in _records(products_file):
        if len(products) == limit:
            break
        try:
            product = _product(record, number, instructions)
            if product.asin.lower() in asins:
                continue
            asins.add(product.asin.lower())
            products.append(product)
            synthetic += _requests(instructions.get(product.asin, {}), len(products) - 1)
            human += _requests(human_instructions.get(product.asin, []), len(products) - 1)
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise CatalogueError(
                f"{products_file}: product {number} (or its entry in {_names(instructions_file, human_file)}) "
                f"cannot be read: {error}; correct or remove that record"
            ) from error
    requests = human if human or goals == "human" else synthetic
    if not requests:
        raise CatalogueError(
            f"there are no requests in {products_file.parent}: no product of {products_file.name} has one in "
            f"{_names(instructions_file, human_file)}; put the matching file there"
        )
    return Catalogue(str(products_file.parent), tuple(products), tuple(requests))


def _names(*files: Path | None) -> str:
    return " or ".join(file.name for file in files if file) or INSTRUCTIONS[0]


def _first(folder: Path, patterns: tuple[str, ...]) -> Path | None:
    for pattern in patterns:
        files = sorted(folder.glob(pattern))
        if files:
            return files[0]
    return None


def _instructions_for(products: Path) -> Path | None:
    """Return the file of requests whose name ends like the product file's, else any."""
    ending = products.stem.removeprefix("items_shuffle")
    return _first(products.parent, (f"items_ins_v2{ending}.json", *INSTRUCTIONS))


def _read(path: Path, text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CatalogueError(f"{path}{where} is not JSON ({error}); fetch the file again") from error


def _text(path: Path) -> str:
    try:
        return data_files.read_bytes(path, MAX_BYTES).decode("utf-8")
    except (data_files.DataFileError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path} cannot be read ({error}); fetch the file again") from error


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield records of a product file with their numbers, from 1."""
    if path.suffix == ".jsonl":
        lines = ((number, line) for number, line in enumerate(_text(path).split("\n"), start=1) if line.strip())
        records: Iterator[tuple[int, Any]] = ((number, _read(path, line, f", line {number}")) for number, line in lines)
    else:
        whole = _read(path, _text(path), "")
        if not isinstance(whole, list):
            raise CatalogueError(f"{path} must hold a list of products, not a {type(whole).__name__}")
        records = enumerate(whole, start=1)
    for number, record in records:
        if not isinstance(record, dict):
            kind = type(record).__name__
            raise CatalogueError(f"{path}: product {number} is a {kind}, not an object; correct or remove that record")
        inner = record.get("product", record)
        yield number, {"asin": record.get("id"), **inner} if isinstance(inner, dict) else record


def _by_asin(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    entries = _read(path, _text(path), "")
    if not isinstance(entries, dict):
        raise CatalogueError(f"{path} must map product ids to requests, but it is a {type(entries).__name__}")
    return entries


def _product(record: dict[str, Any], number: int, instructions: dict[str, Any]) -> Product:
    asin = str(record.get("asin") or f"item{number}").strip()
    price, price_text = _price(record.get("pricing") or record.get("Price"), asin)
    attributes = (instructions.get(asin) or {}).get("attributes") or record.get("Attributes") or ()
    return Product(
        asin=asin,
        title=_line(record, "Title", "name") or "Untitled product",
        price=price,
        price_text=price_text,
        description=_line(record, "Description", "full_description"),
        bullets=_lines(record.get("BulletPoints") or record.get("small_description")),
        reviews=tuple(_review(review) for review in record.get("Reviews") or record.get("reviews") or ()),
        rating=str(record.get("average_rating") or record.get("Rating") or "N.A."),
        query=_line(record, "query").lower(),
        path=tuple(part.strip() for part in _line(record, "product_category").split("›") if part.strip()),
        attributes=_lines(attributes),
        options=_options(record),
    )


def _line(record: dict[str, Any], *keys: str) -> str:
    """Return the first non-empty field of these, on one line."""
    return next((" ".join(str(record[key]).split()) for key in keys if record.get(key)), "")


def _lines(value: Any) -> tuple[str, ...]:
    parts = value if isinstance(value, (list, tuple)) else [value] if value else []
    return tuple(" ".join(str(part).split()) for part in parts if part)


def _price(value: Any, asin: str) -> tuple[float, str]:
    """Return the price and its text. The text of a range is the range; the product's id determines the price in it."""
    parts = value if isinstance(value, (list, tuple)) else _NUMBER.findall(str(value or ""))
    prices = [float(str(part).replace(",", "").strip("$ ")) for part in parts][:2]
    if not prices:
        prices = [DEFAULT_PRICE]
    if len(prices) == 1:
        return prices[0], f"${prices[0]}"
    low, high = sorted(prices)
    return round(low + (high - low) * seeded_draws(asin).uniform(), 2), f"${low} to ${high}"


def _review(review: Any) -> str:
    if not isinstance(review, dict):
        return " ".join(str(review).split())
    stars = review.get("score") or review.get("rating")
    text = ". ".join(part for part in (_line(review, "title"), _line(review, "body", "review", "text")) if part)
    return f"{stars} of 5: {text}" if stars else text


def _options(record: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return groups of options, from `options` or from `customization_options`."""
    options = record.get("options")
    source = options if isinstance(options, dict) and options else record.get("customization_options")
    groups: dict[str, tuple[str, ...]] = {}
    for name, values in source.items() if isinstance(source, dict) else ():
        texts = (value.get("value") if isinstance(value, dict) else value for value in values or ())
        labels = tuple(dict.fromkeys(_option(text) for text in texts if text is not None and str(text).strip()))
        if labels:
            groups[str(name).strip().lower()] = labels
    return groups


def _option(text: Any) -> str:
    """Return the label of a value: in lower case, and without "||", which separates the actions of an answer."""
    spaced = str(text) if " | " in str(text) else str(text).replace("/", " | ")
    return " ".join(re.sub(r"\|\|+", "|", spaced).lower().split())


def _requests(entries: Any, product: int) -> Iterator[Request]:
    """Yield requests for one product: a synthetic request (an object) or human requests (a list)."""
    for entry in entries if isinstance(entries, list) else [entries]:
        text, attributes = entry.get("instruction"), _lines(entry.get("instruction_attributes"))
        if not text or not attributes:
            continue
        options = entry.get("instruction_options")
        if isinstance(options, dict):
            options = list(options.values())
        yield Request(
            product=product,
            text=" ".join(str(text).split()),
            attributes=attributes,
            options=tuple(_option(value) for value in options or ()) if isinstance(entries, list) else None,
        )
