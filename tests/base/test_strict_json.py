"""JSON round-trips, and everything else is rejected with one error."""

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
def test_encoded_values_are_decoded(value):
    assert load(dump(value)) == value
    assert json.loads(dump(value)) == value


@given(TEXTS | st.binary(max_size=20))
def test_decoded_values_round_trip_as_utf8(text):
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
def test_invalid_json_is_rejected(text, said):
    with pytest.raises(InvalidJsonError, match=said):
        load(text)


def test_brackets_in_strings_do_not_nest():
    assert load(json.dumps(["[" * 1_000])) == ["[" * 1_000]
    assert load("[" * NESTING_MAX + "]" * NESTING_MAX)


@given(st.text('[]{}\\"a', max_size=12), st.integers(1, 5), st.sampled_from(["utf-8", "utf-16", "utf-32-be"]))
def test_brackets_in_strings_do_not_hide_nesting(text, extra, encoding):
    deep = "[" * (NESTING_MAX + extra) + "]" * (NESTING_MAX + extra)
    with pytest.raises(InvalidJsonError, match="nested deeper than 200"):
        load(f"{{{json.dumps(text + ']' * 1_000)}:{deep}}}".encode(encoding))
    assert load(f"{{{json.dumps(text)}:{deep[extra + 1 : -extra - 1]}}}".encode(encoding))


def test_dump_object_accepts_raw_json():
    assert dump_object({"a": RawJson("[1, 2]"), "b": "[1]", "c": None}) == '{"a":[1, 2],"b":"[1]","c":null}'
