"""Reads, copies and commits, each batch as one transaction, until it is ended: `python ... BOOTSTRAP SEED`.

Rules of this file: it may be killed anywhere and is started again; whatever it cannot go on after ends it with code 1.
Now and then it writes what it then aborts. A line on the standard output for each transaction that it has committed.
A step that outlives its time limit ends it too, and its end is that of the process alone: when a broker comes back in a
certain moment, librdkafka 2.16 takes it for one to which it is not connected, and waits for ever to send what is to go
there (`send_offsets_to_transaction` ignores its time limit then), and for ever in its close.
"""

import contextlib
import faulthandler
import os
import random
import sys
import traceback

import confluent_kafka

PARTITIONS = 3
INPUT, OUTPUT, GROUP = "in", "out", "copying"
JUNK = b"junk"
BATCH_MAX = 500
ABORTED_SHARE = 0.2
STEP_SECONDS_MAX = 20
ROUND_SECONDS_MAX = STEP_SECONDS_MAX + 5
CONNECTION = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20, "log_level": 0}
"""A broker that was killed is back soon."""


def make(bootstrap):
    """A producer that has fenced whoever was here before, and only then a consumer that goes on where that one was."""
    common = {"bootstrap.servers": bootstrap, **CONNECTION}
    producer = confluent_kafka.Producer(
        {**common, "transactional.id": "copier", "transaction.timeout.ms": 30_000, "linger.ms": 0}
    )
    producer.init_transactions(STEP_SECONDS_MAX)
    consumer = confluent_kafka.Consumer(
        {
            **common,
            "group.id": GROUP,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(INPUT, index) for index in range(PARTITIONS)])
    return producer, consumer


def copy(producer, consumer, messages):
    """One transaction: the messages to the partitions of their origin, and how far that is."""
    producer.begin_transaction()
    ends = {}
    for message in messages:
        producer.produce(OUTPUT, message.value(), message.key(), message.partition())
        ends[message.partition()] = message.offset() + 1
    positions = [confluent_kafka.TopicPartition(INPUT, index, end) for index, end in ends.items()]
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), STEP_SECONDS_MAX)
    producer.commit_transaction(STEP_SECONDS_MAX)


def waste(producer):
    """One transaction that never was."""
    producer.begin_transaction()
    for index in range(PARTITIONS):
        producer.produce(OUTPUT, JUNK, None, index)
    producer.flush(STEP_SECONDS_MAX)
    producer.abort_transaction(STEP_SECONDS_MAX)


def main(bootstrap, seed):
    """Copy until killed."""
    chance = random.Random(seed)
    faulthandler.dump_traceback_later(ROUND_SECONDS_MAX, exit=True)
    producer, consumer = make(bootstrap)
    while True:
        faulthandler.dump_traceback_later(ROUND_SECONDS_MAX, exit=True)
        messages = [it for it in consumer.consume(BATCH_MAX, 0.1) if it.error() is None]
        if chance.random() < ABORTED_SHARE:
            waste(producer)
        if messages:
            copy(producer, consumer, messages)
            with contextlib.suppress(BrokenPipeError):
                print(len(messages), flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except BaseException:  # noqa: BLE001 - whatever it was, the end is the same
        traceback.print_exc()
        os._exit(1)
