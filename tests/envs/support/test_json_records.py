"""Files of JSON records: lists, lines, and errors."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.support.json_records import RecordsError, read_records, stamp

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.text(max_size=10))
RECORDS = st.lists(
    st.dictionaries(st.text(max_size=5), st.one_of(SCALARS, st.lists(SCALARS, max_size=2)), max_size=3), max_size=5
)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("records") / "file.json"


@given(records=RECORDS, indent=st.sampled_from([None, 2]), before=st.sampled_from(["", "\ufeff", "\n \n"]))
def test_a_list_is_read_in_any_layout(file, records, indent, before):
    file.write_text(before + json.dumps(records, indent=indent), encoding="utf-8")
    assert [record for _, record in read_records(file)] == records


@given(records=RECORDS, between=st.sampled_from(["\n", "\n\n", "\r\n", " \n"]))
def test_lines_are_read_and_numbered(file, records, between):
    text = between.join(json.dumps(record) for record in records)
    file.write_bytes(text.encode())
    found = list(read_records(file))
    assert [record for _, record in found] == records
    lines = file.read_text(encoding="utf-8").split("\n")
    assert all(json.loads(lines[number - 1]) == record for number, record in found)


def test_records_of_a_list_are_numbered_by_the_line_on_which_they_begin(file):
    file.write_text('[\n {"a": 1},\n\n {\n"a": 2}, {"a": 3}\n]\n')
    assert list(read_records(file)) == [(2, {"a": 1}), (4, {"a": 2}), (5, {"a": 3})]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1}\n{"a": \n', "line 2: is not JSON"),
        ('{"a": 1} {"a": 2}\n', "line 1: text follows the record"),
        ('{"a": 1}\n7\n', "line 2: a record must be a JSON object"),
        ('[{"a": 1},\n7]', "line 2: a record must be a JSON object"),
        ('[{"a": 1},\n{"a"}]', "line 2: is not JSON"),
        ('[{"a": 1}\n', "line 2: the list is truncated"),
        ('[{"a": 1} {"a": 1}]', "line 1: the list is truncated or lacks a comma"),
        ('[{"a": 1},\n]', "line 2: is not JSON"),
        ("[", "line 1: is not JSON"),
        ('[{"a": 1}]\n[]', "line 1: text follows the list"),
        ('{"a": ' + "[" * 100_000, "line 1: is nested too deeply"),
        ('{"a": ' + "1" * 5000 + "}", "line 1: is not JSON .a number is too long"),
        ("a secret", "line 1: is not JSON"),
    ],
)
def test_errors_name_file_and_line(file, text, complaint):
    file.write_text(text, encoding="utf-8")
    with pytest.raises(RecordsError, match=complaint) as raised:
        list(read_records(file))
    assert str(raised.value).startswith(str(file))
    assert "secret" not in str(raised.value)


def test_a_missing_or_binary_file_is_named(tmp_path):
    for look in (stamp, lambda path: list(read_records(path))):
        with pytest.raises(RecordsError, match=r"missing.*No such file.*give the path"):
            look(tmp_path / "missing.json")
    (tmp_path / "picture").write_bytes(b'{"a": "\xff\xfe"}')
    with pytest.raises(RecordsError, match="picture: is not UTF-8 text"):
        list(read_records(tmp_path / "picture"))
    with pytest.raises(RecordsError, match="cannot be read"):
        list(read_records(tmp_path))


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(file, text):
    file.write_text(text, encoding="utf-8")
    try:
        found = list(read_records(file))
    except RecordsError:
        return
    assert all(isinstance(record, dict) for _, record in found)
