"""The offsets of a commit, made ready in turns: which of them are refused for what they are, and the records of others.

Rules of this file: nothing is decided here. The group, or the transaction, decides about all of it in one turn after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.state.groups.commits import PartitionCommit, PreparedOffsets
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.wire.error import ErrorCode
from stages.request import TURN_COST

__all__ = ["ANSWERED_IN_A_TURN", "ANSWER_COST", "OffsetsToCommit", "offsets_to_commit", "partitions_of"]

OFFSET_COST = 6
"""What it costs to make one ready, about microseconds."""
ANSWER_COST = 1
"""And to make its answer."""
ANSWERED_IN_A_TURN = 200
"""Partitions that are answered in the turn that decides about them."""


class OffsetsToCommit(NamedTuple):
    """What is ready to be committed.

    Attributes:
        refusals: for each partition of the request why it is refused; None where it is not.
        partitions: of those that are not.
        prepared: the same.
    """

    refusals: list[ErrorCode | None]
    partitions: list[PartitionCommit]
    prepared: PreparedOffsets

    def codes(self, errors: Sequence[ErrorCode]) -> Iterator[ErrorCode]:
        """The error of each partition of the request, given those of the commit."""
        others = iter(errors)
        return (next(others) if refusal is None else refusal for refusal in self.refusals)


def offsets_to_commit(
    call: Call,
    wanted_topics: Sequence[Any],
    find: Callable[[], list[Topic | ErrorCode]],
    prepare: Callable[[], PreparedOffsets],
) -> Stepwise[OffsetsToCommit]:
    """Look at each partition, and prepare what may be committed.

    Offsets are stored with the ids of their topics: they are never those of the next topic of a name. Where topics have
    changed while others had their turns all of it is done anew; the request pays for that.

    Args:
        call: what is charged.
        wanted_topics: of the request.
        find: for each of them the topic as it is now, or why there is none.
        prepare: begins a commit.
    """
    while True:
        topics, prepared = find(), prepare()
        refusals: list[ErrorCode | None] = []
        partitions = []
        for topic, wanted in zip(topics, wanted_topics, strict=True):
            for it in wanted.partitions:
                if not isinstance(topic, Topic):
                    refusals.append(topic)
                elif it.partition_index not in range(topic.partitions):
                    refusals.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    commit = PartitionCommit(
                        topic.name,
                        it.partition_index,
                        it.committed_offset,
                        it.committed_leader_epoch,
                        it.committed_metadata,
                        topic.topic_id,
                    )
                    refusals.append(None)
                    partitions.append(commit)
                    prepared.add(commit)
                if call.spend(OFFSET_COST):
                    yield None
        if call.cost < TURN_COST or topics == find():
            return OffsetsToCommit(refusals, partitions, prepared)


def partitions_of(wanted_topics: Sequence[Any]) -> Iterator[Any]:
    """The partitions of a request, topic by topic."""
    return (partition for wanted in wanted_topics for partition in wanted.partitions)
