"""Differences between the records of a topic and the expected ones."""

import json
import re
from collections import Counter

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.record_assertion import CHARACTERS_MAX, CONTEXT, LINES_MAX, difference
from pipeline_broker.embedded.shown import Record

CONTENTS = st.sampled_from([None, b"", b"a", b"b", b"\xff"])
PAIRS = st.lists(st.tuples(CONTENTS, CONTENTS), max_size=6)


def made(pairs):
    return [Record("t", 0, offset, 0, key, value) for offset, (key, value) in enumerate(pairs)]


@given(PAIRS, PAIRS)
def test_equal_records_have_no_difference_and_others_have_one(there, wanted):
    assert (difference(made(there), wanted, any_order=False) is None) == (there == wanted)
    assert (difference(made(there), wanted, any_order=True) is None) == (Counter(there) == Counter(wanted))
    values, wanted_values = [value for _, value in there], [value for _, value in wanted]
    is_same = difference(made(there), wanted_values, any_order=False) is None
    assert is_same == (values == wanted_values)


@given(PAIRS, PAIRS, st.booleans())
def test_differences_turn_the_records_into_the_expected_ones(there, wanted, any_order):
    lines = (difference(made(there), wanted, any_order=any_order) or "").splitlines()[1:]
    missing, extra = (sum(line.startswith(sign) for line in lines) for sign in "-+")
    assert len(there) - extra + missing == len(wanted)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)


def of_values(values):
    return made([(None, value) for value in values])


@given(JSON)
def test_json_equals_itself_in_any_form(value):
    forms = [
        json.dumps(value),
        json.dumps(value, indent=2),
        json.dumps(value, sort_keys=True),
        json.dumps(value, ensure_ascii=False),
        "\0\0\0\0\7" + json.dumps(value),
    ]
    records = of_values([form.encode() for form in forms])
    assert difference(records, [value] * len(forms), any_order=False, json=True) is None


@given(JSON, JSON)
def test_json_is_compared_like_python_objects_but_a_bool_is_no_number(there, wanted):
    is_same = difference(of_values([json.dumps(there).encode()]), [wanted], any_order=True, json=True) is None
    if is_same:
        assert there == wanted
    elif "true" not in (texts := json.dumps([there, wanted])) and "false" not in texts:
        assert there != wanted


def test_differences_of_json_are_lines_of_json():
    there = of_values([b'{"b": 2, "a": "\xc3\xa4"}', b"no json", None])
    wanted = [{"a": "ä", "b": 2.0}, {"a": 1}, None]
    assert difference(there, wanted, any_order=False, json=True).splitlines() == [
        "expected 3, found 3 (- missing, + unexpected):",
        '  {"a": "ä", "b": 2}  at t[0] offset 0',
        '- {"a": 1}',
        "+ 'no json'  at t[0] offset 1",
        "  null  at t[0] offset 2",
    ]


def test_json_has_keys_beside_it():
    there = made([(b"k", b'{"a":1}')])
    assert difference(there, [("k", {"a": 1})], any_order=False, json=True) is None
    assert difference(there, [("l", {"a": 1})], any_order=False, json=True) is not None


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), {"a": object()}, {("a", 1): 1}])
def test_a_value_that_json_cannot_express_is_an_error(value):
    with pytest.raises(EmbeddedBrokerError, match=r"^assert_records: JSON cannot express "):
        difference([], [value], any_order=False, json=True)


def test_an_object_without_json_is_an_error_that_names_json():
    with pytest.raises(EmbeddedBrokerError, match=r"; encode it, or compare JSON with json=True$"):
        difference([], [{"a": 1}], any_order=False)


@pytest.mark.parametrize("expected", ["text", b"bytes", {"a": 1}, 5, None])
def test_one_value_instead_of_a_list_is_an_error(expected):
    with (
        EmbeddedBroker() as broker,
        pytest.raises(EmbeddedBrokerError, match="expected needs a list of values"),
    ):
        broker.assert_records("t", expected)


