"""Preparation of offset commits in turns, for OffsetCommit and TxnOffsetCommit.

It validates partitions and encodes records. The group, or the transaction, then decides about all of them in one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pipeline_broker.apis.authorization import topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.commits import PartitionCommit, PreparedOffsets
from pipeline_broker.state.metadata_records import Topic
from stages.request import TURN_COST

__all__ = [
    "ANSWERED_IN_A_TURN",
    "ANSWER_COST",
    "OffsetsToCommit",
    "offsets_to_commit",
    "partitions_of",
    "topics_to_commit",
]

# Cost of preparing one offset, about microseconds.
OFFSET_COST = 6
# Cost of answering one offset, about microseconds.
ANSWER_COST = 1
# Partitions that are answered in the turn that decides about them.
ANSWERED_IN_A_TURN = 200


class OffsetsToCommit(NamedTuple):
    """The prepared offsets of a request, and the refusals of its other partitions.

    Attributes:
        refusals: the error of each partition of the request; None if the partition can be committed.
        partitions: the partitions that can be committed.
        prepared: the same partitions as records.
    """

    refusals: list[ErrorCode | None]
    partitions: list[PartitionCommit]
    prepared: PreparedOffsets

    def codes(self, errors: Sequence[ErrorCode]) -> Iterator[ErrorCode]:
        """Return the error of each partition, in the order of the request.

        Args:
            errors: results of the commit, one for each of `partitions`.
        """
        others = iter(errors)
        return (next(others) if refusal is None else refusal for refusal in self.refusals)


def offsets_to_commit(
    call: Call,
    wanted_topics: Sequence[Any],
    find: Callable[[], list[Topic | ErrorCode]],
    prepare: Callable[[], PreparedOffsets],
) -> Stepwise[OffsetsToCommit]:
    """Validate each partition of a request, and prepare the valid ones.

    Args:
        call: charged for the work.
        wanted_topics: topics of the request, with partitions and offsets.
        find: returns the current topic, or an error, for each of `wanted_topics`.
        prepare: begins an empty commit.

    Raises:
        ResponseTooLargeError: the request would cost more than REQUEST_COST_MAX.
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
        # Offsets are stored with topic ids, so that a new topic of the same name never inherits them. If topics changed
        # while other requests had their turns, the work is repeated and charged again.
        if call.cost < TURN_COST or topics == find():
            return OffsetsToCommit(refusals, partitions, prepared)


def topics_to_commit(call: Call, wanted_topics: Sequence[Any], *, by_id: bool) -> list[Topic | ErrorCode]:
    # For each part of the request its topic, or the error of its partitions.
    is_allowed = topics_allowed(call, AclOperation.READ)
    return [_find(call, wanted, is_allowed, by_id=by_id) for wanted in wanted_topics]


def _find(call: Call, wanted: Any, is_allowed: Callable[[str], bool], *, by_id: bool) -> Topic | ErrorCode:
    topics = call.broker.topics
    topic = topics.by_id(wanted.topic_id) if by_id else topics.get(wanted.name)
    if topic is None and by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not is_allowed(wanted.name if topic is None else topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return topic or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def partitions_of(wanted_topics: Sequence[Any]) -> Iterator[Any]:
    return (partition for wanted in wanted_topics for partition in wanted.partitions)
