"""Whether what came out is what went in.

Rules of this file: a value of the output begins with the number that it is a copy of. Readers are new each time, read
committed records from the beginning to the end, and believe nothing that was read before.
"""

import collections
import contextlib
import itertools
import time

import confluent_kafka

from tests.crashes.exactly_once.confluent_copier import CONNECTION
from tests.crashes.exactly_once.copier import INPUT, JUNK, PARTITIONS
from tests.tools.history_checker import POLL, Operation, Poll, anomalies, forbidden

READ_SECONDS_MAX = 30.0
BETWEEN_READS_SECONDS = 0.2
ANOMALIES_TOLD_MAX = 10


class Violated(AssertionError):
    """Something came out that did not go in, or twice, or not in its order, or not at all."""


class Judge:
    """See the module.

    Args:
        bootstrap: the broker.
        records: how many numbers went in.
        groups: output topic -> the group that copies to it.
    """

    def __init__(self, bootstrap, records, groups):
        self._settings = {
            "bootstrap.servers": bootstrap,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            **CONNECTION,
        }
        self._groups = groups
        self._expected = {
            index: [str(number) for number in range(index, records, PARTITIONS)] for index in range(PARTITIONS)
        }

    def wait(self, tend, seconds_max):
        """Until everything is out and committed; raises Violated when something is wrong, or nothing new comes.

        Args:
            tend: called again and again.
            seconds_max: how long nothing new may come.
        """
        before, deadline = None, time.monotonic() + seconds_max
        while True:
            tend()
            copied = {output: self._copied(output) for output in self._groups}
            state = [
                *({index: len(numbers) for index, numbers in found.items()} for found in copied.values()),
                *(self._committed(group) for group in self._groups.values()),
            ]
            ends = {index: len(numbers) for index, numbers in self._expected.items()}
            if all(each == ends for each in state):
                return
            if state != before:
                before, deadline = state, time.monotonic() + seconds_max
            if time.monotonic() > deadline:
                raise Violated(f"of {ends}, no more came out, and was committed, than {state}")
            time.sleep(BETWEEN_READS_SECONDS)

    def judge(self, history):
        """Read everything once more, and hold it against what all others were told; raises Violated."""
        for output in self._groups:
            if (found := self._copied(output)) != self._expected:
                raise Violated(f"{output} is not as it was: {found}")
        for topic in (INPUT, *self._groups):
            records = {(topic, index): it for index, it in self._read(topic).items()}
            history.append(Operation(f"reader of {topic}", POLL, (Poll(records),)))
        wrong = forbidden(anomalies(history))
        if wrong:
            raise Violated(f"{len(wrong)} anomalies, {wrong[:ANOMALIES_TOLD_MAX]}")

    def _copied(self, output):
        """Partition -> the numbers that are there, which must be a beginning of all."""
        copied = {}
        for index, records in self._read(output).items():
            copied[index] = [value.split()[0] for _, value in records]
            if copied[index] != self._expected[index][: len(copied[index])]:
                raise Violated(f"{output}-{index}: {first_difference(records)}")
        return copied

    def _committed(self, group):
        """Partition -> how far the group says that it has read."""
        consumer = confluent_kafka.Consumer({**self._settings, "group.id": group})
        wanted = [confluent_kafka.TopicPartition(INPUT, index) for index in range(PARTITIONS)]
        with contextlib.closing(consumer):
            found = consumer.committed(wanted, READ_SECONDS_MAX)
        return {it.partition: max(it.offset, 0) for it in found}

    def _read(self, topic):
        """Partition -> [(offset, value)], all that is committed."""
        consumer = confluent_kafka.Consumer({**self._settings, "group.id": "judge"})
        consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        found, unread = {index: [] for index in range(PARTITIONS)}, set(range(PARTITIONS))
        deadline = time.monotonic() + READ_SECONDS_MAX
        with contextlib.closing(consumer):
            while unread:
                assert time.monotonic() < deadline, f"{topic} is not read within {READ_SECONDS_MAX} s"
                for message in consumer.consume(500, BETWEEN_READS_SECONDS):
                    if message.error() is None:
                        found[message.partition()].append((message.offset(), message.value().decode()))
                    elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                        unread.discard(message.partition())
        return found


def first_difference(records):
    """Where a partition is not as it should be, and what is there."""
    junk = [(offset, value) for offset, value in records if value.startswith(JUNK)]
    if junk:
        return f"{len(junk)} aborted records were read, {junk[:3]}"
    twice = [it for it, count in collections.Counter(value.split()[0] for _, value in records).items() if count > 1]
    steps = [
        (one, other)
        for one, other in itertools.pairwise(records)
        if int(other[1].split()[0]) != int(one[1].split()[0]) + PARTITIONS
    ]
    return f"begins with {records[:1]}, {len(twice)} numbers are there twice, steps {steps[:5]}"
