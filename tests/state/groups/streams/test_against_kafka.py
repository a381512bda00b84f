"""Apache Kafka's assignor and topic manager of streams groups decide the same; needs Java and Kafka's jars.

Kafka takes processes and members of equal load in the order of Java's heap. For this comparison our assignor takes them
in that order too, so that assignments are equal task by task.
"""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.state.groups.streams.assignors import sticky
from pipeline_broker.state.groups.streams.internal_topics import configure
from pipeline_broker.state.groups.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
    TopologyError,
)
from tests.compiled import skip_if_compiled
from tests.conftest import EXAMPLES
from tests.drawn import drawn, measured
from tests.kafka_tools import class_path, java_command, require_kafka
from tests.state.groups.streams.groups import groups

PROGRAM = Path(__file__).with_name("StreamsOracle.java")
COMPARED = settings(max_examples=EXAMPLES or 300)


class JavaHeap:
    """`java.util.PriorityQueue`, ordered by load alone."""

    def __init__(self, items):
        self._items = []
        for item in items:
            self.push(item)

    def __bool__(self):
        return bool(self._items)

    def push(self, item):
        items, index = self._items, len(self._items)
        items.append(item)
        while index and item.load < items[(index - 1) // 2].load:
            items[index] = items[(index - 1) // 2]
            index = (index - 1) // 2
        items[index] = item

    def pop(self):
        items = self._items
        first, item, index = items[0], items.pop(), 0
        if items:
            while (child := 2 * index + 1) < len(items):
                if child + 1 < len(items) and items[child].load > items[child + 1].load:
                    child += 1
                if item.load <= items[child].load:
                    break
                items[index] = items[child]
                index = child
            items[index] = item
        return first


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    """Answers a question about a group."""
    require_kafka("javac")
    command = [*java_command(tmp_path_factory.mktemp("kafka")), "-cp", class_path(), str(PROGRAM)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(question):
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield ask
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


def listed(tasks):
    return {part: sorted(numbers) for part, numbers in tasks.items()}


def question_of(members, parts, configs):
    return {
        "standbys": configs.standby_replicas,
        "subtopologies": {part.id: {"tasks": part.tasks, "stateful": part.is_stateful} for part in parts.subtopologies},
        "members": {
            member_id: {
                "process": member.process_id,
                "active": listed(member.assigned.active),
                "standby": listed(member.assigned.standby),
                "warmup": listed(member.assigned.warmup),
                "offsets": member.task_offsets,
            }
            for member_id, member in members.items()
        },
    }


@measured(standbys=0.2, members=0.5)
@COMPARED
@given(group=groups())
def test_tasks_are_assigned_to_the_same_members(kafka, group):
    skip_if_compiled(sticky.__name__, "ByLoad")
    theirs = kafka(question_of(*group))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sticky, "ByLoad", JavaHeap)
        ours = sticky.assign_sticky(*group)
    found = {name: {role: listed(given[role]) for role in ("active", "standby")} for name, given in theirs.items()}
    assert found == {
        name: {"active": listed(given.active), "standby": listed(given.standby)} for name, given in ours.items()
    }
    drawn("standbys", any(given.standby for given in ours.values()))
    drawn("members", len(ours) > 1)


SOURCES = ("a", "b", "c")
REPARTITIONS = ("r", "s", "t")


@st.composite
def sent_topologies(draw):
    """Draw a topology in which sources, sinks and changelogs are often those that it needs, and the existing topics."""
    small, names = st.integers(1, 3), st.sampled_from(REPARTITIONS)
    fixed = {name: draw(st.sampled_from([0, 0, 0, 2, 3])) for name in REPARTITIONS}
    parts = []
    for index in range(draw(small)):
        sources = draw(st.lists(st.sampled_from(SOURCES), unique=True, max_size=2))
        repartitions = draw(st.lists(names, unique=True, max_size=2))
        sinks = draw(st.lists(names, unique=True, max_size=2))
        changelogs = [f"log-{index}"] * draw(st.integers(0, 1))
        groups_of_part = draw(st.integers(0, 1)) and [
            CopartitionGroup(
                tuple(draw(st.sets(st.sampled_from(range(len(sources))))) if sources else ()),
                (),
                tuple(draw(st.sets(st.sampled_from(range(len(repartitions))))) if repartitions else ()),
            )
        ]
        parts.append(
            Subtopology(
                str(index),
                tuple(sources),
                (),
                tuple(sinks),
                tuple(TopicInfo(name, fixed[name], draw(st.sampled_from([0, 2]))) for name in repartitions),
                tuple(TopicInfo(name, 0, 0, (("cleanup.policy", "compact"),)) for name in changelogs),
                tuple(groups_of_part or ()),
            )
        )
    equal = draw(st.booleans())
    existing = {name: 2 if equal else draw(small) for name in SOURCES if draw(st.integers(0, 9))}
    for name in (*REPARTITIONS, "log-0", "log-1"):
        if not draw(st.integers(0, 3)):
            existing[name] = draw(small)
    return Topology(draw(small), tuple(parts)), existing


def wire(topology):
    """Return the JSON form of a heartbeat with the topology."""

    def topics(infos):
        return [
            {
                "name": topic.name,
                "partitions": topic.partitions,
                "replicationFactor": topic.replication_factor,
                "topicConfigs": [{"key": key, "value": value} for key, value in topic.configs],
            }
            for topic in infos
        ]

    subtopologies = [
        {
            "subtopologyId": part.id,
            "sourceTopics": part.source_topics,
            "sourceTopicRegex": [],
            "stateChangelogTopics": topics(part.state_changelog_topics),
            "repartitionSinkTopics": part.repartition_sink_topics,
            "repartitionSourceTopics": topics(part.repartition_source_topics),
            "copartitionGroups": [
                {
                    "sourceTopics": group.source_topics,
                    "sourceTopicRegex": [],
                    "repartitionSourceTopics": group.repartition_source_topics,
                }
                for group in part.copartition_groups
            ],
        }
        for part in topology.subtopologies
    ]
    empty = ("instanceId", "rackId", "activeTasks", "standbyTasks", "warmupTasks", "processId", "userEndpoint")
    return {
        "groupId": "g",
        "memberId": "m",
        "memberEpoch": 0,
        "endpointInformationEpoch": 0,
        "rebalanceTimeoutMs": 1000,
        "topology": {"epoch": topology.epoch, "subtopologies": subtopologies},
        "shutdownApplication": False,
        **dict.fromkeys((*empty, "clientTags", "taskOffsets", "taskEndOffsets")),
    }


def our_answer(topology, existing):
    try:
        found = configure(topology, existing.get)
    except TopologyError as error:
        return {"error": error.message}
    answer = {
        "create": {
            topic.name: {
                "partitions": topic.partitions,
                "replication_factor": topic.replication_factor,
                "configs": dict(topic.configs),
            }
            for topic in found.topics_to_create
        }
    }
    if found.problem:
        answer |= {"status": found.problem.status, "detail": found.problem.detail}
    if found.subtopologies is not None:
        answer["subtopologies"] = {
            part.id: {
                "tasks": part.tasks,
                "repartition": {topic.name: topic.partitions for topic in part.repartition_source_topics},
                "changelogs": {topic.name: topic.partitions for topic in part.state_changelog_topics},
            }
            for part in found.subtopologies
        }
    return answer


@measured(invalid=0.05, problem=0.1, ready=0.01, created=0.02)
@COMPARED
@given(sent=sent_topologies())
def test_topics_get_the_same_partitions(kafka, sent):
    topology, existing = sent
    theirs, ours = kafka({"heartbeat": wire(topology), "topics": existing}), our_answer(topology, existing)
    drawn("invalid", "error" in ours)
    drawn("problem", ours.get("status") in {1, 2})
    drawn("ready", "subtopologies" in ours and "status" not in ours)
    drawn("created", ours.get("create"))
    if "error" in theirs:
        assert "error" in ours, theirs
        if theirs["error"].startswith("StreamsInvalidTopologyException: "):
            assert theirs["error"].partition(": ")[2] == ours["error"]
    else:
        # Kafka names missing and contradictory topics in the order of a hash map, and three of them at most.
        assert theirs.pop("detail", "").split()[:2] == ours.pop("detail", "").split()[:2]
        assert theirs == ours
