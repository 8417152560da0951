"""Pages of the shop: their clickable elements, navigation, text and board.

A page is a value (`Place`); functions map it to the next one. Names of buttons and the order of texts follow the
published code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from envs.base import PageBoard, PageItem, PageSection
from envs.webshop.catalogue import Catalogue, Product

PER_PAGE = 10  # results on a page, as in the benchmark
SEPARATOR = " [SEP] "
BACK, PREVIOUS, NEXT, BUY = "back to search", "< prev", "next >", "buy now"
SUB_PAGES: tuple[Literal["description", "features", "reviews"], ...] = ("description", "features", "reviews")
SEARCH = "search[keywords]"
MAX_ACTION_LENGTH = 1000
_MAX_BOARD_TEXT = 700
_TITLES = {BACK: "Back to Search", PREVIOUS: "< Prev", NEXT: "Next >", BUY: "Buy Now"}

Kind = Literal["search", "results", "product", "description", "features", "reviews", "done"]


@dataclass(frozen=True)
class Place:
    """The current page, its search, and the options chosen on the product's page.

    `results` are the products of the last search, best first; `number` is the page of results, from 1. `chosen` maps a
    group of options to the value. `per_page` is the number of results on a page.
    """

    kind: Kind = "search"
    query: str = ""
    results: tuple[int, ...] = ()
    number: int = 1
    product: int = -1
    chosen: Mapping[str, str] = field(default_factory=dict)
    per_page: int = PER_PAGE


def read_action(text: str) -> tuple[str, str] | None:
    """Return an action's verb and object in lower case; None if it is neither a search nor a click."""
    whole = text.strip()
    verb, bracket, rest = whole.partition("[")
    verb, thing = verb.strip().lower(), " ".join(rest[:-1].lower().split())
    if not bracket or not rest.endswith("]") or not thing or len(whole) > MAX_ACTION_LENGTH:
        return None
    return (verb, thing) if verb in ("search", "click") else None


def shown(place: Place) -> tuple[int, ...]:
    """Return the products on a page of results."""
    return place.results[(place.number - 1) * place.per_page : place.number * place.per_page]


def labels(product: Product) -> dict[str, tuple[str, str]]:
    """Return clickable labels of a product's options: label → group and value.

    The label is the value, followed by the group if a button or an earlier group has the same name.
    """
    reserved = {BACK, PREVIOUS, BUY, *SUB_PAGES}
    labelled: dict[str, tuple[str, str]] = {}
    for group, values in product.options.items():
        for value in values:
            label = value if value not in reserved and value not in labelled else f"{value} ({group})"
            labelled[label] = (group, value)
    return labelled


def clicks(catalogue: Catalogue, place: Place) -> list[str]:
    """Return clickable elements of a page, in lower case and in the order of the text."""
    match place.kind:
        case "search" | "done":
            return []
        case "results":
            names = [BACK, *([PREVIOUS] if place.number > 1 else []), NEXT]
            names += [catalogue.products[number].asin.lower() for number in shown(place)]
            # after the last page: the published code hides "next" on a page without products
            return names if names != [BACK, PREVIOUS, NEXT] else [BACK, PREVIOUS]
        case "product":
            return [BACK, PREVIOUS, *SUB_PAGES, BUY, *labels(catalogue.products[place.product])]
        case _:
            return [BACK, PREVIOUS]


def available(catalogue: Catalogue, place: Place) -> list[str]:
    """Return the actions that a page offers, as written by a policy."""
    return [*([SEARCH] if place.kind == "search" else []), *(f"click[{name}]" for name in clicks(catalogue, place))]


def follow(catalogue: Catalogue, place: Place, text: str) -> Place | None:
    """Return the page that an action leads to; None if the page does not offer it."""
    action = read_action(text)
    if action is None:
        return None
    verb, thing = action
    if verb == "search":
        if place.kind != "search":
            return None
        return Place("results", query=thing, results=catalogue.index.find(thing), per_page=place.per_page)
    return _click(catalogue, place, thing) if thing in clicks(catalogue, place) else None


def _click(catalogue: Catalogue, place: Place, name: str) -> Place:
    if name == BACK:
        return Place(per_page=place.per_page)
    match place.kind:
        case "results":
            if name in (PREVIOUS, NEXT):
                return replace(place, number=place.number + (1 if name == NEXT else -1))
            return replace(place, kind="product", product=catalogue.by_asin[name])
        case "product":
            if name == PREVIOUS:
                return replace(place, kind="results", product=-1, chosen={})
            if name == BUY:
                return replace(place, kind="done")
            for page in SUB_PAGES:
                if name == page:
                    return replace(place, kind=page)
            group, value = labels(catalogue.products[place.product])[name]
            return replace(place, chosen={**place.chosen, group: value})
        case _:
            return replace(place, kind="product")


