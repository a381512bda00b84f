"""Partitions that a change of a topic adds or deletes."""

import pytest

from pipeline_broker.base.steps import finished
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.placed_partitions import OneBroker, PlacedPartitions

T2, T5, OTHER = Topic("t", b"a" * 16, 2), Topic("t", b"a" * 16, 5), Topic("t", b"b" * 16, 5)


@pytest.mark.parametrize(
    ("before", "after", "numbers"),
    [(None, T5, range(5)), (T2, T5, range(2, 5)), (T5, None, range(5)), (T5, T5, range(0))],
)
def test_a_change_adds_or_deletes_partitions_and_only_it_may_use_them(before, after, numbers):
    placed = PlacedPartitions.of(before, after)
    assert placed.numbers == numbers
    assert placed.is_of(before, after)
    assert not any(placed.is_of(*change) for change in ((None, OTHER), (T2, OTHER), (OTHER, None), (None, T2)))


def test_one_broker_leads_all_partitions_and_writes_no_records_about_them():
    placed = finished(OneBroker(7).place(T2, T5, ()))
    finished(placed.encode(0))
    assert (list(placed.led_by(7)), placed.records, placed.body) == ([2, 3, 4], [], None)
