"""Measure groups: the time to the first record of a group of one, and rebalances of many members in both protocols.

    python benchmarks/bench_groups.py [--members 200] [--rounds 5] [--mode pipelined]

All state is durable. Requests of our own codec are sent over loopback, one connection per member. A rebalance is timed
from the first request of a member that joins a settled group until every member has its new assignment. In the classic
protocol, all members send JoinGroup and SyncGroup. In the consumer protocol, all send heartbeats until no member has
to revoke partitions or wait, without an assignment interval. The client is one Python process and takes part of the
time. The bounds are 0.3 s for the first record and 2 s for 200 members.
"""

import argparse
import contextlib
import selectors
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from archiving_broker import JOURNAL_ONLY, broker

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.registry import message_classes

FIRST_RECORD_SECONDS_MAX = 0.3
REBALANCE_SECONDS_MAX = 2.0
SESSION_MS = 60_000
CLASSIC_VERSION = 3
REBALANCE_IN_PROGRESS = 27
ROUNDS_MAX = 50
SETTINGS = ("--set", "group.consumer.assignment.interval.ms=0", "--set", "offsets.topic.num.partitions=1")
AT_ONCE = ("--set", "group.initial.rebalance.delay.ms=0")
TOGETHER = ("--set", "group.initial.rebalance.delay.ms=2000")
"""A group of one starts without delay. One of many forms in a single generation before the measurement starts."""
PROTOCOLS = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")]


class Connection:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, message: Any, version: int) -> None:
        header = RequestHeader(type(message).SCHEMA.key, version, 0, "bench")
        frame = b"".join([encode_request_header(header), *map(bytes, encode(message, version))])
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def frame(self) -> bytes | None:
        self.buffer += self.socket.recv(1 << 20)
        if len(self.buffer) < 4 or len(self.buffer) < 4 + int.from_bytes(self.buffer[:4]):
            return None
        frame, self.buffer = self.buffer[4:], b""
        return frame


def ask_all(connections: list[Connection], messages: list[Any], version: int) -> list[Any]:
    for connection, message in zip(connections, messages, strict=True):
        connection.send(message, version)
    return receive(connections, messages, version)


def receive(connections: list[Connection], messages: list[Any], version: int) -> list[Any]:
    answers: dict[int, Any] = {}
    with selectors.DefaultSelector() as selector:
        for index, connection in enumerate(connections):
            selector.register(connection.socket, selectors.EVENT_READ, index)
        while len(answers) < len(messages):
            for key, _ in selector.select(30):
                frame = connections[key.data].frame()
                if frame is not None:
                    kind = type(messages[key.data]).SCHEMA.key
                    _, position = read_response_header(kind, version, frame)
                    answers[key.data] = decode(message_classes(kind)[1], version, frame, position)[0]
    return [answers[index] for index in range(len(messages))]


def ask(connection: Connection, message: Any, version: int) -> Any:
    return ask_all([connection], [message], version)[0]


def first_record(port: int, group: str) -> float:
    """Return the seconds from connecting until a classic group of one has fetched a record."""
    began = time.monotonic()
    connection = Connection(port)
    joined = classic_join([connection], [""], group)
    classic_sync([connection], joined, group)
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        topics=[FetchRequest.FetchTopic(topic="t", partitions=[partition])],
        max_bytes=1 << 20,
        min_bytes=1,
        max_wait_ms=1000,
        session_epoch=-1,
    )
    answer = ask(connection, fetch, 12)
    assert answer.responses[0].partitions[0].records
    connection.socket.close()
    return time.monotonic() - began


def join_request(member_id: str, group: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=PROTOCOLS,
    )


def classic_join(connections: list[Connection], ids: list[str], group: str) -> list[Any]:
    joined = ask_all(connections, [join_request(member_id, group) for member_id in ids], CLASSIC_VERSION)
    assert not any(each.error_code for each in joined)
    return joined


def classic_sync(connections: list[Connection], joined: list[Any], group: str) -> None:
    ids = [each.member_id for each in joined]
    assigned = [SyncGroupRequest.SyncGroupRequestAssignment(member_id, b"a" * 40) for member_id in ids]
    requests = [
        SyncGroupRequest(
            group_id=group,
            generation_id=each.generation_id,
            member_id=each.member_id,
            assignments=assigned if each.member_id == each.leader else [],
        )
        for each in joined
    ]
    assert not any(each.error_code for each in ask_all(connections, requests, CLASSIC_VERSION))


