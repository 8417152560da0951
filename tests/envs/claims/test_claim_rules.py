"""The engine of claims: the notation of patterns, and which rule reads a statement."""

import pytest

from envs.claims.claim_rules import Verdict, compiled, read, read_number, table


@pytest.mark.parametrize(
    ("pattern", "text", "groups"),
    [
        ("the (big |small )?{a:thing}", "The  big\tbox", {"a": "box"}),
        (r"{thing}\s*\( {n:number} [(] x\)", "box( 12  ( x)", {"n": "12"}),
        ("{a:thing} and {b:pair}", "box and box or lid", {"a": "box", "b": "box or lid"}),
        (r"(?P<n>\d{1,2}) (?=boxes)", "12 boxes", {"n": "12"}),
    ],
)
def test_patterns_insert_words_and_stretch_spaces(pattern, text, groups):
    match = compiled(pattern, {"thing": "box|lid", "pair": "{thing} or {thing}"}).match(text)
    assert match.groupdict() == groups
    assert match.re.groups == len(groups), "other parentheses do not capture"


def test_the_first_rule_that_reads_a_stretch_has_it_and_unclear_statements_are_no_claims():
    rules = table(
        {},
        (
            "exact",
            "exactly {n:number} boxes",
            lambda facts, match: Verdict(read_number(match["n"]) == facts, "it is so"),
        ),
        ("about", "{n:number} boxes", lambda facts, match: Verdict(None)),
        ("count", "{n:number} (boxes|lids)", lambda facts, match: Verdict(read_number(match["n"]) == facts), ("lids",)),
    )
    claims = read("There are exactly two boxes. Here are 3 boxes. Here are 3 lids.", 2, rules)
    assert [(claim.kind, claim.true, claim.actual) for claim in claims] == [("exact", True, None), ("count", False, "")]


@pytest.mark.parametrize(
    ("text", "number"), [("a", 1), ("Zero", 0), ("12", 12), ("third", 3), ("21st", 21), ("2nd", 2)]
)
def test_numbers_are_read_as_people_write_them(text, number):
    assert read_number(text) == number
