"""The topology that the members of a streams group run, as they send it."""

from __future__ import annotations

from typing import NamedTuple

from pipeline_broker.base.error_code import ErrorCode

__all__ = ["CopartitionGroup", "Subtopology", "TopicInfo", "Topology", "TopologyError", "check_topology"]

SUBTOPOLOGIES_MAX = 500
"""Maximum number of subtopologies of a group."""
NAMES_MAX = 5_000
"""Maximum number of topics and of copartitioned topics that the subtopologies of a group list."""


class TopologyError(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class TopicInfo(NamedTuple):
    """An internal topic.

    Attributes:
        partitions: 0 lets the coordinator decide.
        replication_factor: in a sent topology, 0 means the broker's default.
        configs: pairs of name and value.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    # Topics that need equal partition counts, as indexes into the lists of their subtopology.
    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(NamedTuple):
    """A connected part of a topology. One task processes one partition of all its sources."""

    id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


class Topology(NamedTuple):
    epoch: int
    subtopologies: tuple[Subtopology, ...]

    @property
    def required_topics(self) -> frozenset[str]:
        return frozenset(
            name
            for part in self.subtopologies
            for name in (
                *part.source_topics,
                *(topic.name for topic in part.repartition_source_topics),
                *(topic.name for topic in part.state_changelog_topics),
            )
        )


def check_topology(topology: Topology) -> None:
    """Check the topology of a member that joins.

    Raises:
        TopologyError: the topology contradicts itself, or needs an unsupported feature.
    """
    if any(part.source_topic_regex for part in topology.subtopologies):
        raise TopologyError(ErrorCode.INVALID_REQUEST, "Regular expressions for source topics are not supported yet.")
    _check_size(topology)
    for part in topology.subtopologies:
        for topic in part.state_changelog_topics:
            if topic.partitions:
                raise _invalid(
                    f"Changelog topic {topic.name} must have an undefined partition count, "
                    f"but it is set to {topic.partitions}."
                )
    # Kafka answers UNKNOWN_SERVER_ERROR to the following three.
    if topology.epoch < 0:
        raise _invalid("Topology epoch must be non-negative.")
    if len({part.id for part in topology.subtopologies}) < len(topology.subtopologies):
        raise _invalid("Each subtopology needs an id of its own.")
    for part in topology.subtopologies:
        for group in part.copartition_groups:
            _check_indexes(part.id, group.source_topics, len(part.source_topics))
            _check_indexes(part.id, group.repartition_source_topics, len(part.repartition_source_topics))


def _check_size(topology: Topology) -> None:
    for count, names, limit in (
        (len(topology.subtopologies), "subtopologies", SUBTOPOLOGIES_MAX),
        (sum(map(_names, topology.subtopologies)), "names of topics", NAMES_MAX),
    ):
        if count > limit:
            raise _invalid(f"The topology has {count} {names}, but {limit} is the maximum.")


def _names(part: Subtopology) -> int:
    lists = (
        part.source_topics,
        part.repartition_sink_topics,
        part.repartition_source_topics,
        part.state_changelog_topics,
        *(group.source_topics for group in part.copartition_groups),
        *(group.repartition_source_topics for group in part.copartition_groups),
    )
    return sum(map(len, lists)) + len(part.copartition_groups)


def _check_indexes(subtopology_id: str, indexes: tuple[int, ...], count: int) -> None:
    for index in indexes:
        if not 0 <= index < count:
            raise _invalid(f"A copartition group of subtopology {subtopology_id} names topic {index} of {count}.")


def _invalid(message: str) -> TopologyError:
    return TopologyError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
