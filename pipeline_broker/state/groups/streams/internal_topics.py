"""Numbers of partitions and tasks of a topology, and the internal topics to create.

1. A repartition topic gets as many partitions as the largest source of the subtopologies that write to it.
2. Copartitioned topics get equal numbers.
3. A changelog topic gets one partition for each task.

Counterpart in Kafka: `InternalTopicManager`, `RepartitionTopics`, `CopartitionedTopicsEnforcer`, `ChangelogTopics`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.streams.topology import Subtopology, TopicInfo, Topology, TopologyError

__all__ = [
    "ConfiguredSubtopology",
    "ConfiguredTopology",
    "PartitionsOf",
    "StreamsStatus",
    "TopologyProblem",
    "configure",
    "topic_names",
]

PartitionsOf: TypeAlias = Callable[[str], int | None]
"""Returns the number of partitions of an existing topic, or None."""
TASKS_MAX = 5_000
"""Maximum number of tasks of a topology, which are assigned in one turn."""
NAMES_SHOWN_MAX = 3
DEFAULT_REPLICATION_FACTOR = -1


class StreamsStatus(IntEnum):
    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class TopologyProblem(NamedTuple):
    status: StreamsStatus
    detail: str


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with decided partition counts.

    Attributes:
        tasks: the number of its tasks, the partition count of its largest source.
    """

    id: str
    tasks: int
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[TopicInfo, ...]
    state_changelog_topics: tuple[TopicInfo, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.state_changelog_topics)

    @property
    def input_topics(self) -> frozenset[str]:
        return frozenset(self.source_topics).union(topic.name for topic in self.repartition_source_topics)


def topic_names(parts: Iterable[Subtopology | ConfiguredSubtopology]) -> dict[str, None]:
    # Each name once, in the order of the subtopologies.
    return dict.fromkeys(
        name
        for part in parts
        for name in (
            *part.source_topics,
            *part.repartition_sink_topics,
            *(topic.name for topic in part.repartition_source_topics),
            *(topic.name for topic in part.state_changelog_topics),
        )
    )


class ConfiguredTopology(NamedTuple):
    """A topology on the existing topics.

    Attributes:
        subtopologies: ordered by id; None if sources are missing or topics are incorrectly partitioned.
        topics_to_create: missing internal topics; a replication factor of -1 means the broker's default.
        problem: None if the tasks can be assigned.
    """

    epoch: int
    subtopologies: tuple[ConfiguredSubtopology, ...] | None
    topics_to_create: tuple[TopicInfo, ...]
    problem: TopologyProblem | None


class _ProblemError(Exception):
    def __init__(self, status: StreamsStatus, detail: str) -> None:
        super().__init__(detail)
        self.problem = TopologyProblem(status, detail)


def configure(topology: Topology, partitions_of: PartitionsOf) -> ConfiguredTopology:
    """Decide the partition counts of all internal topics.

    Raises:
        TopologyError: the counts cannot be decided, whatever topics exist.
    """
    try:
        _require_source_topics(topology, partitions_of)
        counts = _Counts(partitions_of)
        _decide_repartition_topics(topology.subtopologies, counts)
        _equalize_copartitioned_topics(topology.subtopologies, counts)
        _decide_changelog_topics(topology.subtopologies, counts)
        configured = sorted(_configured(part, counts) for part in topology.subtopologies)
        _check_task_count(sum(part.tasks for part in configured))
        missing = _missing_topics(configured, partitions_of)
    except _ProblemError as error:
        return ConfiguredTopology(topology.epoch, None, (), error.problem)
    problem = None
    if missing:
        detail = f"Internal topics are missing: {_summary([topic.name for topic in missing])}"
        problem = TopologyProblem(StreamsStatus.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, tuple(configured), missing, problem)


class _Counts:
    def __init__(self, partitions_of: PartitionsOf) -> None:
        self._partitions_of = partitions_of
        self.decided: dict[str, int] = {}

    def get(self, topic: str) -> int | None:
        # An existing topic keeps its count, as in Kafka; `_missing_topics` compares it with the decided one.
        existing = self._partitions_of(topic)
        return self.decided.get(topic) if existing is None else existing

    def __getitem__(self, topic: str) -> int:
        return _known(topic, self.get(topic))

    def decided_for(self, topic: str) -> int:
        return _known(topic, self.decided.get(topic))


def _known(topic: str, count: int | None) -> int:
    if count is None:
        raise _invalid(f"Number of partitions is not set for topic: {topic}")
    return count


def _require_source_topics(topology: Topology, partitions_of: PartitionsOf) -> None:
    missing = {topic for part in topology.subtopologies for topic in part.source_topics if partitions_of(topic) is None}
    if missing:
        raise _ProblemError(
            StreamsStatus.MISSING_SOURCE_TOPICS, f"Source topics {_summary(sorted(missing))} are missing."
        )


