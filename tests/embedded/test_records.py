"""Topics and records of an embedded broker, without a client."""

import asyncio

import pytest

from pipeline_broker import EmbeddedBroker
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.embedded.errors import EmbeddedBrokerError, RefusedError, WaitTimeoutError
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.murmur2 import partition_of
from tests import transactional_batches


@pytest.fixture
def broker():
    with EmbeddedBroker() as started:
        yield started


def test_a_record_is_returned_as_produced(broker):
    produced = broker.produce("t", "välue", key=b"key", headers=[("a", "1"), ("a", None)], timestamp=1_700_000_000_000)
    (record,) = broker.records("t")
    assert record == produced
    assert (record.topic, record.partition, record.offset) == ("t", 0, 0)
    assert (record.key, record.value, record.headers) == (b"key", "välue".encode(), [("a", b"1"), ("a", None)])
    assert record.timestamp == 1_700_000_000_000


def test_a_value_that_is_not_text_or_bytes_is_refused(broker):
    for wrong in ({"value": 5}, {"value": "v", "key": {}}, {"value": "v", "headers": [("h", 1.5)]}):
        with pytest.raises(EmbeddedBrokerError, match=r"^produce: .* is neither text nor bytes nor None; encode it$"):
            broker.produce("t", **wrong)
    assert broker.topics() == {}


def test_null_is_not_empty(broker):
    broker.produce("t", None)
    broker.produce("t", b"")
    assert [(record.key, record.value) for record in broker.records("t")] == [(None, None), (None, b"")]


def test_a_key_selects_the_same_partition_as_in_kafkas_clients(broker):
    broker.create_topic("t", partitions=7)
    for number in range(20):
        broker.produce("t", "v", key=f"key-{number}")
    broker.produce("t", "v", partition=6)
    records = broker.records("t")
    assert len(records) == 21
    assert all(record.partition == partition_of(record.key, 7) for record in records if record.key)
    assert [(record.partition, record.offset) for record in records] == sorted(
        (record.partition, record.offset) for record in records
    )
    assert [record.key for record in broker.records("t", partition=6)][-1] is None


def test_log_append_time_is_returned(broker):
    broker.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
    produced = broker.produce("t", "v", timestamp=5)
    assert produced.timestamp > 1_700_000_000_000
    assert broker.records("t") == [produced]


def test_headers_are_pairs_or_a_dictionary(broker):
    broker.create_topic("t")
    assert broker.produce("t", "v", headers={"a": "1", "b": None}).headers == (("a", b"1"), ("b", None))
    assert broker.produce("t", "v", headers=[("a", "1"), ("a", b"2")]).headers == [("a", b"1"), ("a", b"2")]


def test_headers_are_a_list_and_equal_the_tuple_of_earlier_releases(broker):
    headers = broker.produce("t", "v", headers={"a": "1", "b": None}).headers
    assert headers == [("a", b"1"), ("b", None)]
    assert headers == (("a", b"1"), ("b", None))
    assert (("a", b"1"), ("b", None)) == headers  # noqa: SIM300 - the other side decides
    assert headers != (("a", b"1"),)
    assert dict(headers)["a"] == b"1"
    assert len({record for record in broker.records("t")}) == 1  # noqa: C416 - records can be in a set


