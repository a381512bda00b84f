"""A run: three brokers of one machine through several kills under load, and what must be left after each.

A kill takes one broker, the controller, two of them, or all with their supervisor. The supervisor starts the brokers
again in all cases but the last, and no broker is killed often enough to stay down. librdkafka's idempotent and
transactional producers live through all kills.
"""

import collections
import contextlib
import itertools
import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path

import attrs
import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from pipeline_broker.node.supervisor import DEATHS_MAX
from tests.crashes.broker_under_test import END_SECONDS_MAX, BrokerUnderTest
from tests.crashes.history import Contents, History, violations
from tests.crashes.producers import QUICK_TO_RETURN, ConfluentProducer
from tests.crashes.read_back import read_with_confluent
from tests.crashes.scene import Violated
from tests.crashes.wire_client import WireClient, describe_topics
from tests.free_ports import free_port
from tests.waiting import wait_readable

BROKERS = (1, 2, 3)
KILLED = ((1,), (2,), (3,), (1, 2), (2, 3), BROKERS)
ORDERS, MOVES = TOPICS = ("orders", "moves")
PARTITIONS = [(ORDERS, index) for index in range(6)]
SETTINGS = ("offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3")
LOAD_SECONDS = (0.2, 1.0)
BACK_SECONDS_MAX = 30.0
CALL_SECONDS_MAX = 30.0
COMMITS_MAX = 4
"""Calls for one commit: all brokers may be without power for most of a call."""


@attrs.define
class ClusterCounts:
    kills: int = 0
    killed_brokers: int = 0
    acknowledged: int = 0
    moves: int = 0
    read_back: int = 0


class ClusterUnderTest(BrokerUnderTest):
    """A supervisor and its brokers."""

    def kill_brokers(self, node_ids):
        for node_id in node_ids:
            with contextlib.suppress(OSError, ValueError):  # it has ended, or has not written its number yet
                pid = int((self.data / str(node_id) / ".lock").read_text(encoding="ascii"))
                if str(self.data) in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8"):
                    os.kill(pid, signal.SIGKILL)

    def suspend(self):
        super().suspend()
        for pid in self._broker_pids():
            os.kill(pid, signal.SIGSTOP)

    def kill(self):
        # The supervisor stops first, so that it starts nothing again.
        self.suspend()
        ends = [os.pidfd_open(pid) for pid in self._broker_pids()]
        super().kill()
        for end in ends:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(end, signal.SIGKILL)
            assert wait_readable(end, END_SECONDS_MAX), "a broker survives SIGKILL"
            os.close(end)

    def _broker_pids(self):
        if self.process is None or self.process.poll() is not None:
            return []
        # Each child belongs to the thread that started it.
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(pid) for task in tasks for pid in (task / "children").read_text(encoding="ascii").split()]


class TransactionalProducer:
    """A client that writes one transaction over several partitions after the other, until `end`.

    `committed` and `aborted` have the values of transactions whose end was acknowledged.
    """

    def __init__(self, complaints, dice, bootstrap):
        self.committed, self.aborted = [], []
        self._complaints = complaints
        self._dice = dice
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": "mover", "log_level": 0, **QUICK_TO_RETURN}
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self):
        self._ended.set()
        self._thread.join()

    def _run(self):
        try:
            self._producer.init_transactions(CALL_SECONDS_MAX)
            for number in itertools.count():
                if self._ended.is_set():
                    return
                self._write_one(number)
        except confluent_kafka.KafkaException as error:
            self._complaints.append(f"transactional: {error}")

    def _write_one(self, number):
        self._producer.begin_transaction()
        values = [f"{number}.{index}" for index in self._dice.sample(range(len(PARTITIONS)), 3)]
        for value in values:
            self._producer.produce(MOVES, value, partition=int(value.partition(".")[2]))
        try:
            self._commit()
        except confluent_kafka.KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(CALL_SECONDS_MAX)
            self.aborted += values
        else:
            self.committed += values

    def _commit(self):
        for attempt in range(1, COMMITS_MAX + 1):
            try:
                self._producer.commit_transaction(CALL_SECONDS_MAX)
            except confluent_kafka.KafkaException as failure:
                if attempt == COMMITS_MAX or not failure.args[0].retriable():
                    raise
            else:
                return

    def check(self, found):
        """Compare with what a reader of committed records gets; the producer has ended."""
        if sorted(found) != sorted(self.committed):
            missing, more = set(self.committed) - set(found), set(found) - set(self.committed)
            raise Violated(f"{len(found)} moves, without {sorted(missing)[:10]}, and with {sorted(more)[:10]}")