def _decide_repartition_topics(subtopologies: Collection[Subtopology], counts: _Counts) -> None:
    decided = counts.decided
    repartition_topics = [topic for part in subtopologies for topic in part.repartition_source_topics]
    decided.update((topic.name, topic.partitions) for topic in repartition_topics if topic.partitions)
    undecided = list(subtopologies)
    while undecided := [
        part for part in undecided if any(name not in decided for name in part.repartition_sink_topics)
    ]:
        before = len(decided)
        for part in undecided:
            count = _largest_known_source(part, counts)
            for name in part.repartition_sink_topics:
                if count is not None:
                    decided.setdefault(name, count)
        if len(decided) == before:
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. "
                "There may be loops in the topology that cannot be resolved."
            )
    if any(topic.name not in decided for topic in repartition_topics):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, "
            "because a repartition source topic is never used as a sink topic."
        )


def _largest_known_source(part: Subtopology, counts: _Counts) -> int | None:
    # Other sources may be undecided still, as in Kafka: its clients order subtopologies along the stream.
    found = [counts.decided.get(topic.name) for topic in part.repartition_source_topics]
    found += [counts.get(topic) for topic in part.source_topics]
    return max((count for count in found if count is not None), default=None)


def _equalize_copartitioned_topics(subtopologies: Collection[Subtopology], counts: _Counts) -> None:
    topics = [topic for part in subtopologies for topic in part.repartition_source_topics]
    fixed = {topic.name: counts[topic.name] for topic in topics if topic.partitions}
    flexible = {topic.name for topic in topics if not topic.partitions}
    for part in subtopologies:
        for group in part.copartition_groups:
            names = {part.source_topics[index] for index in group.source_topics}
            names |= {part.repartition_source_topics[index].name for index in group.repartition_source_topics}
            if names:
                _equalize(names, fixed, flexible, counts)


def _equalize(names: Collection[str], fixed: Mapping[str, int], flexible: Collection[str], counts: _Counts) -> None:
    repartition = {name: counts[name] for name in sorted(names) if name in fixed or name in flexible}
    external = {name: counts[name] for name in sorted(names) if name not in repartition}
    if external:
        wanted = _same_count(external, external)
    elif fixed:
        wanted = _same_count(fixed, repartition)  # fixed ones of all groups, as in Kafka
    else:
        wanted = max(repartition.values())
    for name, count in repartition.items():
        if name in fixed and count != wanted:
            raise _incorrectly_partitioned(
                f"Number of partitions [{count}] of repartition topic [{name}] "
                f"doesn't match number of partitions [{wanted}] of the source topic."
            )
        counts.decided[name] = wanted


def _same_count(compared: Mapping[str, int], shown: Mapping[str, int]) -> int:
    if len(set(compared.values())) > 1:
        pairs = ", ".join(f"{name}={count}" for name, count in shown.items())
        raise _incorrectly_partitioned(f"Following topics do not have the same number of partitions: [{{{pairs}}}]")
    return next(iter(compared.values()))


def _decide_changelog_topics(subtopologies: Collection[Subtopology], counts: _Counts) -> None:
    for part in subtopologies:
        tasks = _task_count(part, counts)
        counts.decided.update((topic.name, tasks) for topic in part.state_changelog_topics)


def _task_count(part: Subtopology, counts: _Counts) -> int:
    sources = [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
    if not sources:
        raise _invalid(f"No source topics found for subtopology {part.id}")
    return max(counts[topic] for topic in sources)


def _configured(part: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        part.id,
        _task_count(part, counts),
        part.source_topics,
        part.repartition_sink_topics,
        _with_counts(part.repartition_source_topics, counts),
        _with_counts(part.state_changelog_topics, counts),
    )


def _with_counts(topics: Collection[TopicInfo], counts: _Counts) -> tuple[TopicInfo, ...]:
    return tuple(topic._replace(partitions=topic.partitions or counts.decided_for(topic.name)) for topic in topics)


def _check_task_count(tasks: int) -> None:
    if tasks > TASKS_MAX:
        raise _invalid(f"The topology has {tasks} tasks, but {TASKS_MAX} is the maximum.")


def _missing_topics(
    subtopologies: Collection[ConfiguredSubtopology], partitions_of: PartitionsOf
) -> tuple[TopicInfo, ...]:
    wanted = {
        topic.name: topic
        for part in subtopologies
        for topic in (*part.repartition_source_topics, *part.state_changelog_topics)
    }
    missing = []
    for name, topic in sorted(wanted.items()):
        found = partitions_of(name)
        if found is None:
            replication_factor = topic.replication_factor or DEFAULT_REPLICATION_FACTOR
            missing.append(topic._replace(replication_factor=replication_factor))
        elif found != topic.partitions:
            raise _incorrectly_partitioned(
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, found {found}"
            )
    return tuple(missing)


def _summary(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN_MAX
    return ", ".join(names[:NAMES_SHOWN_MAX]) + (f" and {more} additional topics" if more > 0 else "")


def _incorrectly_partitioned(detail: str) -> _ProblemError:
    return _ProblemError(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, detail)


def _invalid(message: str) -> TopologyError:
    return TopologyError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
