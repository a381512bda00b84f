"""The check of partitions whose records may go sees each kind of lie, and accepts what may be true."""

import attrs
import pytest

from tests.crashes.kept import COMPACTED, DELETED, RETAINED, Found, Held, KeptPartition

KEYS = (b"a", b"b", b"a", b"b", b"a")
TOMBSTONE = 3


def told(policy, *, unanswered=()):
    """A partition with five records at the offsets 0 to 4; record 3 is a tombstone."""
    kept = KeptPartition("topic", 0, policy)
    for number, key in enumerate(KEYS):
        assert kept.send(key, None if number == TOMBSTONE else b"value %d" % number) == number
        if number not in unanswered:
            kept.acknowledged[number] = number
    return kept


def held(numbers=range(5), start=0, end=5):
    records = [
        Found(number, number, KEYS[number], None if number == TOMBSTONE else b"value %d" % number) for number in numbers
    ]
    return Held(start, start, end, records)


@pytest.mark.parametrize(
    ("policy", "contents"),
    [
        (DELETED, held()),
        (COMPACTED, held()),
        (RETAINED, held([3, 4], start=3)),
        (RETAINED, held([], start=5)),
        (RETAINED, attrs.evolve(held([1, 2, 3, 4], start=1), start_after=3)),
        (COMPACTED, held([3, 4])),
        (COMPACTED, held([4])),  # the tombstone is gone, and all that it deleted
        (COMPACTED, held([0, 1, 2, 3, 4])),
    ],
)
def test_the_truth_is_accepted(policy, contents):
    assert told(policy).violations(contents) == []


@pytest.mark.parametrize("numbers", [range(4), range(5)])
def test_what_got_no_answer_may_be_there_or_not(numbers):
    assert told(DELETED, unanswered=[4]).violations(held(numbers, end=len(numbers))) == []


def test_what_delete_records_asked_for_may_be_gone_and_must_be_once_it_was_acknowledged():
    kept = told(DELETED)
    kept.send_start(2)
    assert kept.violations(held()) == []
    assert kept.violations(held([2, 3, 4], start=2)) == []
    kept.acknowledge_start(2)
    (found,) = kept.violations(held())
    assert "but was at 2 before" in found


@pytest.mark.parametrize(
    ("policy", "contents", "text"),
    [
        (DELETED, held(range(4), end=4), "is not behind the last acknowledged"),
        (DELETED, held([0, 1, 3, 4]), "have gaps"),
        (DELETED, held([0, 1, 3, 4]), "record 2 with key b'a' was acknowledged at offset 2, and it is not there"),
        (DELETED, held([3, 4], start=3), "nobody asked for more than 0"),
        (RETAINED, attrs.evolve(held(), start_after=-1), "the log starts at 0, then -1"),
        (COMPACTED, held([1, 3]), "record 4 with key b'a'"),
        (COMPACTED, held([1, 4]), "record 3 with key b'b'"),  # the tombstone went, and what it deleted is there
        (DELETED, attrs.evolve(held(), records=[*held().records[:4], Found(4, 4, b"a", b"other")]), "nobody sent"),
        (DELETED, attrs.evolve(held(), records=[*held().records[:4], Found(4, 9, b"a", b"value")]), "nobody sent"),
        (DELETED, attrs.evolve(held([1, 0, 2, 3, 4])), "behind"),
        (
            DELETED,
            attrs.evolve(held(), end=6, records=[*held().records, attrs.evolve(held().records[4], offset=5)]),
            "was acknowledged at offset 4 and is at 5",
        ),
    ],
)
def test_a_lie_is_seen(policy, contents, text):
    found = told(policy).violations(contents)
    assert any(text in violation for violation in found), found


def test_a_start_that_was_seen_does_not_fall():
    kept = told(RETAINED)
    assert kept.violations(held([3, 4], start=3)) == []
    assert any("but was at 3 before" in text for text in kept.violations(held([2, 3, 4], start=2)))


def test_an_offset_that_was_given_twice_is_seen():
    kept = told(DELETED)
    kept.acknowledged[3] = 4
    assert any("given to two records" in text for text in kept.violations(held()))


def test_what_was_forgotten_is_not_missed_and_the_rest_is():
    kept = told(RETAINED)
    assert kept.violations(held([3, 4], start=3)) == []
    kept.forget()
    assert set(kept.sent) == set(kept.acknowledged) == {3, 4}
    assert kept.violations(held([3, 4], start=3)) == []
    assert any("record 3" in text for text in kept.violations(held([4], start=3)))
