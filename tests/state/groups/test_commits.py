"""Commits as values: what is prepared of them."""

from __future__ import annotations

import attrs

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit, prepare
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.groups.settings import GroupSettings


def test_what_was_prepared_before_is_committed_as_it_was_then() -> None:
    request = CommitRequest(group_id="g", partitions=[PartitionCommit(topic="t", partition=0, offset=5)])
    prepared = prepare(request, GroupSettings(), 1)
    for given, time_ms in ((None, 2), (prepared, 1)):
        result = GroupCoordinator(GroupSettings()).commit(attrs.evolve(request, prepared=given), 2)
        ((_, committed),) = result.write.change.changes
        assert committed.commit_timestamp_ms == time_ms


def test_what_is_prepared_of_a_commit_is_all_its_records_as_they_are_written() -> None:
    partitions = [PartitionCommit(topic="t", partition=number, offset=5) for number in (0, 1)]
    prepared = prepare(CommitRequest(group_id="g", partitions=partitions), GroupSettings(), 1)
    assert len(prepared.records) == 2
    assert build_batch(prepared.body) == build_batch([NewRecord(it.value, it.key, 1) for it in prepared.records])
