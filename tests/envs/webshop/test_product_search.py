"""Search by words."""

from hypothesis import given
from hypothesis import strategies as st

from envs.webshop.product_search import MAX_RESULTS, Index, words

TEXTS = ["Red wool socks", "Blue shirt of linen", "A shirt, a shirt and a shirt", "Desk lamp", "Берёза лампа"]


def test_products_that_share_more_and_rarer_words_come_first():
    index = Index(TEXTS)
    assert index.find("blue linen shirt")[0] == 1
    assert set(index.find("shirt")) == {1, 2}
    assert index.find("red lamp") in ((0, 3), (3, 0))


def test_products_that_share_no_word_are_not_found():
    index = Index(TEXTS)
    assert index.find("bicycle") == ()
    assert index.find("the of and") == ()
    assert index.find("") == ()
    assert Index([]).find("lamp") == ()
    assert Index(["", "!!"]).find("lamp") == ()


def test_case_plurals_and_scripts_do_not_hide_a_product():
    index = Index(TEXTS)
    assert index.find("SHIRTS") == index.find("shirt")
    assert index.find("ЛАМПА") == (4,)
    assert words("Berries, glasses of the bus; women's dresses") == [
        "berry",
        "glasse",
        "bus",
        "women",
        "s",
        "dresse",
    ]


def test_ties_keep_their_order_and_results_are_limited_to_fifty():
    index = Index(["same shirt"] * 70 + ["lamp"])
    assert index.find("shirt") == tuple(range(MAX_RESULTS))


@given(text=st.text(max_size=400))
def test_any_text_can_be_searched_for(text):
    found = Index(TEXTS).find(text)
    assert len(set(found)) == len(found)
    assert set(found) <= set(range(len(TEXTS)))
