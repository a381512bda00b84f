"""Apache Kafka and our broker in both modes as three sides that are asked the same.

Rules of this folder: our codec writes requests, and Kafka's own definitions read responses. A request may mention what
only a side knows (ids that it gave out): it is built for each side from what that side has answered so far.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from pipeline_broker.measure.experiment.kafka_process import KafkaProcess, KafkaSettings
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.configs.describe_client_quotas import DescribeClientQuotasRequest
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.configs.list_config_resources import ListConfigResourcesRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.security.describe_acls import DescribeAclsRequest
from pipeline_broker.wire.messages.security.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.registry import message_classes
from tests.kafka_tools import short_java
from tests.wire.definitions import read

START_SECONDS_MAX = 120.0
ANSWER_SECONDS_MAX = 90.0
"""Kafka asks itself for the state of share groups, again and again where the machine is busy."""
SETTLE_SECONDS_MAX = 30.0
SETTLED_AFTER = 2
CLIENT_ID = "differential"
CONTROL_HOST, GUEST_HOST = "127.0.0.1", "127.0.0.2"
"""All that is set up, and all that Kafka says to itself, comes from the first; rules may be about the second."""
CORRELATION_ID = 11
SET = {1, 7, 8}
"""Sources of values that were set for one topic, subscription or group."""
CLOSED = "closed"
METADATA_VERSION = 12
OFFSETS_VERSION = 5
COMMIT_VERSION = 7
OFFSETS_TOPIC = "__consumer_offsets"
COMMITTING_GROUPS = ("a", "b", "")
"""One for each of the two partitions of that topic, which is the one that is never deleted, and the group without a
name: old clients may commit for it, and other requests may not be about it."""
LATEST = -1


@contextmanager
def running_kafka(
    directory: Path, settings: dict[str, str], node_id: int = 1, controller: str | None = None
) -> Iterator[KafkaProcess]:
    """Apache Kafka, which answers. `controller` is that of the cluster that a further broker joins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", short_java())
        data = directory / f"kafka-{node_id}"
        of_node = KafkaSettings("kafka", data, node_id=node_id, controller=controller, settings=tuple(settings.items()))
        kafka = of_node.start()
    try:
        kafka.wait_ready()
        deadline = time.monotonic() + START_SECONDS_MAX
        with closing(Side("kafka", kafka.port)) as side:
            while not side.ask(MetadataRequest(topics=[]), METADATA_VERSION)["brokers"]:
                assert time.monotonic() < deadline, "Apache Kafka does not start"
                time.sleep(0.1)
        yield kafka
    finally:
        kafka.stop()


