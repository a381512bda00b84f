"""Preparation of commits."""

from __future__ import annotations

import attrs

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit, prepare
from pipeline_broker.state.groups.coordinator import GroupCoordinator


def test_prepared_offsets_are_committed_unchanged() -> None:
    request = CommitRequest(group_id="g", partitions=[PartitionCommit(topic="t", partition=0, offset=5)])
    prepared = prepare(request, BrokerConfig(), 1)
    for given, time_ms in ((None, 2), (prepared, 1)):
        result = GroupCoordinator(BrokerConfig()).commit(attrs.evolve(request, prepared=given), 2)
        ((_, committed),) = result.write.change.changes
        assert committed.commit_timestamp_ms == time_ms


def test_prepared_records_equal_the_written_ones() -> None:
    partitions = [PartitionCommit(topic="t", partition=number, offset=5) for number in (0, 1)]
    prepared = prepare(CommitRequest(group_id="g", partitions=partitions), BrokerConfig(), 1)
    assert len(prepared.records) == 2
    assert build_batch(prepared.body) == build_batch([NewRecord(it.value, it.key, 1) for it in prepared.records])
