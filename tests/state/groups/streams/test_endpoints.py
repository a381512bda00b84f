"""Partitions by endpoint: the input partitions of the tasks that a member has."""

from pipeline_broker.state.groups.streams.endpoints import EndpointPartitions, endpoint_partitions
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredTopology, configure
from pipeline_broker.state.groups.streams.tasks import NO_TASKS, TaskId, Tasks, grouped
from pipeline_broker.state.groups.streams.topology import Subtopology, TopicInfo, Topology

TOPICS = {"lines": 3, "names": 1, "words": 3}
TOPOLOGY = configure(
    Topology(
        0,
        (
            Subtopology("0", ("names", "lines"), repartition_sink_topics=("words",)),
            Subtopology("1", repartition_source_topics=(TopicInfo("words", 0, 0),)),
        ),
    ),
    TOPICS.get,
)


def of(**roles):
    kinds = {kind: grouped(TaskId(*task) for task in roles.get(kind, ())) for kind in Tasks._fields}
    return endpoint_partitions(Tasks(**kinds), TOPOLOGY, TOPICS.get)


def test_a_task_reads_a_partition_of_each_topic_that_has_it():
    found = of(active=[("0", 0), ("0", 2), ("1", 1)], standby=[("1", 0)])
    active = (("lines", (0, 2)), ("names", (0,)), ("words", (1,)))
    assert found == EndpointPartitions(active, (("words", (0,)),))


def test_warm_ups_count_as_standbys():
    found = of(standby=[("1", 0)], warmup=[("1", 2), ("0", 1)])
    assert found == EndpointPartitions((), (("lines", (1,)), ("words", (0, 2))))


def test_tasks_of_an_unknown_subtopology_are_left_out():
    assert of(active=[("9", 0)]) == EndpointPartitions((), ())


def test_a_topology_that_is_not_ready_has_no_partitions():
    not_ready = ConfiguredTopology(0, None, (), None)
    assert endpoint_partitions(Tasks({"0": frozenset({0})}, {}, {}), not_ready, TOPICS.get) == EndpointPartitions(
        (), ()
    )


def test_a_member_without_tasks_has_no_partitions():
    assert endpoint_partitions(NO_TASKS, TOPOLOGY, TOPICS.get) == EndpointPartitions((), ())
