"""Differences between the records of a topic and the expected ones."""

from collections import Counter

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.record_assertion import CHARACTERS_MAX, LINES_MAX, difference
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