def test_differences_are_lines_with_offsets():
    there = [(b"k", b"one"), (b"k", b"twice"), (b"k", b"twice"), (None, b"\xff")]
    wanted = [("k", "one"), ("k", "twice"), (None, None), (None, b"\xff")]
    assert difference(made(there), wanted, any_order=False) == (
        "expected 4, found 4 (- missing, + unexpected):\n"
        "  'k': 'one'  at t[0] offset 0\n"
        "  'k': 'twice'  at t[0] offset 1\n"
        "- null: null\n"
        "+ 'k': 'twice'  at t[0] offset 2\n"
        "  null: b'\\xff'  at t[0] offset 3"
    )
    assert difference(made(there), ["one", "twice"], any_order=True) == (
        "expected 2, found 4 (- missing, + unexpected):\n+ 'twice'\n+ b'\\xff'"
    )


def test_only_equal_records_next_to_a_difference_are_shown():
    values = [b"%d" % number for number in range(1_000)]
    wanted = [*values[:300], b"expected", *values[301:600], *values[602:]]
    assert difference(made([(None, value) for value in values]), wanted, any_order=False).splitlines() == [
        "expected 998, found 1000 (- missing, + unexpected):",
        "  ... 297 equal records",
        *(f"  '{number}'  at t[0] offset {number}" for number in (297, 298, 299)),
        "- 'expected'",
        "+ '300'  at t[0] offset 300",
        *(f"  '{number}'  at t[0] offset {number}" for number in (301, 302, 303)),
        "  ... 293 equal records",
        *(f"  '{number}'  at t[0] offset {number}" for number in (597, 598, 599)),
        *(f"+ '{number}'  at t[0] offset {number}" for number in (600, 601)),
        *(f"  '{number}'  at t[0] offset {number}" for number in (602, 603, 604)),
        "  ... 395 equal records",
    ]


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_each_record_is_shown_or_counted_and_none_far_from_a_difference_is_shown(shared, there, wanted):
    left, right = (sorted({f"{number:02}".encode() for number in each | shared}) for each in (there, wanted))
    lines = (difference(of_values(left), right, any_order=False) or "").splitlines()[1:]
    hidden = [int(line.split()[1]) for line in lines if line.startswith("  ...")]
    shown = "".join(" " if line.startswith("  '") else "." if line.startswith("  ...") else line[0] for line in lines)
    if left == right:
        assert not lines
        return
    assert shown.count(" ") + sum(hidden) == len({*left} & {*right})
    assert min(hidden, default=2) > 1
    assert all(len(run.replace(".", "")) <= 2 * CONTEXT + 1 for run in re.split("[-+]+", shown))


def test_differences_are_bounded():
    lines = difference(made([(None, b"x" * 10_000)] * 1_000), [], any_order=False).splitlines()
    assert len(lines) == LINES_MAX + 2
    assert lines[-1] == f"  ... and {1_000 - LINES_MAX} lines more"
    assert max(map(len, lines)) < CHARACTERS_MAX + 100


@pytest.mark.parametrize("expected", [["v", ("k", "v")], [("k", "v", "h")], [3], [("k", {})]])
def test_invalid_expectations_are_errors(expected):
    with EmbeddedBroker() as broker, pytest.raises(EmbeddedBrokerError, match=r"^assert_records: "):
        broker.assert_records("t", expected)


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_records_are_awaited_and_unexpected_ones_fail_the_assertion(mode):
    async def later():
        async with EmbeddedBroker(mode=mode) as broker, trio.open_nursery() as nursery:

            async def check():
                found = await broker.assert_records_async("t", ["one", "two"])
                assert [record.value for record in found] == [b"one", b"two"]

            nursery.start_soon(check)
            for value in ("one", "two"):
                await trio.sleep(0.02)
                broker.produce("t", value)

    trio.run(later)
    with EmbeddedBroker(mode=mode) as broker:
        assert broker.assert_records("t", []) == []
        broker.produce("t", "one", key="k")
        broker.assert_records("t", ["one"])
        broker.assert_records("t", [("k", b"one")], partition=0)
        with pytest.raises(AssertionError, match=r"^the topic 't' has unexpected records: expected 2, found 1"):
            broker.assert_records("t", ["one", "two"], timeout=0.1)
        with pytest.raises(AssertionError, match=r"\+ 'one'  at t\[0\] offset 0$"):
            broker.assert_records("t", [])
