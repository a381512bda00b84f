"""Appended batches are committed, whatever happens to the answer."""

import logging

import pytest

from pipeline_broker.apis import produce_template
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.data import produce
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.errors import CHECKSUM, NO_KEY
from pipeline_broker.security.authorizer import Authorizer
from pipeline_broker.security.refusals import Refusals
from pipeline_broker.state.internal_topics import OFFSETS_TOPIC
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.primitives import ELEMENTS_A_TURN
from pipeline_broker.wire.registry import ApiKey
from stages.request import NO_OP, Close, Pending, Request, Send, Unfinished, go_on
from tests.apis.counted import Counted
from tests.apis.desk import Connection, Desk
from tests.apis.remembered import remembered
from tests.tables import each_row

VERSION = 9


@pytest.fixture
def desk():
    desk = Desk("num.partitions=2")
    broker = desk.broker
    result = broker.commit_metadata([(broker.topics.create(broker.new_topic("t")), broker.topic_durable)], 0, NO_OP)
    desk.commit(list(result.entries))
    result.on_durable()
    return desk


def request(value, *partitions, acks=-1):
    data = [
        ProduceRequest.PartitionProduceData(index, build_batch([NewRecord(value, None, 0)])) for index in partitions
    ]
    return ProduceRequest(acks=acks, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=data)])


def damaged(batch):
    return batch[:-1] + bytes([batch[-1] ^ 1])


def one_of(*batches, acks=-1, topic="t"):
    data = [ProduceRequest.PartitionProduceData(index, batch) for index, batch in enumerate(batches)]
    return ProduceRequest(acks=acks, topic_data=[ProduceRequest.TopicProduceData(topic, partition_data=data)])


PLAIN = build_batch([NewRecord(b"1", None, 0)])
OF_EARLIER_TIMES = bytes(8) + (20).to_bytes(4, "big") + bytes(4) + b"\1" + bytes(15)
IN_THE_FUTURE = build_batch([NewRecord(b"1", None, 10**12)] * 3)
WITHOUT_KEYS = build_batch([NewRecord(b"1", None, 0)] * 3)
LARGE = build_batch([NewRecord(bytes(2 << 20), None, 0)])
AFTER_A_GAP = build_batch([NewRecord(b"1", None, 0)], producer_id=7, producer_epoch=0, base_sequence=5)


def lengths(desk):
    return [(log.high_watermark, log.log_end_offset) for log in desk.broker.logs.partitions("t")]


def broken(*_):
    raise RuntimeError("a bug")


@pytest.mark.parametrize("acks", [-1, 0])
def test_appended_batches_are_committed_if_the_answer_fails(desk, monkeypatch, caplog, acks):
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(produce, "_count", broken)
    result = desk.decide(request(b"1", 0, 1, acks=acks), VERSION)
    assert isinstance(result, Pending)
    assert isinstance(result.result, Close)
    assert len(result.entries) == 2
    desk.commit(list(result.entries))
    assert lengths(desk) == [(1, 1), (1, 1)]
    monkeypatch.undo()
    desk.ask(request(b"2", 0, 1), VERSION)
    again = desk.restart()
    assert lengths(again) == [(2, 2), (2, 2)]


def test_the_same_holds_on_the_fast_path(desk, monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL)
    for value in (b"1", b"2"):
        desk.ask(request(value, 0), VERSION)
    (template,) = desk.connection.session.produce_templates._by_prefix.values()
    monkeypatch.setattr(template, "pack", broken)
    result = desk.decide(request(b"3", 0), VERSION)
    assert isinstance(result.result, Close)
    desk.commit(list(result.entries))
    again = desk.restart()
    assert lengths(again)[0] == (3, 3)


def test_batches_that_were_not_appended_are_refused_in_the_logs(desk, monkeypatch, caplog):
    """The second partition is never reached, so only the first one's batch is committed."""
    caplog.set_level(logging.CRITICAL)
    appended = []
    original = produce._append

    def append_once(call, batch, admission):
        if appended:
            raise RuntimeError("a bug")
        appended.append(batch.index)
        return original(call, batch, admission)

    monkeypatch.setattr(produce, "_append", append_once)
    result = desk.decide(request(b"1", 0, 1), VERSION)
    assert [entry.log.partition for entry in result.entries] == [0]
    desk.commit(list(result.entries))
    assert lengths(desk) == [(1, 1), (0, 0)]
    assert desk.ask(FetchRequest(topics=[]), 12).error_code == 0


