"""JSON that is read can be written, and is read again; all else is refused with one error."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.strict_json import NESTING_MAX, InvalidJsonError, RawJson, dump, dump_object, load
from tests.tables import each_row

TEXTS = st.text(alphabet='[]{}",:0123456789eE-+.\\ud8ntruefalsNIyi', max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_read(value):
    assert load(dump(value)) == value
    assert json.loads(dump(value)) == value


@given(TEXTS | st.binary(max_size=20))
def test_what_is_read_can_be_written_as_utf8_and_read_again(text):
    try:
        value = load(text)
    except InvalidJsonError:
        return
    assert load(dump(value).encode()) == value


@each_row(
    "text, said",
    [
        ("NaN", "NaN is not JSON"),
        ('{"a":[-Infinity]}', "-Infinity is not JSON"),
        ("1e999", "too large"),
        ('"\\ud800"', "surrogates"),
        ("[" * (NESTING_MAX + 1) + "]" * (NESTING_MAX + 1), "nested deeper than 200"),
        ("[" * 100_000, "nested deeper than 200"),
        ("1" * 5_000, "digits"),
        ("{", "Expecting"),
        (b"\xff", "decode"),
    ],
    ids=["nan", "infinity", "large", "surrogate", "deep", "deepest", "digits", "half", "bytes"],
)
def test_what_is_no_json_is_refused(text, said):
    with pytest.raises(InvalidJsonError, match=said):
        load(text)


def test_brackets_within_texts_are_no_nesting():
    assert load(json.dumps(["[" * 1_000])) == ["[" * 1_000]
    assert load("[" * NESTING_MAX + "]" * NESTING_MAX)


def test_an_object_may_have_values_that_are_json_already():
    assert dump_object({"a": RawJson("[1, 2]"), "b": "[1]", "c": None}) == '{"a":[1, 2],"b":"[1]","c":null}'
