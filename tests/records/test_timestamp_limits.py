"""Timestamps at the limits of 64 bits: those that fit are kept; a record whose sum overflows is refused."""

import pytest

from pipeline_broker.records.batch import HEADER, HEADER_SIZE, NewRecord, assembled, build_batch, read_header
from pipeline_broker.records.check import Rules, check_batch
from pipeline_broker.records.errors import InvalidTimestamp
from pipeline_broker.records.record import iterate_records

NOW_MS = 1_763_900_000_000
INT64_MAX = 2**63 - 1
UNLIMITED = Rules(timestamp_before_max_ms=INT64_MAX, timestamp_after_max_ms=INT64_MAX)


def batch(base, *deltas):
    """Return records with these deltas from `base`, and the max timestamp that a client may write."""
    built = build_batch([NewRecord(b"v", b"k", delta) for delta in (0, *deltas)])
    header = read_header(built)
    return assembled(header._replace(base_timestamp=base, max_timestamp=min(base, INT64_MAX)), built[HEADER_SIZE:])[1]


@pytest.mark.parametrize("rules", [UNLIMITED, Rules()])
def test_a_sum_beyond_the_largest_timestamp_is_an_invalid_timestamp_of_that_record(rules):
    with pytest.raises(InvalidTimestamp) as refused:
        check_batch(batch(2**62, 2**62), NOW_MS, rules)
    assert 1 in dict(refused.value.record_errors)


def test_where_every_timestamp_is_allowed_the_largest_one_is():
    produced = batch(2**62, 2**62 - 1)
    header = check_batch(produced, NOW_MS, UNLIMITED)
    stored = HEADER.pack(*header) + produced[HEADER_SIZE:]
    assert header.max_timestamp == INT64_MAX
    assert [record.timestamp for record in iterate_records(stored)] == [2**62, INT64_MAX]