def committed_values(address):
    """The values of all moves that a reader of committed records gets."""
    config = {"group.id": "moves", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": "{}:{}".format(*address), **config, "log_level": 0})
    start = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(MOVES, index, start) for index in range(len(PARTITIONS))])
    values, ended, deadline = [], set(), time.monotonic() + CALL_SECONDS_MAX
    while len(ended) < len(PARTITIONS):
        if time.monotonic() > deadline:
            raise Violated(f"{len(values)} moves, and no end of {len(PARTITIONS) - len(ended)} partitions")
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
        elif message is not None:
            ended.add(message.partition())
    consumer.close()
    return values


class ClusterRun(contextlib.ExitStack):
    """See the module; how brokers end is for a subclass to change."""

    counts_type = ClusterCounts

    def __init__(self, seed, directory, *, flush="always", **options):
        super().__init__()
        self.counts = self.counts_type()
        self.history = History()
        self.random = random.Random(seed)
        self._deaths = collections.Counter()  # since the start of the supervisor
        self.mode_and_flush = ("classic", "pipelined")[seed % 2], flush
        arguments = ("--brokers", str(len(BROKERS)))
        self.broker = ClusterUnderTest(directory, free_port(1, 2), settings=SETTINGS, arguments=arguments, **options)
        self.callback(self.broker.kill)

    def run(self, kills):
        """Go through `kills` kills under load; raises Violated."""
        with self:
            self.callback(self._count)
            self.start()
            bootstrap = ",".join(f"127.0.0.1:{self.broker.port + shift}" for shift in range(len(BROKERS)))
            self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            for created in self._admin.create_topics([NewTopic(name, len(PARTITIONS), 1) for name in TOPICS]).values():
                created.result(BACK_SECONDS_MAX)
            self._producers = [
                ConfluentProducer(self.history, random.Random(self.random.random()), bootstrap, PARTITIONS)
                for _ in range(2)
            ]
            self._mover = TransactionalProducer(self.history.complaints, random.Random(self.random.random()), bootstrap)
            for producer in (*self._producers, self._mover):
                self.callback(producer.end)
            for _ in range(kills):
                self._kill_under_load()
                self._wait_led()
            self._mover.end()
            for producer in self._producers:
                producer.finish()
            self.check()
            if code := self.broker.stop():
                raise Violated(f"SIGTERM ended the supervisor with {code}: {self.broker.stderr}")
            self.start()
            self.check()
        shutil.rmtree(self.broker.directory)

    def start(self):
        self._deaths.clear()
        self.broker.start(*self.mode_and_flush)

    def _count(self):
        self.counts.acknowledged = self.history.acknowledged_count
        self.counts.moves = len(self._mover.committed)

    def _kill_under_load(self):
        for producer in self._producers:
            producer.active.set()
        self.end_under_load(self.random.uniform(*LOAD_SECONDS))
        self.counts.kills += 1
        for producer in self._producers:
            producer.active.clear()

    def end_under_load(self, seconds):
        """Kill brokers after some seconds of load, and return once all run again."""
        time.sleep(seconds)
        node_ids = self.random.choice(KILLED)
        if any(self._deaths[node_id] == DEATHS_MAX - 2 for node_id in node_ids):
            node_ids = BROKERS  # with their supervisor, which would let one of them stay down
        if node_ids == BROKERS:
            self.broker.kill()
            self.start()
        else:
            self.broker.kill_brokers(node_ids)
            self._deaths.update(node_ids)
        self.counts.killed_brokers += len(node_ids)

    def _wait_led(self):
        """Wait until all brokers show a leader of each partition again."""
        deadline = time.monotonic() + BACK_SECONDS_MAX
        for shift in range(len(BROKERS)):
            while not self._shows_leaders(self.broker.port + shift):
                if time.monotonic() > deadline:
                    raise Violated(f"partitions have no leader: {self.broker.stderr}")
                time.sleep(0.05)

    @staticmethod
    def _shows_leaders(port):
        try:
            with WireClient(("127.0.0.1", port)) as client:
                topic = describe_topics(client).get(ORDERS)
        except OSError:
            return False
        if topic is None:
            raise Violated(f"the broker on port {port} serves without the topic {ORDERS}")
        return {partition.leader_id for partition in topic.partitions} == set(BROKERS)

    def check(self):
        """Compare what the brokers hold with what the clients know; raises Violated."""
        known, address = self.history.snapshot(), self.broker.address
        config = {"bootstrap.servers": "{}:{}".format(*address), "group.id": "ends", "log_level": 0}
        consumer = confluent_kafka.Consumer(config)
        places = {partition: confluent_kafka.TopicPartition(*partition) for partition in PARTITIONS}
        ends = {each: consumer.get_watermark_offsets(it, BACK_SECONDS_MAX)[1] for each, it in places.items()}
        consumer.close()
        records = read_with_confluent(address, ends)
        contents = Contents(records, ends, topics={}, message_bytes_max={}, offsets={})
        if found := violations(self.history, known, contents):
            raise Violated("\n".join(found[:20]))
        self._mover.check(committed_values(address))
        self.counts.read_back += sum(map(len, records.values()))
