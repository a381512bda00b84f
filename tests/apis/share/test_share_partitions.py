"""The choice and order of partitions in a ShareFetch."""

from __future__ import annotations

from pipeline_broker.apis.share import share_fetch
from pipeline_broker.apis.share.share_reading import Reading, read_partition
from pipeline_broker.log.read_result import ColdRead
from stages.request import Parked
from tests.apis.share.share_desk import ShareDesk


def partitions_with_records(answer):
    return [data.partition_index for topic in answer.responses for data in topic.partitions if data.acquired_records]


def test_many_partitions_take_turns():
    """With a limit of records, each fetch begins with another partition."""
    desk = ShareDesk(partitions=3)
    desk.reset("earliest")
    desk.heartbeat()
    desk.fetch(0, [0, 1, 2])
    for partition in range(3):
        for _ in range(5):
            desk.produce(1, partition)
    first = []
    for epoch in range(1, 4):
        first += partitions_with_records(desk.fetch(epoch, max_records=1))
    assert sorted(first) == [0, 1, 2]


def two_partitions(monkeypatch, read):
    """A member with a session of two partitions with two records each; `read` replaces the reading of logs."""
    desk = ShareDesk(partitions=2)
    desk.reset("earliest")
    desk.heartbeat()
    desk.fetch(0, [0, 1])
    for partition in (0, 1):
        desk.produce(2, partition)
    monkeypatch.setattr(share_fetch, "read_partition", read)
    return desk


def test_partitions_after_the_record_limit_are_not_read(monkeypatch):
    asked = []

    def noting(active, *arguments, **more):
        asked.append(active.key.partition)
        return read_partition(active, *arguments, **more)

    desk = two_partitions(monkeypatch, noting)
    first = partitions_with_records(desk.fetch(1, max_records=2))
    assert asked == first
    assert partitions_with_records(desk.fetch(2, max_records=3)) == [1 - first[0]]


def test_records_in_memory_do_not_wait_for_the_disk(monkeypatch):
    """A first partition that needs the disk delays those after it."""

    def second_is_cold(active, offset, *arguments, **more):
        found = read_partition(active, offset, *arguments, **more)
        if active.key.partition == 0:
            return found
        reading = Reading(active, offset)
        reading.cold = ColdRead(lambda: setattr(reading, "parts", found.parts), 100)
        return reading

    desk = two_partitions(monkeypatch, second_is_cold)
    assert partitions_with_records(desk.fetch(1)) == [0], "the first one this time"
    desk.produce(1, 0)
    request = desk.fetch_request(2)
    waits = desk.desk.decide(request, 2)
    assert isinstance(waits, Parked)
    assert sorted(partitions_with_records(desk.desk.finish(request, 2, waits))) == [0, 1]
