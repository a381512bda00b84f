"""All refusals are counted, and a bounded number is shown one by one, whatever names untrusted clients choose."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.security.refusals import ROWS_OF_SOURCE_MAX, SOURCES_MAX, TEXT_CHARS_MAX, Refusal, Refusals

PLAIN = ("SASL", "PLAIN")
HOME = ("10.0.0.1",)
ROWS_MAX = SOURCES_MAX * (ROWS_OF_SOURCE_MAX + 1)


def ticking():
    """Return refusals with a clock that advances at each reading."""
    return Refusals(count(1).__next__)


def row(name, times, last_ms, *, kind=PLAIN, source=HOME, reason=""):
    return Refusal(kind=kind, source=source, name=name, count=times, last_ms=last_ms, reason=reason)


def test_equal_refusals_are_one_row_with_the_latest_time_and_reason():
    refusals = ticking()
    refusals.add(PLAIN, HOME, "alice", "no such user")
    refusals.add(PLAIN, HOME, "bob", "wrong")
    refusals.add(PLAIN, HOME, "alice", "wrong")
    refusals.add(("SASL", "TLS"), HOME, "alice")

    assert refusals.newest() == [
        row("alice", 1, 4, kind=("SASL", "TLS")),
        row("alice", 2, 3, reason="wrong"),
        row("bob", 1, 2, reason="wrong"),
    ]
    assert refusals.by_kind == {PLAIN: 3, ("SASL", "TLS"): 1}


def test_expected_kinds_are_counted_from_zero_and_keep_their_counts():
    refusals = ticking()
    refusals.add(PLAIN, HOME, "alice")
    refusals.expect([PLAIN, ("SASL", "OAUTHBEARER")])
    assert refusals.by_kind == {PLAIN: 1, ("SASL", "OAUTHBEARER"): 0}
    assert list(refusals.by_kind) == [PLAIN, ("SASL", "OAUTHBEARER")]


def test_a_source_that_tries_many_names_takes_a_few_rows_and_leaves_those_of_others():
    refusals = ticking()
    refusals.add(PLAIN, ("10.0.0.9",), "alice")
    for number in range(1000):
        refusals.add(PLAIN, HOME, f"name-{number}")

    *named, older, other = refusals.newest()
    assert [each.name for each in named] == [f"name-{number}" for number in range(999, 994, -1)]
    assert older == Refusal(kind=None, source=HOME, count=995, last_ms=996)
    assert other == row("alice", 1, 1, source=("10.0.0.9",))
    assert refusals.left_out == 0


def test_beyond_the_bound_the_source_refused_longest_ago_is_dropped_and_counted():
    refusals = ticking()
    for _ in range(3):
        refusals.add(PLAIN, ("first",), "")
    refusals.add(PLAIN, ("second",), "")
    for number in range(SOURCES_MAX - 1):
        refusals.add(PLAIN, (str(number),), "")

    assert refusals.left_out == 3
    assert refusals.newest()[-1].source == ("second",)


def test_a_dropped_source_counts_its_older_names_too():
    refusals, names = ticking(), ROWS_OF_SOURCE_MAX + 2
    for number in range(names):
        refusals.add(PLAIN, HOME, f"name-{number}")
    for number in range(SOURCES_MAX):
        refusals.add(PLAIN, (str(number),), "")

    assert refusals.left_out == names


def test_a_source_that_is_refused_again_becomes_the_newest():
    refusals = ticking()
    for number in range(SOURCES_MAX):
        refusals.add(PLAIN, (str(number),), "")
    refusals.add(PLAIN, ("0",), "")
    refusals.add(PLAIN, ("new",), "")

    assert {each.source for each in refusals.newest()} == {(str(number),) for number in range(SOURCES_MAX)} - {
        ("1",)
    } | {("new",)}


def test_long_texts_are_cut_and_names_that_begin_alike_are_one():
    refusals = ticking()
    for last in "ab":
        refusals.add(PLAIN, HOME, "n" * TEXT_CHARS_MAX + last, "r" * (TEXT_CHARS_MAX + 1))

    assert refusals.newest() == [row("n" * TEXT_CHARS_MAX, 2, 2, reason="r" * TEXT_CHARS_MAX)]


@given(st.lists(st.tuples(st.integers(0, SOURCES_MAX + 20), st.integers(0, 12), st.integers(0, 2)), max_size=600))
def test_rows_are_bounded_and_add_up_with_the_left_out_ones(tried):
    refusals = ticking()
    for source, name, kind in tried:
        refusals.add(("SASL", str(kind)), (str(source),), str(name))
        assert refusals.newest()[0].source == (str(source),)
    rows = refusals.newest()

    assert sum(each.count for each in rows) + refusals.left_out == refusals.by_kind.total() == len(tried)
    assert len(rows) <= ROWS_MAX
    assert [each.last_ms for each in rows] == sorted((each.last_ms for each in rows), reverse=True)
    last_of = {(str(source),): at for at, (source, *_) in enumerate(tried, 1)}
    kept = sorted(last_of, key=last_of.__getitem__)[-SOURCES_MAX:]
    assert {each.source for each in rows} == set(kept)