def test_templates_are_bounded_on_a_connection_and_on_all_together_and_go_with_their_connection(desk, monkeypatch):
    for partition in (0, 0, 1, 1):
        desk.ask(request(b"1", partition), VERSION)
    assert remembered(desk) == 2
    session = desk.connection.session

    desk.connection = Connection()
    desk.broker.edges.bytes_max = 8 * 2 * produce_template.TEMPLATE_BYTES  # enough for one template per connection
    for partition in (0, 1):
        desk.ask(request(b"2", partition), VERSION)
    assert remembered(desk) == 3
    desk.dispatcher.connection_closed(session)
    assert remembered(desk) == 1

    monkeypatch.setattr(produce_template, "TEMPLATES_MAX", 1)
    desk.ask(request(b"3", 1), VERSION)
    assert remembered(desk) == 1
    desk.dispatcher.connection_closed(desk.connection.session)
    assert remembered(desk) == 0
    assert lengths(desk) == [(3, 3), (4, 4)]


def idempotent(sequence, *partitions, acks=-1):
    batch = build_batch([NewRecord(b"1", None, 0)], producer_id=7, producer_epoch=0, base_sequence=sequence)
    data = [ProduceRequest.PartitionProduceData(index, batch) for index in partitions]
    return ProduceRequest(acks=acks, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=data)])


def test_a_duplicate_is_not_answered_before_its_original_is_durable(desk):
    """A power cut could lose the original, so the answer waits, without an entry of its own."""
    original = desk.decide(idempotent(0, 0), VERSION)
    assert desk.connection.session.produce_templates is not None  # so later requests take the fast path
    again = idempotent(0, 0)
    duplicate = desk.decide(again, VERSION)
    assert isinstance(duplicate, Pending)
    assert not duplicate.entries
    answer = desk.finish(again, VERSION, duplicate).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, original.entries[0].base_offset)
    desk.commit(list(original.entries))
    assert isinstance(desk.decide(again, VERSION), Send)


def test_one_undurable_duplicate_among_batches_delays_the_answer(desk):
    desk.ask(idempotent(0, 1), VERSION)
    desk.decide(idempotent(0, 0), VERSION)
    duplicates = desk.decide(idempotent(0, 0, 1), VERSION)
    assert isinstance(duplicates, Pending)
    assert not duplicates.entries
    assert isinstance(desk.decide(idempotent(0, 1), VERSION), Send)  # the other one alone


def test_duplicates_whose_originals_are_durable_are_answered_at_once(desk):
    desk.ask(idempotent(0, 0, 1), VERSION)
    assert isinstance(desk.decide(idempotent(0, 0, 1), VERSION), Send)


def test_batches_after_those_that_a_failed_produce_omitted_are_refused(desk, monkeypatch):
    """Invariant 7: the first batch of a partition was refused, so the second one is refused too."""
    monkeypatch.setattr(logging.getLogger(produce.__name__), "disabled", True)
    original = produce._append

    def append_first(call, batch, admission):
        if batch.index:
            raise RuntimeError("a bug")
        return original(call, batch, admission)

    monkeypatch.setattr(produce, "_append", append_first)
    desk.commit(list(desk.decide(idempotent(0, 0, 1), VERSION).entries))
    monkeypatch.setattr(produce, "_append", original)
    answers = desk.ask(idempotent(1, 0, 1), VERSION).responses[0].partition_responses
    assert [ErrorCode(it.error_code).name for it in answers] == ["NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert lengths(desk) == [(2, 2), (0, 0)]


@pytest.mark.parametrize("partitions", [(0, 1), (1, 0)], ids=["in the first partition", "in the last"])
@pytest.mark.parametrize("other", [PLAIN, OF_EARLIER_TIMES, b"", None], ids=["sound", "old", "empty", "null"])
def test_one_batch_of_a_transaction_makes_the_whole_request_transactional(desk, partitions, other):
    """CVE-2018-17196: the right to the transactional id is required wherever the transactional batch stands.

    The other batch may be anything except damaged.
    """
    in_transaction = build_batch(
        [NewRecord(b"1", None, 0)], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    batches = dict(zip(partitions, (in_transaction, other), strict=True))
    data = [ProduceRequest.PartitionProduceData(index, batches[index]) for index in (0, 1)]
    topic = ProduceRequest.TopicProduceData("t", partition_data=data)
    answers = desk.ask(ProduceRequest(None, -1, 0, [topic]), VERSION).responses[0].partition_responses
    assert [ErrorCode(it.error_code).name for it in answers] == ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"] * 2
    assert lengths(desk) == [(0, 0), (0, 0)]


def answers(desk, message, version=VERSION):
    found = desk.ask(message, version).responses[0].partition_responses
    return [ErrorCode(it.error_code).name for it in found]


@pytest.mark.parametrize(("version", "expected"), [(6, "UNSUPPORTED_COMPRESSION_TYPE"), (7, "NONE")])
def test_zstandard_is_accepted_from_version_7(desk, version, expected):
    batch = build_batch([NewRecord(b"1", None, 0)], compression=4)
    for _ in range(2):  # the second one on the short way, where there is one
        data = [ProduceRequest.PartitionProduceData(0, batch)]
        message = ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=data)])
        assert answers(desk, message, version) == [expected]


