"""Kafka and both modes, started once: the tests of this folder are of one group, which runs in one worker."""

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import attrs
import pytest

from pipeline_broker.security.acl import CLUSTER_NAME, AclOperation, PatternType, PermissionType, ResourceType
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.security.create_acls import CreateAclsRequest
from pipeline_broker.wire.messages.security.delete_acls import DeleteAclsRequest
from pipeline_broker.wire.messages.share.read_share_group_state import ReadShareGroupStateRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.conftest import start_broker
from tests.differential.access_requests import HOSTS as DRAWN_HOSTS
from tests.differential.admin_requests import GROUPS
from tests.differential.coordinator_requests import WITHOUT_COORDINATORS
from tests.differential.data_requests import TOPICS
from tests.differential.marker_requests import MARKED_TOPICS
from tests.differential.oracle import CONTROL_HOST, GUEST_HOST, Side, Sides, running_kafka
from tests.differential.share_requests import GROUPS as SHARE_GROUPS
from tests.differential.share_requests import UNKNOWN_PARTITIONS, describe_unknown
from tests.kafka_tools import require_kafka

SETTINGS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
    "log.initial.task.delay.ms": "3600000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Access is controlled, and everybody may do everything until a test says otherwise. Files of deleted records stay:
when they would go is a matter of each side's own time."""
UNKNOWN_MEMBER = 25
TRANSACTION = 1
SHARE = 2
UNINITIALIZED = 42
PREPARE_SECONDS_MAX = 60.0


@attrs.frozen
class Started:
    """All sides, answers that arrive later, and the answers before the sides had coordinators."""

    sides: Sides
    answers: list
    without_coordinators: list


@pytest.fixture(scope="session")
def started(tmp_path_factory):
    """All sides, and their answers to come to what Kafka answers after half a minute only: it is asked at once."""
    require_kafka()
    directory = tmp_path_factory.mktemp("differential")
    brokers = []
    with running_kafka(directory, SETTINGS) as kafka, ExitStack() as stack:
        settings = [f"{name}={value}" for name, value in SETTINGS.items()]
        for mode in ("classic", "pipelined"):
            brokers.append(start_broker(directory / mode, mode=mode, arguments=["--flush", "os"], settings=settings))
            stack.callback(brokers[-1].process.stdout.close)
            stack.callback(brokers[-1].stop)
        sides = Sides(Side("kafka", kafka.port), [Side(broker.mode, broker.port) for broker in brokers])
        without_coordinators = prepare(sides)
        with ThreadPoolExecutor(len(UNKNOWN_PARTITIONS)) as executor:
            answers = [executor.submit(answers_apart, sides, describe_unknown(*it)) for it in UNKNOWN_PARTITIONS]
            yield Started(sides, answers, without_coordinators)
        for side in sides.all:
            side.close()


def answers_apart(sides, ask):
    """The answers of all sides to one request, over connections of its own.

    Kafka is asked last: when it has answered, half a minute later, other tests have changed what there is.
    """
    answers = []
    for side in reversed(sides.all):
        with closing(Side(side.name, side.port)) as apart:
            answers.append(apart.ask(ask.build(side), ask.version))
    return answers[::-1]


@pytest.fixture(autouse=True)
def _leaves_nothing_behind():
    """Connections to all sides stay open for the tests that follow, and are made anew where a side closed one."""


@pytest.fixture(scope="module")
def sides(started):
    """All sides; drawn rules of access end with the module, because one about all names denies everybody else."""
    yield started.sides
    any_rule = ResourceType.ANY, None, PatternType.ANY, None
    of_any = AclOperation.ANY, PermissionType.ANY
    ended = DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(*any_rule, host, *of_any) for host in DRAWN_HOSTS])
    for side in started.sides.all:
        side.ask(ended, 3)
    started.sides.settle_what(Side.acls)


@pytest.fixture(scope="module")
def guests(sides):
    """The same, asked from another address."""
    asked = Sides(Side("kafka", sides.kafka.port, GUEST_HOST), [Side(s.name, s.port, GUEST_HOST) for s in sides.ours])
    yield asked
    for side in asked.all:
        side.close()


def prepare(sides):
    """The topics that requests are about, a group coordinator that has loaded, and producer ids to give out.

    Returns the answers of all sides before they had coordinators.
    """
    allow_control(sides)
    wanted = [CreateTopicsRequest.CreatableTopic(name, count, 1) for name, count in (TOPICS | MARKED_TOPICS).items()]
    for side in sides.all:
        answer = side.ask(CreateTopicsRequest(wanted, 20_000), 5)
        assert not any(topic["error_code"] for topic in answer["topics"])
    sides.settle()
    without_coordinators = [[side.ask(*it) for side in sides.all] for it in WITHOUT_COORDINATORS]
    for side in sides.all:
        for group in filter(None, GROUPS):
            becomes(side, FindCoordinatorRequest(key=group), 0)
            becomes(side, HeartbeatRequest(group, 0, "nobody"), UNKNOWN_MEMBER)
        becomes(side, InitProducerIdRequest(transactional_id=None), 0)
        becomes(side, FindCoordinatorRequest(key="x", key_type=TRANSACTION), 0, 2)
        becomes(side, InitProducerIdRequest("first", 60_000), 0, 5)
        prepare_share_groups(side)
    sides.settle()
    sides.settle_groups()
    return without_coordinators


def prepare_share_groups(side):
    """The share coordinator has loaded what it keeps of the groups that requests are about."""
    deadline = time.monotonic() + PREPARE_SECONDS_MAX
    while "three" not in side.topics():
        assert time.monotonic() < deadline
    topic_id = side.topic_ids["three"]
    key = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    for group in SHARE_GROUPS:
        for partition in range(TOPICS["three"]):
            find = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[f"{group}:{key}:{partition}"])
            read = ReadShareGroupStateRequest.PartitionData(partition, 0)
            request = ReadShareGroupStateRequest(group, [ReadShareGroupStateRequest.ReadStateData(topic_id, [read])])
            while True:
                side.ask(find, 6)
                answer = side.ask(request, 0)
                if answer["results"][0]["partitions"][0]["error_code"] == UNINITIALIZED:
                    break
                assert time.monotonic() < deadline, answer
                time.sleep(0.1)


def allow_control(sides):
    """Once there is a rule about the cluster nobody may do anything else to it, Kafka's own broker included."""
    rule = CreateAclsRequest.AclCreation(
        ResourceType.CLUSTER,
        CLUSTER_NAME,
        PatternType.LITERAL,
        "User:*",
        CONTROL_HOST,
        AclOperation.ALL,
        PermissionType.ALLOW,
    )
    for side in sides.all:
        assert side.ask(CreateAclsRequest([rule]), 3)["results"][0]["error_code"] == 0
    sides.settle_what(Side.acls)


def becomes(side, request, code, version=0):
    """Ask until the answer is this error code: Kafka makes and loads some things when they are first asked for."""
    deadline = time.monotonic() + PREPARE_SECONDS_MAX
    while (answer := side.ask(request, version))["error_code"] != code:
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