def classic_rebalance(connections: list[Connection], group: str) -> float:
    """Return the seconds from the join of the first member until all members are settled.

    All other members are settled before.
    """
    settled = connections[1:]
    joined = classic_join(settled, [""] * len(settled), group)
    classic_sync(settled, joined, group)
    began = time.monotonic()
    connections[0].send(join_request("", group), CLASSIC_VERSION)
    beat = HeartbeatRequest(group, joined[0].generation_id, joined[0].member_id)
    while ask(settled[0], beat, CLASSIC_VERSION).error_code != REBALANCE_IN_PROGRESS:
        pass
    rejoined = classic_join(settled, [each.member_id for each in joined], group)
    joined = [*receive([connections[0]], [JoinGroupRequest()], CLASSIC_VERSION), *rejoined]
    classic_sync(connections, joined, group)
    return time.monotonic() - began


class Members:
    def __init__(self, group: str) -> None:
        self.group = group
        self.epochs: list[int] = []
        self.owned: list[list[Any]] = []

    def beat(self, connections: list[Connection], count: int) -> bool:
        """Send one heartbeat of each member; return whether nothing changed."""
        self.epochs += [0] * (count - len(self.epochs))
        self.owned += [[] for _ in range(count - len(self.owned))]
        new = {"rebalance_timeout_ms": SESSION_MS, "subscribed_topic_names": ["t"]}
        requests = [
            ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=f"member-{index}",
                member_epoch=epoch,
                topic_partitions=owned,
                **(new if epoch == 0 else {}),
            )
            for index, (epoch, owned) in enumerate(zip(self.epochs, self.owned, strict=True))
        ]
        quiet = True
        for index, answer in enumerate(ask_all(connections[:count], requests, 1)):
            assert not answer.error_code, answer
            quiet = quiet and answer.assignment is None and answer.member_epoch == self.epochs[index]
            self.epochs[index] = answer.member_epoch
            if answer.assignment is not None:
                self.owned[index] = [
                    ConsumerGroupHeartbeatRequest.TopicPartitions(each.topic_id, each.partitions)
                    for each in answer.assignment.topic_partitions
                ]
        return quiet and len(set(self.epochs)) == 1

    def settle(self, connections: list[Connection], count: int) -> None:
        for _ in range(ROUNDS_MAX):
            if self.beat(connections, count):
                return
        raise AssertionError(f"the group did not settle in {ROUNDS_MAX} rounds of heartbeats")


def consumer_rebalance(connections: list[Connection], group: str) -> float:
    """Like `classic_rebalance`, in the consumer protocol."""
    members = Members(group)
    members.settle(connections, len(connections) - 1)
    began = time.monotonic()
    members.settle(connections, len(connections))
    # The last round of heartbeats only confirms that nothing changes, and is included.
    seconds = time.monotonic() - began
    assert sum(len(each.partitions) for owned in members.owned for each in owned) == len(connections)
    return seconds


@contextlib.contextmanager
def serving(mode: str, *settings: str) -> Iterator[int]:
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder,
        broker(Path(folder) / "data", JOURNAL_ONLY, "--mode", mode, *SETTINGS, *settings) as port,
    ):
        yield port


def prepare(port: int, partitions: int) -> None:
    connection = Connection(port)
    topic = CreateTopicsRequest.CreatableTopic("t", partitions, 1)
    assert not ask(connection, CreateTopicsRequest([topic], 30_000), 4).topics[0].error_code
    while ask(connection, FindCoordinatorRequest(key="g"), 2).error_code:
        time.sleep(0.01)
    data = ProduceRequest.PartitionProduceData(0, build_batch([NewRecord(b"value", None, 0)]))
    request = ProduceRequest(
        acks=-1, timeout_ms=9000, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=[data])]
    )
    assert not ask(connection, request, 9).responses[0].partition_responses[0].error_code
    connection.socket.close()


def report(what: str, seconds: list[float], bound: float) -> None:
    verdict = "holds" if max(seconds) <= bound else "BROKEN"
    print(f"{what}: median {statistics.median(seconds):.3f} s, worst {max(seconds):.3f} s; <= {bound} s: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mode", choices=("classic", "pipelined"), default="pipelined")
    options = parser.parse_args()
    first = []
    for _ in range(options.rounds):
        with serving(options.mode, *AT_ONCE) as port:
            prepare(port, 1)
            first.append(first_record(port, "first"))
    report("the first record of a group of one, after a start", first, FIRST_RECORD_SECONDS_MAX)
    with serving(options.mode, *TOGETHER) as port:
        prepare(port, options.members)
        for name, rebalance in (("classic", classic_rebalance), ("consumer", consumer_rebalance)):
            seconds = []
            for number in range(options.rounds):
                connections = [Connection(port) for _ in range(options.members)]
                seconds.append(rebalance(connections, f"{name}-{number}"))
                for connection in connections:
                    connection.socket.close()
            report(f"a rebalance of {options.members} members, {name} protocol", seconds, REBALANCE_SECONDS_MAX)


if __name__ == "__main__":
    main()