def texts(catalogue: Catalogue, place: Place, request: str, longest: int) -> list[str]:
    """Return the visible texts of a page, from top to bottom.

    Args:
        request: text of the goal, on every page but the last.
        longest: maximum length of a description, a feature list or the reviews in characters.
    """
    if place.kind == "done":
        product = catalogue.products[place.product]
        return ["Thank you for your order", product.title, *_selection(place), f"Price: {product.price_text}"]
    head = ["Instruction:", request]
    if place.kind == "search":
        return ["WebShop", *head, "Search"]
    head += [_TITLES[name] for name in clicks(catalogue, place) if name in (BACK, PREVIOUS)]
    if place.kind == "results":
        where = f"Page {place.number} (Total results: {len(place.results)})"
        return [*head[:3], where, *head[3:], *_results(catalogue, place)]
    product = catalogue.products[place.product]
    if place.kind == "product":
        options = [text for group, values in product.options.items() for text in (group, *values)]
        details = [product.title, f"Price: {product.price_text}", f"Rating: {product.rating}"]
        return [*head, *options, *_selection(place), *details, *(page.title() for page in SUB_PAGES), _TITLES[BUY]]
    return [*head, *_cut(body(product, place.kind), longest)]


def _results(catalogue: Catalogue, place: Place) -> list[str]:
    products = [catalogue.products[number] for number in shown(place)]
    following = [_TITLES[NEXT]] if NEXT in clicks(catalogue, place) else []
    return following + [text for product in products for text in (product.asin, product.title, product.price_text)]


def _selection(place: Place) -> list[str]:
    """Return the chosen options. The published text does not show them, so that a policy must remember its clicks."""
    return (
        ["Selected: " + ", ".join(f"{group} {value}" for group, value in place.chosen.items())] if place.chosen else []
    )


def body(product: Product, page: Kind) -> list[str]:
    """Return the paragraphs of a product's sub-page; a note if there are none."""
    match page:
        case "description":
            paragraphs: tuple[str, ...] = (product.description,) if product.description else ()
        case "features":
            paragraphs = product.bullets
        case _:
            paragraphs = product.reviews
    return list(paragraphs) or [f"No {page}"]


def _cut(paragraphs: list[str], longest: int) -> list[str]:
    """Return paragraphs up to this total length, ending in "…" if they are cut."""
    cut: list[str] = []
    for paragraph in paragraphs:
        if len(paragraph) > longest:
            return [*cut, paragraph[:longest].rstrip() + "…"]
        cut.append(paragraph)
        longest -= len(paragraph)
    return cut


def draw(catalogue: Catalogue, place: Place, request: str, last: str | None, verdict: str = "") -> PageBoard:
    """Return the page as a board. `verdict` is the score of the purchase, shown on the last page."""
    request_note = PageSection(layout="note", title="Request", items=[PageItem(text=request)])
    buttons = [name for name in clicks(catalogue, place) if name in _TITLES or name in SUB_PAGES]
    sections = [request_note]
    if place.kind == "search":
        sections.append(_items("buttons", "", [PageItem(text="Search", action=SEARCH)]))
    if buttons:
        sections.append(_items("buttons", "", [_button(name) for name in buttons]))
    sections += _contents(catalogue, place, verdict)
    return PageBoard(title=_title(catalogue, place), address=_address(catalogue, place), sections=sections, last=last)


def _contents(catalogue: Catalogue, place: Place, verdict: str) -> list[PageSection]:
    if place.kind == "search":
        return []
    if place.kind == "results":
        products = [catalogue.products[number] for number in shown(place)]
        links = [
            PageItem(text=_short(product.title), detail=product.price_text, action=f"click[{product.asin.lower()}]")
            for product in products
        ]
        return [_items("list", "", links or [PageItem(text="No products here")])]
    product = catalogue.products[place.product]
    if place.kind == "product":
        facts = [PageItem(text=f"Price: {product.price_text}"), PageItem(text=f"Rating: {product.rating}")]
        return [_items("text", "", facts), *_choices(product, place)]
    if place.kind == "done":
        lines = [product.title, *_selection(place), f"Price: {product.price_text}", *([verdict] if verdict else [])]
        return [_items("text", "", [PageItem(text=line) for line in lines])]
    return [_items("text", "", [PageItem(text=text) for text in _cut(body(product, place.kind), _MAX_BOARD_TEXT)])]


def _choices(product: Product, place: Place) -> list[PageSection]:
    groups: dict[str, list[PageItem]] = {}
    for label, (group, value) in labels(product).items():
        item = PageItem(text=value, action=f"click[{label}]", chosen=place.chosen.get(group) == value)
        groups.setdefault(group, []).append(item)
    return [_items("choices", group, items) for group, items in groups.items()]


def _items(layout: Literal["buttons", "list", "choices", "text"], title: str, items: list[PageItem]) -> PageSection:
    return PageSection(layout=layout, title=title, items=items)


def _button(name: str) -> PageItem:
    return PageItem(text=_TITLES.get(name, name.title()), action=f"click[{name}]")


def _title(catalogue: Catalogue, place: Place) -> str:
    match place.kind:
        case "search":
            return "Search the shop"
        case "results":
            return f"Page {place.number}, {len(place.results)} found"
        case "done":
            return "Thank you for your order"
        case "product":
            return _short(catalogue.products[place.product].title)
        case page:
            return f"{page.title()} of {_short(catalogue.products[place.product].title)}"


def _address(catalogue: Catalogue, place: Place) -> str:
    parts = ["shop"]
    if place.kind != "search":
        parts.append(f"“{_short(place.query, 60)}”")
        parts.append(f"page {place.number}" if place.product < 0 else catalogue.products[place.product].asin)
    if place.kind not in ("search", "results", "product"):
        parts.append(place.kind)
    return " › ".join(parts)


def _short(text: str, longest: int = 120) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
