"""Killed in the middle of transactions of real clients: each is there as a whole, or not at all.

Two producers write transactions over two partitions at once, commit most and abort some, until the broker is killed;
the next ones abort what their former selves left open, and go on. What was said to be committed is read once, what
was said to be aborted never; what was on its way counts either way, but as a whole.
"""

import contextlib
import random
import threading
import time

import attrs
import confluent_kafka
import pytest

from tests.conftest import start_broker
from tests.crashes.lengths import AT_LENGTH, drawn

pytestmark = [pytest.mark.faults]
MODES = pytest.mark.parametrize("mode", drawn("pipelined", "classic"))
TOPIC = "transactions"
PARTITIONS = 2
PRODUCERS = ("first", "second")
KILLS = 40 if AT_LENGTH else 4
BEFORE_KILL_SECONDS = (0.1, 0.8)
CALL_SECONDS_MAX = 2.0 if AT_LENGTH else 1.0
"""A call that waits for a broker that is gone takes as long; what became of its transaction is unknown either way."""
READY_SECONDS_MAX = 30.0
READ_SECONDS_MAX = 60.0
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@attrs.define
class Transaction:
    values: list
    outcome: str = UNKNOWN


class Writer:
    """One transactional id over the lives of the broker."""

    def __init__(self, name, dice):
        self.name, self.dice = name, dice
        self.transactions = []

    def begun(self, bootstrap):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": self.name, "linger.ms": 0, "log_level": 0}
        )
        producer.init_transactions(READY_SECONDS_MAX)
        return producer

    def write(self, producer, is_over):
        """Transaction after transaction, until a call fails or somebody says that it is over."""
        with contextlib.suppress(confluent_kafka.KafkaException, BufferError):
            while not is_over():
                self.write_one(producer)
        producer.purge()
        producer.flush(0)

    def write_one(self, producer):
        number = len(self.transactions)
        one = Transaction([f"{self.name}.{number}.{place}" for place in range(self.dice.randrange(1, 6))])
        self.transactions.append(one)
        producer.begin_transaction()
        for value in one.values:
            producer.produce(TOPIC, value, partition=self.dice.randrange(PARTITIONS))
        if self.dice.random() < 0.3:
            producer.flush(CALL_SECONDS_MAX)
            producer.abort_transaction(CALL_SECONDS_MAX)
            one.outcome = ABORTED
        else:
            producer.commit_transaction(CALL_SECONDS_MAX)
            one.outcome = COMMITTED


def life(broker, writers, dice):
    """Transactions until the broker is killed in the middle of them."""
    producers = [writer.begun(broker.bootstrap) for writer in writers]
    over = threading.Event()
    threads = [
        threading.Thread(target=writer.write, args=(producer, over.is_set))
        for writer, producer in zip(writers, producers, strict=True)
    ]
    for thread in threads:
        thread.start()
    time.sleep(dice.uniform(*BEFORE_KILL_SECONDS))
    broker.kill()
    over.set()
    for thread in threads:
        thread.join(READ_SECONDS_MAX)
        assert not thread.is_alive()
    broker.process.stdout.close()


def committed_values(bootstrap):
    """What a reader of committed records gets of all partitions, in the order of each."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    values, ended, deadline = [], set(), time.monotonic() + READ_SECONDS_MAX
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, f"{len(values)} values, and no end of {PARTITIONS - len(ended)} partitions"
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is None:
            values.append(message.value().decode())
        else:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ended.add(message.partition())
    consumer.close()
    return values


@MODES
def test_transactions_that_are_cut_short_are_there_as_a_whole_or_not_at_all(tmp_path, mode):
    """Case 8."""
    dice = random.Random(4711)
    writers = [Writer(name, random.Random(name)) for name in PRODUCERS]
    settings = [f"num.partitions={PARTITIONS}", "transaction.state.log.num.partitions=2"]
    for _ in range(KILLS):
        life(start_broker(tmp_path, mode=mode, settings=settings), writers, dice)
    broker = start_broker(tmp_path, mode=mode, settings=settings)
    for writer in writers:
        writer.begun(broker.bootstrap)
    values = committed_values(broker.bootstrap)
    broker.stop()
    broker.process.stdout.close()
    verify(writers, values)


def verify(writers, values):
    """Nothing twice, nothing of what was aborted, all of what was committed, and no part of anything."""
    found = set(values)
    assert len(found) == len(values), "a record came twice"
    for one in (one for writer in writers for one in writer.transactions):
        there = [value in found for value in one.values]
        assert all(there) or not any(there), f"a part of {one}"
        if one.outcome == COMMITTED:
            assert all(there), f"lost: {one}"
        if one.outcome == ABORTED:
            assert not any(there), f"came back: {one}"
        found.difference_update(one.values)
    assert not found, "nobody wrote that"
    outcomes = [one.outcome for writer in writers for one in writer.transactions]
    assert all(outcomes.count(outcome) for outcome in (COMMITTED, ABORTED, UNKNOWN)), "too little happened"


def transaction(outcome):
    return Transaction(["a", "b"], outcome)


@pytest.mark.parametrize(
    ("outcome", "values"),
    [
        (COMMITTED, ["a"]),
        (COMMITTED, []),
        (ABORTED, ["a", "b"]),
        (UNKNOWN, ["b"]),
        (COMMITTED, ["a", "b", "b"]),
        (UNKNOWN, ["c"]),
    ],
)
def test_what_must_not_be_is_noticed(outcome, values):
    writer = Writer("name", random.Random(1))
    writer.transactions = [transaction(outcome)]
    with pytest.raises(AssertionError, match=r"a part of|lost|came back|twice|nobody"):
        verify([writer], values)
