"""Spark reads the same records from a stopped broker as confluent-kafka did from the running one."""

import random
from pathlib import Path

import confluent_kafka as ck
import confluent_kafka.admin as cka
import pytest
from click.testing import CliRunner

from pipeline_broker.cli import main
from pyspark_pipeline_broker.source import FORMAT
from tests.crashes.lengths import drawn

pytestmark = [
    pytest.mark.spark,
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]

WAIT_SECONDS = 20
VARIANTS = Path(__file__).parents[1] / "crashes" / "broker_variant.py"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ABORTED, UNDECIDED = 20, 2
"""Records of `write_transactions`."""
TOPICS = {
    "coded": (3, {}),
    "stamped": (1, {"message.timestamp.type": "LogAppendTime"}),
    "decided": (2, {}),
    "compacted": (1, {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.compaction.lag.ms": "0"}),
    "shortened": (1, {}),
    "again": (1, {}),
    "empty": (2, {}),
}
"""Partitions and settings of each."""


def quiet(broker, **settings):
    return {"bootstrap.servers": broker.bootstrap, "log_level": 0, "error_cb": lambda _: None, **settings}


def create(admin, *topics):
    made = admin.create_topics([cka.NewTopic(topic, TOPICS[topic][0], 1, config=TOPICS[topic][1]) for topic in topics])
    for topic in topics:
        made[topic].result(WAIT_SECONDS)


def fill_with_every_codec(broker):
    chance = random.Random(7)
    for codec in CODECS:
        producer = ck.Producer(quiet(broker, **{"compression.type": codec, "linger.ms": 20}))
        for number in range(300):
            headers = [("name", b"1"), ("name", None), ("ü", b"")] if number % 3 == 0 else None
            value = None if number % 11 == 0 else chance.randbytes(20) * chance.randrange(0, 60)
            key = None if number % 2 else b"%d" % number
            for topic in ("coded", "stamped"):
                partition = number % TOPICS[topic][0]
                producer.produce(topic, value, key, partition, timestamp=1_700_000_000_000 + number, headers=headers)
        assert producer.flush(WAIT_SECONDS) == 0


def write_transactions(broker):
    """Write committed and aborted transactions, side by side and beside other records; one stays open."""
    settings = [quiet(broker, **{"transactional.id": name}) for name in ("one", "other", "open")]
    one, other, unfinished = (ck.Producer(setting) for setting in settings)
    outside = ck.Producer(quiet(broker))
    for producer in (one, other, unfinished):
        producer.init_transactions(WAIT_SECONDS)
    for number in range(12):
        for producer in (one, other):
            producer.begin_transaction()
        for partition in (0, 1):
            one.produce("decided", f"one {number}", partition=partition)
            other.produce("decided", f"other {number}", partition=partition)
            outside.produce("decided", f"outside {number}" * 2000, partition=partition)
        for producer in (one, other, outside):
            assert producer.flush(WAIT_SECONDS) == 0
        (one.commit_transaction if number % 2 else one.abort_transaction)(WAIT_SECONDS)
        (other.commit_transaction if number % 3 else other.abort_transaction)(WAIT_SECONDS)
    unfinished.begin_transaction()
    for producer in (unfinished, outside):
        producer.produce("decided", "open, or after an open transaction", partition=1)
        assert producer.flush(WAIT_SECONDS) == 0


def overwrite_and_delete(broker, admin):
    producer = ck.Producer(quiet(broker, **{"linger.ms": 0, "batch.num.messages": 2}))
    for number in range(60):
        value = None if number % 7 == 0 else f"{number}".ljust(30_000, ".")
        producer.produce("compacted", value, f"key {number % 5}", 0)
        producer.produce("shortened", f"{number}", None, 0)
        producer.produce("again", f"old {number}", None, 0)
    assert producer.flush(WAIT_SECONDS) == 0
    compacted = CliRunner().invoke(main, ["compact", "--data", str(broker.data), "--topic", "compacted"])
    assert compacted.output == "compacted\n"
    (deleted,) = admin.delete_records([ck.TopicPartition("shortened", 0, 25)]).values()
    deleted.result(WAIT_SECONDS)
    admin.delete_topics(["again"])["again"].result(WAIT_SECONDS)
    create(admin, "again")
    producer.produce("again", "new", None, 0)
    assert producer.flush(WAIT_SECONDS) == 0


def consumed(broker, level):
    """Return all rows of all topics, by topic, partition and offset."""
    consumer = ck.Consumer(quiet(broker, **{"group.id": "g", "isolation.level": level, "enable.partition.eof": True}))
    partitions = [(topic, partition) for topic, (count, _) in TOPICS.items() for partition in range(count)]
    consumer.assign([ck.TopicPartition(*each, ck.OFFSET_BEGINNING) for each in partitions])
    found, ends = [], 0
    while ends < len(partitions):
        message = consumer.poll(WAIT_SECONDS)
        assert message is not None
        if message.error() is not None:
            assert message.error().code() == ck.KafkaError._PARTITION_EOF
            ends += 1
            continue
        kind, timestamp = message.timestamp()
        found.append(
            (
                message.topic(),
                message.partition(),
                message.offset(),
                timestamp,
                int(kind == ck.TIMESTAMP_LOG_APPEND_TIME),
                message.key(),
                message.value(),
                message.headers(),
            )
        )
    consumer.close()
    return sorted(found, key=lambda row: row[:3])


def read_by_spark(spark, directory, **options):
    frame = spark.read.format(FORMAT).options(includeHeaders="true", subscribe=",".join(TOPICS), **options)
    rows = frame.load(str(directory)).selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    found = [
        (
            row.topic,
            row.partition,
            row.offset,
            row.ms,
            row.timestampType,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            None if row.headers is None else [(it.key, it.value and bytes(it.value)) for it in row.headers],
        )
        for row in rows
    ]
    return sorted(found, key=lambda row: row[:3])


@pytest.mark.parametrize("mode", drawn("pipelined", "classic"))
def test_both_have_the_same_records(spark, broker_process, mode):
    broker = broker_process(mode=mode, program=(str(VARIANTS), "rolling"))
    admin = cka.AdminClient(quiet(broker))
    create(admin, *TOPICS)
    fill_with_every_codec(broker)
    write_transactions(broker)
    overwrite_and_delete(broker, admin)
    wanted = {level: consumed(broker, level) for level in ("read_committed", "read_uncommitted")}
    broker.stop()
    archived = {path.parent.name for path in (broker.data / "archive").rglob("*.log")}

    assert {f"coded-{number}" for number in range(3)} < archived
    assert len(wanted["read_uncommitted"]) - len(wanted["read_committed"]) == UNDECIDED + ABORTED
    for level, rows in wanted.items():
        assert read_by_spark(spark, broker.data, **{"kafka.isolation.level": level}) == rows
    assert read_by_spark(spark, broker.data) == wanted["read_committed"]