@pytest.mark.parametrize("version", [12, 13])
def test_topics_have_names_up_to_version_12_and_ids_from_13(desk, version):
    message = request(b"1", 0)
    assert answers(desk, message, version) == ["NONE" if version == 12 else "UNKNOWN_TOPIC_ID"]
    message.topic_data[0].topic_id = desk.broker.topics.get("t").topic_id
    message.topic_data[0].name = "t" if version == 12 else ""
    assert answers(desk, message, version) == ["NONE"]
    assert lengths(desk)[0] == ((2, 2) if version == 12 else (1, 1))


@pytest.mark.parametrize("version", [12, 13])
def test_a_refused_request_leaves_a_gap_in_the_partitions_that_it_names(desk, version):
    """So later batches of its producers are refused too; other producers are not affected."""

    def named(message):
        message.topic_data[0].topic_id = desk.broker.topics.get("t").topic_id
        return message

    message = named(idempotent(0, 0, 1))
    message.topic_data[0].partition_data[1].records = b"nonsense" * 10  # a header that cannot be: all are refused
    assert answers(desk, message, version) == ["CORRUPT_MESSAGE"] * 2
    assert answers(desk, named(idempotent(1, 0, 1)), version) == ["OUT_OF_ORDER_SEQUENCE_NUMBER", "NONE"]


def test_a_refused_request_of_a_client_without_rights_leaves_no_gap(desk):
    """Else it could make a log refuse the batches of another client, whose producer id it names."""
    message = idempotent(0, 0, 1)
    message.topic_data[0].partition_data[1].records = b"nonsense" * 10
    desk.broker.authorizer = Authorizer(desk.broker.acls, denials=Refusals(lambda: desk.now_ms))
    assert answers(desk, message, 12) == ["CORRUPT_MESSAGE"] * 2
    desk.broker.authorizer = None
    assert answers(desk, idempotent(1, 0, 1), 12) == ["NONE", "NONE"]


@pytest.mark.parametrize("empty", [None, b""])
@pytest.mark.parametrize("place", [0, 1])
def test_a_partition_without_records_is_refused_alone(desk, empty, place):
    message = request(b"1", 0, 1)
    message.topic_data[0].partition_data[place].records = empty
    codes = answers(desk, message)
    assert codes[1 - place] == "NONE"
    assert codes[place] != "NONE"
    assert lengths(desk)[1 - place] == (1, 1)


def test_a_long_answer_is_made_in_steps(desk, monkeypatch):
    monkeypatch.setattr(produce, "ANSWERED_IN_A_TURN", 1)
    assert isinstance(desk.decide(request(b"1", 0), VERSION), Pending)
    message = request(b"2", 0, 1)
    result = desk.decide(message, VERSION)
    assert isinstance(result.first, Pending)
    desk.commit(list(result.first.entries))
    result = go_on(result.steps)
    assert isinstance(result, Pending), "its few partitions fit into one turn"
    answer = desk.finish(message, VERSION, result)
    assert [it.error_code for it in answer.responses[0].partition_responses] == [0, 0]