@pytest.mark.parametrize(
    ("ask", "code", "begins"),
    [
        (lambda b: b.create_topic("t"), ErrorCode.TOPIC_ALREADY_EXISTS, "create_topic('t'): TOPIC_ALREADY_EXISTS: "),
        (lambda b: b.create_topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "create_topic('a/b'): INVALID_TOPIC"),
        (lambda b: b.create_topic("u", partitions=0), ErrorCode.INVALID_PARTITIONS, "create_topic('u'): "),
        (lambda b: b.create_topic("u", configs={"x": 1}), ErrorCode.INVALID_CONFIG, "create_topic('u'): "),
        (lambda b: b.delete_topic("u"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "delete_topic('u'): "),
        (lambda b: b.records("u"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "records('u'): "),
        (lambda b: b.produce("t", "v", partition=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "produce('t'): "),
        (lambda b: b.produce("t", bytes(2 << 20)), ErrorCode.MESSAGE_TOO_LARGE, "produce('t'): MESSAGE_TOO_LARGE"),
        (lambda b: b.produce("__consumer_offsets", "v"), ErrorCode.INVALID_TOPIC_EXCEPTION, "produce('__consumer"),
    ],
)
def test_refusals_have_kafkas_error(broker, ask, code, begins):
    broker.create_topic("t")
    with pytest.raises(RefusedError) as caught:
        ask(broker)
    assert caught.value.code is code
    assert str(caught.value).startswith(begins)


def test_deleting_a_topic_deletes_its_records(broker):
    broker.produce("t", "v")
    broker.delete_topic("t")
    assert broker.topics() == {}
    broker.create_topic("t")
    assert broker.records("t") == []


def append(broker, batch, topic="t"):
    """Append any batch like a client's, and return once it is durable."""

    def submit(running):
        from stages.committer import Submission

        log = running.broker.logs.find(topic, 0)
        entry = transactional_batches.produce(log, batch, 1_700_000_000_000).entry
        running.server.submit(Submission([entry]))

    broker.on_loop(submit)


def end(broker, producer_id, *, committed, topic="t"):
    def submit(running):
        from stages.committer import Submission

        log = running.broker.logs.find(topic, 0)
        appended = log.append_marker(producer_id, 0, committed=committed, coordinator_epoch=0, now_ms=1_700_000_000_000)
        running.server.submit(Submission([appended.entry]))

    broker.on_loop(submit)


def batch(value, producer_id, sequence=0):
    return build_batch(
        [NewRecord(value, None, 1_700_000_000_000)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )


def test_records_of_a_transaction_appear_once_committed_and_never_if_aborted(broker):
    broker.create_topic("t")
    append(broker, batch(b"committed", 1))
    append(broker, batch(b"aborted", 2))
    assert [record.value for record in broker.wait_records("t", 2, committed=False)] == [b"committed", b"aborted"]
    assert broker.records("t") == []
    end(broker, 2, committed=False)
    end(broker, 1, committed=True)
    append(broker, batch(b"open", 3))
    (record,) = broker.wait_records("t")
    assert (record.value, record.offset) == (b"committed", 0)
    everything = broker.wait_records("t", 3, committed=False)
    assert [(record.value, record.offset) for record in everything] == [
        (b"committed", 0),
        (b"aborted", 1),
        (b"open", 4),
    ]


def test_records_committed_after_an_aborted_transaction_appear(broker):
    broker.create_topic("t")
    for sequence, (value, is_committed) in enumerate(((b"aborted", False), (b"committed", True), (b"too", True))):
        append(broker, batch(value, 1, sequence))
        end(broker, 1, committed=is_committed)
    assert [record.value for record in broker.wait_records("t", 2)] == [b"committed", b"too"]
    assert len(broker.records("t", committed=False)) == 3


def test_a_wait_counts_later_records_and_can_start_before_the_topic_exists(broker):
    import threading

    def produce():
        for number in range(5):
            broker.produce("late", str(number))

    producer = threading.Thread(target=produce)
    producer.start()
    records = broker.wait_records("late", 5)
    producer.join()
    assert [record.value for record in records] == [b"0", b"1", b"2", b"3", b"4"]


def test_records_of_several_reads_and_segments_are_in_order(broker):
    """A read takes 1 MB and a segment 4 MB, so some records are read from the archive."""
    values = [bytes([number]) * 900_000 for number in range(12)]
    for value in values:
        broker.produce("t", value)
    assert [record.value for record in broker.records("t")] == values
    assert broker.on_loop(lambda running: running.broker.logs.journal.segment_count) < 12


def test_records_before_the_log_start_are_omitted_even_within_a_batch(broker):
    broker.create_topic("t")
    records = [NewRecord(b"%d" % number, None, 1_700_000_000_000) for number in range(4)]
    append(broker, build_batch(records))
    broker.wait_records("t", 4)
    broker.on_loop(lambda running: running.broker.logs.find("t", 0).raise_log_start(2))
    assert [record.value for record in broker.records("t")] == [b"2", b"3"]
    assert len(broker.wait_records("t", 2)) == 2


def test_an_error_names_records_of_open_transactions_and_those_after_their_start(broker):
    broker.create_topic("t")
    append(broker, batch(b"aborted", 2))
    end(broker, 2, committed=False)
    broker.produce("t", "there")
    append(broker, batch(b"open", 1))
    broker.wait_records("t", 3, committed=False)
    with pytest.raises(
        WaitTimeoutError, match=r"has 1 of 2 records, after 0.01 s; 1 record is in an open transaction$"
    ):
        broker.wait_records("t", 2, timeout=0.01)
    append(broker, batch(b"open, too", 3))
    broker.produce("t", "later")
    broker.wait_records("t", 5, committed=False)
    cause = "2 records are in an open transaction and 1 record is after the start of one"
    with pytest.raises(AssertionError, match=rf"\n- 'open'\n{cause}$"):
        broker.assert_records("t", ["there", "open"], timeout=0.01)
    with pytest.raises(WaitTimeoutError, match=r"has 5 of 6 records, after 0.01 s$"):
        broker.wait_records("t", 6, timeout=0.01, committed=False)
    missing = "partition 1 does not exist; the number of partitions is 1"
    with pytest.raises(WaitTimeoutError, match=rf"has 0 of 1 records, after 0.01 s; {missing}$"):
        broker.wait_records("t", 1, partition=1, timeout=0.01)


def test_an_error_names_a_missing_topic_and_a_similar_one(broker):
    for name in ("orders", "payments"):
        broker.create_topic(name)
    no_partition = "partition 1 does not exist; the number of partitions is 1$"
    with pytest.raises(RefusedError, match=rf"^records\('orders'\): UNKNOWN_TOPIC_OR_PARTITION: {no_partition}"):
        broker.records("orders", partition=1)
    missing = r"the topic does not exist; did you mean orders\?"
    with pytest.raises(RefusedError, match=rf": UNKNOWN_TOPIC_OR_PARTITION: {missing}$"):
        broker.records("ordrs")
    with pytest.raises(WaitTimeoutError, match=rf"has 0 of 1 records, after 0.01 s; {missing}$"):
        broker.wait_records("ordrs", timeout=0.01)
    with pytest.raises(WaitTimeoutError, match=rf"^no consumer fetches from 'ordrs': {missing}, after 0.01 s$"):
        broker.wait_fetching("ordrs", timeout=0.01)
    with pytest.raises(AssertionError, match=rf"\n- 'v'\n{missing}$"):
        broker.assert_records("ordrs", ["v"], timeout=0.01)
    with pytest.raises(AssertionError, match=r"\n- 'v'\nthe topic does not exist$"):
        broker.assert_records("something-else", ["v"], timeout=0.01)


def test_no_records_of_a_partition_that_does_not_exist_are_an_error(broker):
    broker.create_topic("one-partition")
    for expected in ([], ["v"]):
        with pytest.raises(RefusedError, match=r"partition 1 does not exist; the number of partitions is 1$"):
            broker.assert_records("one-partition", expected, partition=1, timeout=0.01)


def test_an_assertion_in_an_event_loop_names_the_method_to_await(broker):
    async def check():
        broker.assert_records("t", ["v"])

    with pytest.raises(
        EmbeddedBrokerError, match=r"^assert_records would block .* await assert_records_async instead$"
    ):
        asyncio.run(check())