class Side:
    """One of the brokers, with what it has told us.

    Attributes:
        topic_ids: name -> id, as of the last metadata.
        names: id -> name, also of topics that are gone or were made up.
        cluster_id: as of the last metadata.
        told: other ids that it gave out, by names that the tests choose.
        host: where it is asked from.
    """

    def __init__(self, name: str, port: int, host: str = CONTROL_HOST) -> None:
        self.name = name
        self.port = port
        self.host = host
        self.topic_ids: dict[str, bytes] = {}
        self.names: dict[bytes, str] = {}
        self.cluster_id: str | None = None
        self.told: dict[str, Any] = {}
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, message: Any, version: int) -> Any:
        """The response as dicts, lists and numbers; CLOSED when the connection was closed instead."""
        header = RequestHeader(message.SCHEMA.key, version, CORRELATION_ID, CLIENT_ID)
        frame = encode_request_header(header) + b"".join(encode(message, version))
        answer = self._exchange(struct.pack(">i", len(frame)) + frame)
        if answer is None:
            self.close()
            return CLOSED
        correlation_id, position = read_response_header(message.SCHEMA.key, version, answer)
        assert correlation_id == CORRELATION_ID
        response = message_classes(message.SCHEMA.key)[1].__name__
        found, end = read(response, version, answer, position)
        assert end == len(answer)
        return found

    def send(self, message: Any, version: int) -> None:
        """A request that is not answered, on the connection of the others."""
        header = RequestHeader(message.SCHEMA.key, version, CORRELATION_ID, CLIENT_ID)
        frame = encode_request_header(header) + b"".join(encode(message, version))
        self._connected().sendall(struct.pack(">i", len(frame)) + frame)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(
                ("127.0.0.1", self.port), timeout=ANSWER_SECONDS_MAX, source_address=(self.host, 0)
            )
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _exchange(self, data: bytes) -> bytes | None:
        try:
            self._connected().sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return None
        head = self._receive(4)
        return None if head is None else self._receive(struct.unpack(">i", head)[0])

    def _receive(self, count: int) -> bytes | None:
        data = bytearray()
        assert self._socket is not None
        while len(data) < count:
            try:
                chunk = self._socket.recv(count - len(data))
            except ConnectionResetError:
                return None
            except TimeoutError:
                self.close()  # an answer that comes later must not be taken for that to the next request
                raise
            if not chunk:
                return None
            data += chunk
        return bytes(data)

    def topics(self) -> dict[str, int]:
        """Name -> number of partitions; remembers the ids. Topics without a leader do not count yet."""
        answer = self.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), METADATA_VERSION)
        self.topic_ids = {topic["name"]: topic["topic_id"] for topic in answer["topics"]}
        self.cluster_id = answer["cluster_id"]
        self.names |= {known: name for name, known in self.topic_ids.items()}
        return {
            topic["name"]: len(topic["partitions"])
            for topic in answer["topics"]
            if all(not data["error_code"] and data["leader_id"] >= 0 for data in topic["partitions"])
        }

    def leads(self, name: str, count: int) -> bool:
        """Whether the partitions of a topic can be used already: metadata tell of them earlier."""
        wanted = [ListOffsetsRequest.ListOffsetsPartition(index, -1, LATEST) for index in range(count)]
        request = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic(name, wanted)])
        (topic,) = self.ask(request, OFFSETS_VERSION)["topics"]
        return not any(partition["error_code"] for partition in topic["partitions"])

    def quotas(self) -> list[Any]:
        """All quotas that are set, each with its entity."""
        entries = self.ask(DescribeClientQuotasRequest(), 1)["entries"]
        return sorted(
            (
                sorted((part["entity_type"], repr(part["entity_name"])) for part in entry["entity"]),
                sorted((value["key"], value["value"]) for value in entry["values"]),
            )
            for entry in entries
        )

    def acls(self) -> list[Any]:
        """All rules of access."""
        resources = self.ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3)["resources"]
        names = ("resource_type", "resource_name", "pattern_type")
        return sorted(
            ([resource[name] for name in names], sorted(list(rule.values()) for rule in resource["acls"]))
            for resource in resources
        )

    def settings(self) -> list[Any]:
        """What was set for topics, groups and subscriptions."""
        listed = self.ask(ListConfigResourcesRequest([2, 16, 32]), 1)["config_resources"]
        wanted = [
            DescribeConfigsRequest.DescribeConfigsResource(each["resource_type"], each["resource_name"], None)
            for each in listed
            if not each["resource_name"].startswith("__")  # what Kafka sets itself
        ]
        results = self.ask(DescribeConfigsRequest(wanted), 4)["results"]
        return sorted(
            (result["resource_type"], result["resource_name"], config["name"], config["value"])
            for result in results
            for config in result["configs"]
            if config["config_source"] in SET
        )

    def users(self) -> list[Any]:
        """All SCRAM users."""
        results = self.ask(DescribeUserScramCredentialsRequest(None), 0)["results"]
        return sorted((result["user"], sorted(map(repr, result["credential_infos"]))) for result in results)


Build = Callable[[Side], Any]


@attrs.define
class Sides:
    """Kafka, and our brokers that must answer as it does."""

    kafka: Side
    ours: list[Side]
    settled: set[str] = attrs.field(factory=set)
    asked: int = 0
    seen: set[tuple[int, int]] = attrs.field(factory=set)

    @property
    def all(self) -> list[Side]:
        return [self.kafka, *self.ours]

    def settle(self) -> None:
        """Wait until Kafka shows the topics that ours show: its metadata reach its broker a little later."""
        expected = self.ours[0].topics()
        for side in self.ours[1:]:
            assert side.topics() == expected, side.name
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while (shown := self.kafka.topics()) != expected:
            assert time.monotonic() < deadline, f"kafka has {shown}, ours {expected}"
            time.sleep(0.005)
        for name in expected.keys() - self.settled:
            while not self.kafka.leads(name, expected[name]):
                assert time.monotonic() < deadline, f"kafka does not lead {name}"
                time.sleep(0.005)
        self.settled = set(expected)

    def settle_groups(self) -> None:
        """Have Kafka show all groups: one that it made without a record is shown after the next of its partition."""
        request = OffsetCommitRequest
        offsets = [request.OffsetCommitRequestPartition(0, 0, -1, "")]
        topics = [request.OffsetCommitRequestTopic(OFFSETS_TOPIC, partitions=offsets)]
        for side in self.all:
            for group in COMMITTING_GROUPS:
                (topic,) = side.ask(request(group, topics=topics), COMMIT_VERSION)["topics"]
                assert topic["partitions"][0]["error_code"] == 0, side.name

    def settle_what(self, read: Callable[[Side], Any]) -> None:
        """Wait until Kafka shows what ours show, twice: its controller takes over what its broker has taken over."""
        expected = read(self.ours[0])
        for side in self.ours[1:]:
            assert read(side) == expected, side.name
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        equal = 0
        while equal < SETTLED_AFTER:
            equal = equal + 1 if (shown := read(self.kafka)) == expected else 0
            assert time.monotonic() < deadline, f"kafka has {shown}, ours {expected}"
            time.sleep(0.001)


def name_of_topic(side: Side, topic_id: bytes | None) -> str | None:
    """A topic id by the name it stands for on its side: ids differ from broker to broker."""
    if not topic_id or not any(topic_id):
        return None
    return f"id of {side.names.get(topic_id, 'a topic that was not created')}"


MEMBER_ID = re.compile(r"(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
