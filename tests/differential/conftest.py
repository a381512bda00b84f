"""Kafka and both modes, started once: the tests of this folder are of one group, which runs in one worker."""

import time

import pytest

from pipeline_broker.wire.messages.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.init_producer_id import InitProducerIdRequest
from tests.conftest import start_broker
from tests.differential.admin_requests import GROUPS
from tests.differential.data_requests import TOPICS
from tests.differential.oracle import Side, Sides, start_kafka, what_is_missing

SETTINGS = {
    "num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
}
UNKNOWN_MEMBER = 25
PREPARE_SECONDS_MAX = 60.0


@pytest.fixture(scope="session")
def sides(tmp_path_factory):
    missing = what_is_missing()
    if missing:
        pytest.skip(missing)
    directory = tmp_path_factory.mktemp("differential")
    kafka = start_kafka(directory, SETTINGS)
    brokers = []
    try:
        settings = [f"{name}={value}" for name, value in SETTINGS.items()]
        brokers += [
            start_broker(directory / mode, mode=mode, arguments=["--flush", "os"], settings=settings)
            for mode in ("classic", "pipelined")
        ]
        sides = Sides(Side("kafka", kafka.port), [Side(broker.mode, broker.port) for broker in brokers])
        prepare(sides)
        yield sides
        for side in sides.all:
            side.close()
    finally:
        kafka.stop()
        for broker in brokers:
            broker.stop()
            broker.process.stdout.close()


def prepare(sides):
    """The topics that requests are about, a group coordinator that has loaded, and producer ids to give out."""
    wanted = [CreateTopicsRequest.CreatableTopic(name, count, 1) for name, count in TOPICS.items()]
    for side in sides.all:
        answer = side.ask(CreateTopicsRequest(wanted, 20_000), 5)
        assert not any(topic["error_code"] for topic in answer["topics"])
        for group in filter(None, GROUPS):
            becomes(side, FindCoordinatorRequest(key=group), 0)
            becomes(side, HeartbeatRequest(group, 0, "nobody"), UNKNOWN_MEMBER)
        becomes(side, InitProducerIdRequest(transactional_id=None), 0)
    sides.settle()


def becomes(side, request, code):
    """Ask until the answer is this error code: Kafka makes and loads some things when they are first asked for."""
    deadline = time.monotonic() + PREPARE_SECONDS_MAX
    while (answer := side.ask(request, 0))["error_code"] != code:
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