def test_a_long_answer_is_encoded_in_steps(desk, monkeypatch):
    for cost in ("LOOK_COST", "CHECK_COST", "APPEND_COST"):
        monkeypatch.setattr(produce, cost, 0)
    message = one_of(*[None] * (ELEMENTS_A_TURN + 1))
    result = desk.decide(message, VERSION)
    assert type(result) is Unfinished
    assert result.first is None, "nothing was appended that it could wait for"
    encoded = []
    encode_in_steps = Call.send_in_steps
    monkeypatch.setattr(Call, "send_in_steps", lambda *given: encoded.append(given) or encode_in_steps(*given))
    assert len(desk.finish(message, VERSION, result).responses[0].partition_responses) == ELEMENTS_A_TURN + 1
    assert len(encoded) == 1
    desk.ask(one_of(None), VERSION)
    assert len(encoded) == 1, "a short one is encoded at once"


START, NOWHERE = 1, -1


def refused(topic="t", *, is_failure=False):
    return "produce_refused", topic, is_failure


REFUSALS = {
    "a partition that is not there": (
        request(b"1", 9),
        ("UNKNOWN_TOPIC_OR_PARTITION", NOWHERE),
        [("produce_refused", None)],
    ),
    "a topic of the broker": (
        one_of(PLAIN, topic=OFFSETS_TOPIC),
        ("INVALID_TOPIC_EXCEPTION", NOWHERE),
        [refused(OFFSETS_TOPIC)],
    ),
    "acks of 2": (one_of(PLAIN, acks=2), ("INVALID_REQUIRED_ACKS", NOWHERE), [refused()]),
    "acks of -2": (one_of(PLAIN, acks=-2), ("INVALID_REQUIRED_ACKS", NOWHERE), [refused()]),
    "a wrong checksum": (
        one_of(damaged(PLAIN)),
        ("CORRUPT_MESSAGE", NOWHERE),
        [refused(), ("records_faulty", CHECKSUM, 1)],
    ),
    "too many bytes": (
        one_of(LARGE),
        ("MESSAGE_TOO_LARGE", NOWHERE),
        [refused(), ("bytes_rejected", "t", len(LARGE))],
    ),
    "records of the future": (one_of(IN_THE_FUTURE), ("INVALID_TIMESTAMP", START), [refused(is_failure=True)]),
    "records without a key": (
        one_of(WITHOUT_KEYS, topic="compacted"),
        ("INVALID_RECORD", 0),
        [refused("compacted", is_failure=True), ("records_faulty", NO_KEY, 3)],
    ),
    "a sequence after a gap": (
        one_of(AFTER_A_GAP),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", START),
        [refused(is_failure=True)],
    ),
}


@pytest.fixture
def begun(desk):
    """A desk with three topics: one whose log does not start at 0, one of a coordinator, and a compacted one."""
    desk.create_topic(OFFSETS_TOPIC)
    compacted = CreateTopicsRequest.CreatableTopicConfig("cleanup.policy", "compact")
    topic = CreateTopicsRequest.CreatableTopic("compacted", 1, 1, configs=[compacted])
    assert desk.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5).topics[0].error_code == 0
    for sequence in range(2):
        desk.ask(idempotent(sequence, 0), VERSION)
    desk.broker.logs.find("t", 0).raise_log_start(START)
    return desk


@each_row("message, expected, told", REFUSALS.values(), REFUSALS)
def test_a_refusal_has_message_and_log_start_and_is_counted_as_in_kafka(begun, message, expected, told):
    """Kafka does not count every refusal as a failure, and early ones have no log start offset."""
    begun.broker.topic_metrics = counted = Counted()
    (found,) = begun.ask(message, VERSION).responses[0].partition_responses
    assert (ErrorCode(found.error_code).name, found.log_start_offset) == expected
    assert (found.base_offset, counted.told) == (-1, told)


@pytest.mark.parametrize("refusal", [b"nonsense" * 10, damaged(PLAIN)], ids=["as a whole", "of a batch"])
def test_without_an_answer_a_refusal_closes_the_connection_and_its_error_counts(desk, refusal):
    """Observers see the answer that would have been sent."""
    message = one_of(refusal, None, acks=0)
    frame = encode_request_header(RequestHeader(ApiKey.PRODUCE, VERSION, 1, "desk"))
    handled = Request(desk.connection, 1, frame + b"".join(map(bytes, encode(message, VERSION))), 0)
    assert isinstance(desk.do_steps(desk.dispatcher.handle(handled)), Close)
    found, _ = handled.answer.responses[0].partition_responses
    assert found.error_code == ErrorCode.CORRUPT_MESSAGE
