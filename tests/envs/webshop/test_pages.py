"""Pages of the shop: offered actions and navigation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.webshop import generated, pages
from envs.webshop.catalogue import Catalogue, Request
from envs.webshop.pages import Place, available, clicks, follow, read_action, texts
from tests.envs.webshop.shop import catalogue_of, product

SHELF = catalogue_of(23)
SHIRT = product(
    1,
    "Blue Shirt",
    options={"color": ("red", "reviews", "m"), "size": ("m", "l")},
    description="Soft.",
    bullets=("Warm.", "Long."),
    reviews=("4 of 5: Fine.",),
    rating="4.2",
)
ONE = Catalogue("test", (SHIRT,), (Request(0, "A shirt", ()),))


def walk(catalogue: Catalogue, *actions: str) -> Place:
    place: Place | None = Place()
    for action in actions:
        assert place is not None
        place = follow(catalogue, place, action)
        assert place is not None, action
    assert place is not None
    return place


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("search[red socks]", ("search", "red socks")),
        ("  CLICK[ Buy  Now ] ", ("click", "buy now")),
        ("search [a[b]]", ("search", "a[b]")),
        ("click[< Prev]", ("click", "< prev")),
        ("search[]", None),
        ("search[  ]", None),
        ("search red", None),
        ("click[buy now", None),
        ("click buy now]", None),
        ("think[buy now]", None),
        ("I click[buy now]", None),
        ("click[buy now].", None),
        ("", None),
        ("[", None),
        ("search[" + "x" * 2000 + "]", None),
    ],
)
def test_actions_are_parsed_in_any_case_and_spacing(text, read):
    assert read_action(text) == read


def test_the_first_page_accepts_searches_only():
    assert available(SHELF, Place()) == ["search[keywords]"]
    for action in ("click[search]", "click[back to search]", "click[p0001]", "search[]", "shirt"):
        assert follow(SHELF, Place(), action) is None
    assert follow(SHELF, walk(SHELF, "search[shirt]"), "search[lamp]") is None


def test_results_are_paged_by_ten_with_back_and_next():
    first = walk(SHELF, "search[Shirt]")
    assert clicks(SHELF, first) == ["back to search", "next >", *(f"p{number:04d}" for number in range(10))]
    second = walk(SHELF, "search[shirt]", "click[Next >]")
    assert clicks(SHELF, second) == ["back to search", "< prev", "next >", *(f"p{n:04d}" for n in range(10, 20))]
    assert follow(SHELF, second, "click[< prev]") == first
    third = walk(SHELF, "search[shirt]", "click[next >]", "click[next >]")
    assert len(clicks(SHELF, third)) == 3 + 3


def test_after_the_last_results_next_is_hidden():
    end = walk(SHELF, "search[shirt]", *["click[next >]"] * 3)
    assert clicks(SHELF, end) == ["back to search", "< prev"]
    assert "Next >" not in texts(SHELF, end, "A shirt", 100)
    assert follow(SHELF, end, "click[next >]") is None
    nothing = walk(SHELF, "search[lamp]")
    assert clicks(SHELF, nothing) == ["back to search", "next >"]
    assert clicks(SHELF, walk(SHELF, "search[lamp]", "click[next >]")) == ["back to search", "< prev"]


def test_a_product_of_another_page_cannot_be_clicked():
    assert follow(SHELF, walk(SHELF, "search[shirt]"), "click[p0015]") is None


def test_a_product_has_options_sub_pages_and_back_links():
    place = walk(ONE, "search[shirt]", "click[P0001]")
    assert clicks(ONE, place)[:6] == ["back to search", "< prev", "description", "features", "reviews", "buy now"]
    for name, wanted in (("description", ["Soft."]), ("features", ["Warm.", "Long."]), ("reviews", ["4 of 5: Fine."])):
        page = walk(ONE, "search[shirt]", "click[p0001]", f"click[{name}]")
        assert clicks(ONE, page) == ["back to search", "< prev"]
        assert texts(ONE, page, "A shirt", 100)[-len(wanted) :] == wanted
        assert follow(ONE, page, "click[< prev]") == place
    assert follow(ONE, place, "click[< prev]") == walk(ONE, "search[shirt]")
    assert follow(ONE, place, "click[back to search]") == Place()


def test_a_choice_replaces_its_group_and_persists_across_sub_pages():
    place = walk(
        ONE,
        "search[shirt]",
        "click[p0001]",
        "click[red]",
        "click[l]",
        "click[m]",
        "click[features]",
        "click[< prev]",
    )
    assert place.chosen == {"color": "m", "size": "l"}
    assert walk(ONE, "search[shirt]", "click[p0001]", "click[red]", "click[< prev]", "click[p0001]").chosen == {}


def test_values_with_ambiguous_names_can_all_be_chosen():
    assert list(pages.labels(SHIRT)) == ["red", "reviews (color)", "m", "m (size)", "l"]
    place = walk(ONE, "search[shirt]", "click[p0001]", "click[reviews (color)]", "click[m (size)]")
    assert place.chosen == {"color": "reviews", "size": "m"}


def test_texts_follow_the_page_from_top_to_bottom():
    assert texts(ONE, Place(), "A shirt", 100) == ["WebShop", "Instruction:", "A shirt", "Search"]
    assert texts(ONE, walk(ONE, "search[shirt]"), "A shirt", 100) == [
        "Instruction:",
        "A shirt",
        "Back to Search",
        "Page 1 (Total results: 1)",
        "Next >",
        "P0001",
        "Blue Shirt",
        "$10.0",
    ]
    assert texts(ONE, walk(ONE, "search[shirt]", "click[p0001]", "click[red]"), "A shirt", 100) == [
        "Instruction:",
        "A shirt",
        "Back to Search",
        "< Prev",
        "color",
        "red",
        "reviews",
        "m",
        "size",
        "m",
        "l",
        "Selected: color red",
        "Blue Shirt",
        "Price: $10.0",
        "Rating: 4.2",
        "Description",
        "Features",
        "Reviews",
        "Buy Now",
    ]


def test_empty_sub_pages_have_a_note_and_long_texts_are_cut():
    bare = Catalogue("test", (product(1, "Shirt", description="x" * 500),), (Request(0, "A shirt", ()),))
    for name in ("features", "reviews"):
        page = walk(bare, "search[shirt]", "click[p0001]", f"click[{name}]")
        assert texts(bare, page, "A shirt", 100)[-1] == f"No {name}"
    long = walk(bare, "search[shirt]", "click[p0001]", "click[description]")
    assert texts(bare, long, "A shirt", 100)[-1] == "x" * 100 + "…"
    assert texts(bare, long, "A shirt", 500)[-1] == "x" * 500


def test_a_rendered_page_shows_its_location_and_actions():
    place = walk(ONE, "search[shirt]", "click[p0001]", "click[red]")
    board = pages.draw(ONE, place, "A shirt", "click[red]")
    assert (board.title, board.address, board.last) == ("Blue Shirt", "shop › “shirt” › P0001", "click[red]")
    actions = [item.action for section in board.sections for item in section.items if item.action]
    assert sorted(actions) == sorted(available(ONE, place))
    assert [item.text for section in board.sections for item in section.items if item.chosen] == ["red"]


CATALOGUE = generated.catalogue()


@given(choices=st.lists(st.integers(0, 10**6), max_size=25))
def test_offered_actions_work_and_are_shown_on_every_page(choices):
    place = Place()
    for choice in choices:
        offered = available(CATALOGUE, place)
        board = pages.draw(CATALOGUE, place, "Anything", None)
        drawn = [item.action for section in board.sections for item in section.items if item.action]
        assert sorted(drawn) == sorted(offered)
        assert len(board.model_dump_json()) < 12_000
        assert all(text.strip() for text in texts(CATALOGUE, place, "Anything", 1500))
        if not offered:
            assert place.kind == "done"
            break
        action = offered[choice % len(offered)].replace("keywords", ("tea", "linen shirt", "zzz")[choice % 3])
        after = follow(CATALOGUE, place, action)
        assert after is not None
        place = after


@given(text=st.one_of(st.text(max_size=80), st.from_regex(r"(search|click)\[.{0,40}\]", fullmatch=True)))
def test_any_text_leads_to_a_page_or_is_invalid(text):
    for place in (Place(), walk(ONE, "search[shirt]"), walk(ONE, "search[shirt]", "click[p0001]")):
        after = follow(ONE, place, text)
        assert after is None or isinstance(after, Place)
