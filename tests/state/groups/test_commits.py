"""Commits as values: what is prepared of them."""

from __future__ import annotations

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit, prepare
from pipeline_broker.state.groups.settings import GroupSettings


def test_what_is_prepared_of_a_commit_is_all_its_records_as_they_are_written() -> None:
    partitions = [PartitionCommit(topic="t", partition=number, offset=5) for number in (0, 1)]
    prepared = prepare(CommitRequest(group_id="g", partitions=partitions), GroupSettings(), 1)
    assert len(prepared.records) == 2
    assert build_batch(prepared.body) == build_batch([NewRecord(it.value, it.key, 1) for it in prepared.records])
