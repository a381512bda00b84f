"""A run: a broker, instances of one Kafka Streams application, a writer of input, and strikes.

An instance may give up: a session or a transaction times out while the broker is away or the machine is slow.

The strikes are drawn from the seed, a deck at a time. An instance is killed, or leaves its group, and another one
starts in its place, with its state stores or without any; the broker is killed and started over its data. In the end
all input must have its results, and the group must have committed the ends of the input.
"""

import contextlib
import random
import time

import attrs
import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crashes.exactly_once.confluent_copier import CONNECTION
from tests.crashes.streams import instances
from tests.crashes.streams.expected import APPLICATIONS, Violated

IN, OUT = "in", "out"
PARTITIONS = 3
TICK_SECONDS = 0.1
RECORDS_OF_A_TICK = 20
BETWEEN_STRIKES_SECONDS = (1.0, 4.0)
AT_WORK_SECONDS_MAX = 60.0
END_SECONDS_MAX = 60.0
READ_SECONDS_MAX = 20.0
KEPT_STATE_SHARE = 0.5
STRIKES = KILL, CLOSE, BROKER = "kill", "close", "broker"
SETTINGS = (
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
    "group.streams.min.session.timeout.ms=1000",
    "group.streams.session.timeout.ms=2000",
    "group.streams.min.heartbeat.interval.ms=100",
    "group.streams.heartbeat.interval.ms=300",
    "group.streams.initial.rebalance.delay.ms=0",
)


@attrs.define
class Counts:
    """The events of a run."""

    kills_of_the_broker: int = 0
    kills_of_instances: int = 0
    closed_instances: int = 0
    gave_up: int = 0
    records: int = 0


class Run:
    """One application on one broker.

    Args:
        broker: has `start`, `kill` and `address`.
        compiled: the applications.
        name: of the application.
        count: the number of instances.
        strikes: the possible ones.
    """

    def __init__(self, seed, directory, broker, compiled, name, count=2, strikes=STRIKES):
        self.random = random.Random(seed)
        self.counts = Counts()
        self.directory = directory
        self._broker = broker
        self._compiled = compiled
        self._name = name
        self._strikes = strikes
        self._count = count
        self._expected = APPLICATIONS[name]()
        self._places = 0
        self._deck = []
        self._has_struck = False
        self._instances = []

    @property
    def bootstrap(self):
        return "{}:{}".format(*self._broker.address)

    def __enter__(self):
        self._broker.start()
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **CONNECTION})
        for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in (IN, OUT)]).values():
            future.result(END_SECONDS_MAX)
        self._writer = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5, **CONNECTION}
        )
        for _ in range(self._count):
            self._start_instance()
        return self

    def __exit__(self, *_):
        for instance in self._instances:
            instance.kill()
        self._broker.kill()

    def _start_instance(self, directory=None):
        if directory is None:
            self._places += 1
            directory = self.directory / f"instance-{self._places}"
        self._instances.append(instances.start(self._compiled, self.bootstrap, self._name, directory))

    def run(self, seconds):
        """Strike for this long; raises Violated if the results contradict the input."""
        deadline = time.monotonic() + AT_WORK_SECONDS_MAX
        self._write_until(lambda: self._works() or time.monotonic() > deadline)
        assert self._works(), f"an instance does not run: see {self.directory}"
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            moment = time.monotonic() + self.random.uniform(*BETWEEN_STRIKES_SECONDS)
            self._write_until(lambda moment=moment: time.monotonic() >= moment)
            self._strike()
        assert self._writer.flush(END_SECONDS_MAX) == 0
        self._wait_for_results()

    def _works(self):
        return all(instance.has_processed for instance in self._instances)

    def _write_until(self, is_over):
        while not is_over():
            for _ in range(RECORDS_OF_A_TICK):
                self._write()
            tick_ends = time.monotonic() + TICK_SECONDS
            while (left := tick_ends - time.monotonic()) > 0:
                self._writer.poll(left)
            self._replace_failed()

    def _write(self):
        key, value = self._expected.add(self.counts.records)
        self.counts.records += 1
        self._writer.produce(IN, value, key, on_delivery=raise_failure)

    def _replace_failed(self):
        for instance in [it for it in self._instances if not it.is_running]:
            self._instances.remove(instance)
            instance.kill()
            self.counts.gave_up += 1
            print(f"{instance.directory.name} gave up: {instance.error}")
            self._start_instance(instance.directory)

    def _strike(self):
        if not self._deck:
            self._deck = list(self._strikes)
            if self._has_struck:  # the first of each kind are in a fixed order, so that short runs have them too
                self._deck *= 2
                self.random.shuffle(self._deck)
            self._has_struck = True
        strike = self._deck.pop()
        if strike == BROKER:
            self._broker.kill()
            self._broker.start()
            self.counts.kills_of_the_broker += 1
            return
        instance = self._instances.pop(self.random.randrange(len(self._instances)))
        if strike == KILL:
            instance.kill()
            self.counts.kills_of_instances += 1
        else:
            is_clean = instance.close()
            self.counts.closed_instances += is_clean
            self.counts.gave_up += not is_clean
        self._start_instance(instance.directory if self.random.random() < KEPT_STATE_SHARE else None)

    def _wait_for_results(self):
        """Wait while further results come out, until they are complete and the input is committed."""
        before, deadline = None, time.monotonic() + END_SECONDS_MAX
        while True:
            self._replace_failed()
            results, committed, ends = self._results(), self._committed(), self._ends()
            was_killed = self.counts.kills_of_the_broker + self.counts.kills_of_instances > 0
            if self._expected.is_complete(results, was_killed=was_killed) and committed == ends:
                return
            state = sum(map(len, results.values())), committed
            if state != before:
                before, deadline = state, time.monotonic() + END_SECONDS_MAX
            if time.monotonic() > deadline:
                raise Violated(f"of {self.counts.records} records at {ends}, no more came out than {state}")
            time.sleep(TICK_SECONDS)

    @contextlib.contextmanager
    def _consumer(self, group):
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        with contextlib.closing(consumer):
            yield consumer

    def _committed(self):
        with self._consumer(self._name) as consumer:
            wanted = [confluent_kafka.TopicPartition(IN, index) for index in range(PARTITIONS)]
            return [max(it.offset, 0) for it in consumer.committed(wanted, READ_SECONDS_MAX)]

    def _ends(self):
        with self._consumer("judge") as consumer:
            wanted = [confluent_kafka.TopicPartition(IN, index) for index in range(PARTITIONS)]
            return [consumer.get_watermark_offsets(it, READ_SECONDS_MAX)[1] for it in wanted]

    def _results(self):
        """Return the values of each key, in order."""
        found, unread = {}, set(range(PARTITIONS))
        deadline = time.monotonic() + READ_SECONDS_MAX
        with self._consumer("judge") as consumer:
            consumer.assign([confluent_kafka.TopicPartition(OUT, index, 0) for index in unread])
            while unread:
                assert time.monotonic() < deadline, f"{OUT} is not read within {READ_SECONDS_MAX} s"
                for message in consumer.consume(1000, TICK_SECONDS):
                    if message.error() is None:
                        found.setdefault(message.key().decode(), []).append(message.value().decode())
                    elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                        unread.discard(message.partition())
        return found


def raise_failure(error, _):
    assert error is None, error
