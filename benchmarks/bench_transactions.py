"""Transactions per second, with transactions of version 2: Produce and EndTxn, one record in one partition each.

    python benchmarks/bench_transactions.py [--seconds 3] [--producers 1 32] [--flush always] [--rounds 3]

The native client speaks the protocol itself over as many connections as there are producers and keeps one transaction
of each going: a batch, and when that is answered its end. confluent-kafka (transactions of version 0: one more request)
stands beside it, one producer. At last what a broker with transactions costs those who use none: Produce without and
with a transaction open elsewhere, in turn, by the load client.

Bounds, on 2 cores with flush=always: 500/s with one producer, 3,000/s with 32.
"""

import argparse
import itertools
import select
import socket
import statistics
import struct
import tempfile
import time
from pathlib import Path

from pipeline_broker.experiment.broker_process import BrokerSettings, running
from pipeline_broker.load.client import LoadOptions, run_load
from pipeline_broker.load.statistics import figures
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pipeline_broker.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from pipeline_broker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pipeline_broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pipeline_broker.wire.messages.produce import ProduceRequest, ProduceResponse

TRANSACTION = 1
PRODUCE_VERSION, END_VERSION, INIT_VERSION = 12, 5, 5
RECEIVE_BYTES = 1 << 16
VALUE = b"x" * 100
names = itertools.count()
"""A name of its own for every producer: the transaction that one leaves behind is aborted in its own time."""
TOPIC = "transactions"


class Producer:
    """One connection with one transaction going on after the other."""

    def __init__(self, port: int, name: str, partition: int) -> None:
        self.name, self.partition = name, partition
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked = 0
        self.buffer = b""
        answer = self.ask(InitProducerIdRequest(name, 60_000), InitProducerIdResponse, INIT_VERSION)
        assert answer.error_code == 0, answer
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.is_ending = False
        self.ended = 0

    def ask(self, request: object, response: type, version: int) -> object:
        """Ask and wait."""
        self._send(request, version)
        while (answer := self._receive(response, version)) is None:
            self.buffer += self.socket.recv(RECEIVE_BYTES)
        return answer

    def _send(self, request: object, version: int) -> None:
        self.asked += 1
        header = encode_request_header(RequestHeader(type(request).SCHEMA.key, version, self.asked, "bench"))
        frame = header + b"".join(map(bytes, encode(request, version)))
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def _receive(self, response: type, version: int) -> object | None:
        if len(self.buffer) < 4 or len(self.buffer) < 4 + int.from_bytes(self.buffer[:4], "big"):
            return None
        size = 4 + int.from_bytes(self.buffer[:4], "big")
        frame, self.buffer = self.buffer[4:size], self.buffer[size:]
        _, position = read_response_header(response.SCHEMA.key, version, frame)
        return decode(response, version, frame, position)[0]

    def begin(self) -> None:
        """Send the batch of the next transaction: its epoch is new, so its sequence begins again."""
        batch = build_batch(
            [NewRecord(VALUE, None, time.time_ns() // 1_000_000)],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        data = ProduceRequest.PartitionProduceData(self.partition, batch)
        topic = ProduceRequest.TopicProduceData(TOPIC, partition_data=[data])
        self._send(ProduceRequest(self.name, -1, 30_000, [topic]), PRODUCE_VERSION)
        self.is_ending = False

    def go_on(self) -> None:
        """Take what came, and take the next step."""
        self.buffer += self.socket.recv(RECEIVE_BYTES)
        answer = self._receive(EndTxnResponse, END_VERSION) if self.is_ending else self.produced()
        if answer is None:
            return
        if self.is_ending:
            assert answer.error_code == 0, answer
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.ended += 1
            self.begin()
        else:
            self._send(EndTxnRequest(self.name, self.id, self.epoch, committed=True), END_VERSION)
            self.is_ending = True

    def produced(self) -> object | None:
        """The answer to the batch, if it is there."""
        answer = self._receive(ProduceResponse, PRODUCE_VERSION)
        if answer is not None:
            assert answer.responses[0].partition_responses[0].error_code == 0, answer
        return answer


def prepare(port: int) -> None:
    """A topic, and the coordinator's."""
    probe = Producer.__new__(Producer)
    probe.socket, probe.asked, probe.buffer = socket.create_connection(("127.0.0.1", port), timeout=60), 0, b""
    probe.ask(FindCoordinatorRequest(key="x", key_type=TRANSACTION), FindCoordinatorResponse, 2)
    probe.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(TOPIC, 4, 1)], 10_000), CreateTopicsResponse, 5)
    probe.socket.close()


def native(port: int, producers: int, seconds: float) -> float:
    """Transactions per second of so many producers."""
    poll = select.epoll()
    clients = {}
    for number in range(producers):
        client = Producer(port, f"bench-{next(names)}", number % 4)
        clients[client.socket.fileno()] = client
        poll.register(client.socket, select.EPOLLIN)
    for client in clients.values():
        client.begin()
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        for descriptor, _ in poll.poll(1):
            clients[descriptor].go_on()
    passed = time.perf_counter() - began
    for client in clients.values():
        client.socket.close()
    poll.close()
    return sum(client.ended for client in clients.values()) / passed


def confluent(port: int, seconds: float) -> float | None:
    """The same of confluent-kafka, one producer; None where that is not installed."""
    try:
        import confluent_kafka  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": f"127.0.0.1:{port}", "transactional.id": "confluent", "linger.ms": 0}
    )
    producer.init_transactions(30)
    ended, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        producer.begin_transaction()
        producer.produce(TOPIC, VALUE, partition=0)
        producer.commit_transaction(30)
        ended += 1
    return ended / (time.perf_counter() - began)


def plain(port: int, seconds: float) -> float:
    """Produce requests per second without transactions, by the load client."""
    load = LoadOptions("127.0.0.1", port, connections=16, in_flight=16, seconds=seconds, topic=TOPIC)
    return float(figures(run_load(load).rows).requests_per_s or 0)


def cost(port: int, seconds: float, rounds: int) -> tuple[float, float]:
    """The same with no transaction open and with one open in each partition of the topic, in turn."""
    without, beside = [], []
    for number in range(rounds):
        without.append(plain(port, seconds))
        open_ones = [Producer(port, f"beside-{number}-{partition}", partition) for partition in range(4)]
        for producer in open_ones:
            producer.begin()
            while producer.produced() is None:
                producer.buffer += producer.socket.recv(RECEIVE_BYTES)
        beside.append(plain(port, seconds))
        for producer in open_ones:
            producer.ask(EndTxnRequest(producer.name, producer.id, producer.epoch, committed=True), EndTxnResponse, 5)
            producer.socket.close()
    return statistics.median(without), statistics.median(beside)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--producers", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--flush", choices=["always", "os"], default="always")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for mode in ("pipelined", "classic"):
            settings = BrokerSettings(mode, Path(folder) / mode, flush=options.flush)
            with running([settings]) as (broker,):
                prepare(broker.port)
                for producers in options.producers:
                    rates = [native(broker.port, producers, options.seconds) for _ in range(options.rounds)]
                    print(f"{mode:10} {producers:3} producers  {statistics.median(rates):8,.0f} transactions/s")
                rate = confluent(broker.port, options.seconds)
                if rate is not None:
                    print(f"{mode:10} confluent-kafka{rate:11,.0f} transactions/s")
                without, beside = cost(broker.port, options.seconds, options.rounds)
                print(f"{mode:10} Produce without transactions {without:,.0f}/s, beside open ones {beside:,.0f}/s")


if __name__ == "__main__":
    main()
