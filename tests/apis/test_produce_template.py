"""The fast path of Produce answers and stores like the general path, and accepts nothing else."""

import pytest

from pipeline_broker.apis import produce_template
from pipeline_broker.apis.produce_template import FLEXIBLE_FROM, ZSTD_FROM
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records import record_walk
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.compression import Compression
from pipeline_broker.security.acl import AclBinding, AclOperation, PatternType, PermissionType, ResourceType
from pipeline_broker.security.authorizer import Authorizer
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.registry import ApiKey
from stages.request import Pending, Request, Send, Unfinished
from tests.apis.desk import Connection, Desk
from tests.apis.remembered import remembered
from tests.apis.transactions.transaction_desk import TRANSACTION, Producer

VERSIONS = range(3, 14)
LONG_RECORDS = (1, *range(56, 63), 127, 16_300, *range(16_308, 16_314), 16_384, 40_000, 2_100_000, 5)
"""Bytes of a value: around the sizes at which the length of the records becomes a byte longer, and back."""
CORRELATION = 77


@pytest.fixture
def desk():
    desk = Desk("num.partitions=2", "message.max.bytes=4000000")
    desk.create_topic("t")
    return desk


def batch_of(size_bytes):
    return build_batch([NewRecord(b"x" * size_bytes, None, 0)])


def request_of(desk, records, *partitions, acks=-1):
    data = [ProduceRequest.PartitionProduceData(index, records) for index in partitions or (0,)]
    topic_id = desk.broker.topics.get("t").topic_id
    return ProduceRequest(acks=acks, topic_data=[ProduceRequest.TopicProduceData("t", topic_id, data)])


def frame_of(message, version):
    header = RequestHeader(ApiKey.PRODUCE, version, CORRELATION, "desk")
    return encode_request_header(header) + b"".join(map(bytes, encode(message, version)))


def result_of(desk, frame):
    """Return the durable result of a frame."""
    request = Request(desk.connection, 1, frame, 0)
    result = desk.do_steps(desk.dispatcher.handle(request))
    if isinstance(result, Pending):
        desk.commit(list(result.entries))
        result = result.result
    return b"".join(map(bytes, result.parts)) if isinstance(result, Send) else result


def outcome_of(desk, frame):
    """Return the type of a frame's result or error, and the number of its stored batches."""
    log = desk.broker.logs.partitions("t")[0]
    before = log.log_end_offset
    try:
        kind = type(result_of(desk, frame))
    except Exception as error:  # noqa: BLE001 - the dispatcher's caller answers it
        kind = type(error)
    return kind, log.log_end_offset - before


@pytest.fixture
def ways(monkeypatch):
    """Return the number of requests on the fast path, and the number that tried it."""
    taken = {"short": 0, "tried": 0}
    handle = produce_template.ProduceTemplates.handle

    def counting(*arguments):
        result = handle(*arguments)
        taken["tried"] += 1
        taken["short"] += result is not None
        return result

    monkeypatch.setattr(produce_template.ProduceTemplates, "handle", counting)
    return taken


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_of_any_length_are_stored_and_answered_as_on_the_general_path(desk, version, ways):
    """All but the first request of a connection take the fast path, whatever the size of the length field."""
    other = Desk("num.partitions=2", "message.max.bytes=4000000")
    other.create_topic("t")
    lasting = desk.connection
    for size_bytes in LONG_RECORDS:
        records = batch_of(size_bytes)
        new = Connection()
        for desk.connection in (lasting, new, new):
            answer = result_of(desk, frame_of(request_of(desk, records), version))
            other.connection = Connection()  # which has no templates
            assert answer == result_of(other, frame_of(request_of(other, records), version)).replace(
                other.broker.topics.get("t").topic_id, desk.broker.topics.get("t").topic_id
            )
    (log, _), (other_log, _) = desk.broker.logs.partitions("t"), other.broker.logs.partitions("t")
    assert log.high_watermark == other_log.high_watermark == 3 * len(LONG_RECORDS)
    read = [b"".join(it.read(0, 1 << 30, at_least_one=True, committed=False).parts) for it in (log, other_log)]
    assert read[0] == read[1]
    assert ways["short"] == 2 * len(LONG_RECORDS) - 1, "once for each new one, and for the lasting one but once"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_shorter_or_longer_frame_does_not_match_a_template(desk, version):
    records = batch_of(100)
    frame = frame_of(request_of(desk, records), version)
    for _ in range(2):
        assert isinstance(result_of(desk, frame), bytes)
    place = frame.index(records) - 1  # the last byte of their length
    longer, shorter = (frame[:place] + bytes([frame[place] + change]) + frame[place + 1 :] for change in (1, -1))
    cut = (frame[:-1], frame[:-3], frame[: len(frame) - len(records)])
    for changed in (*cut, longer, shorter, frame + b"\0", frame[:-1] + b"\1"):
        with_templates = outcome_of(desk, changed)
        connection, desk.connection = desk.connection, Connection()
        assert with_templates == outcome_of(desk, changed)
        desk.connection = connection


@pytest.mark.parametrize(
    ("acks", "partitions", "is_remembered"), [(-1, (0,), True), (1, (1,), True), (0, (0,), False), (-1, (0, 1), False)]
)
def test_a_request_of_one_batch_that_is_answered_is_remembered(desk, acks, partitions, is_remembered):
    result_of(desk, frame_of(request_of(desk, batch_of(1), *partitions, acks=acks), 9))
    assert remembered(desk) == is_remembered
    if is_remembered:
        assert [log.partition for log in desk.connection.session.produce_templates.logs(9)] == [*partitions]


def test_the_templates_of_a_connection_end_with_it(desk):
    """The broker counts them for all connections, up to a limit."""
    result_of(desk, frame_of(request_of(desk, batch_of(1), 0, acks=-1), 9))
    assert remembered(desk) == 1
    desk.dispatcher.connection_closed(desk.connection.session)
    assert remembered(desk) == 0


@pytest.mark.parametrize("place", [0, 1])
def test_a_request_with_another_topic_without_partitions_is_not_remembered(desk, place):
    """Its answer names that topic too."""
    message = request_of(desk, batch_of(1))
    message.topic_data.insert(place, ProduceRequest.TopicProduceData("u"))
    assert len(desk.ask(message, 9).responses) == 2
    assert remembered(desk) == 0


def test_requests_with_another_prefix_length_replace_the_templates(desk):
    """A connection looks for one prefix length only, so the other templates would be useless."""
    for name in ("t", "longer", "t"):
        if desk.broker.topics.get(name) is None:
            desk.create_topic(name)
        message = request_of(desk, batch_of(1))
        message.topic_data[0].name = name
        for _ in range(2):
            assert not desk.ask(message, 9).responses[0].partition_responses[0].error_code
        assert [log.topic for log in desk.connection.session.produce_templates.logs(9)] == [name]
        assert remembered(desk) == 1


def test_a_request_of_a_transaction_is_not_remembered(desk):
    """Each request is checked: the transaction must be open and include the partition."""
    desk.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["x"]), 4)
    producer = Producer(desk)
    for _ in range(2):  # the first is committed together with a record about the transaction
        assert not desk.ask(producer.produce(0), 12).responses[0].partition_responses[0].error_code
    assert remembered(desk) == 0


def test_a_topic_that_changes_drops_all_templates(desk, ways):
    frame = frame_of(request_of(desk, batch_of(1)), 9)
    for _ in range(3):
        result_of(desk, frame)
    assert (ways["short"], remembered(desk)) == (2, 1)
    desk.create_topic("u")
    assert result_of(desk, frame)
    assert (ways["short"], remembered(desk)) == (2, 1)
    assert result_of(desk, frame)
    assert ways["short"] == 3


def test_no_partition_of_a_topic_that_changed_keeps_its_template(desk):
    """Otherwise batches would be appended to the log of a deleted topic."""
    frames = [frame_of(request_of(desk, batch_of(1), partition), 9) for partition in (0, 1)]
    for frame in frames * 2:
        result_of(desk, frame)
    states = [DeleteTopicsRequest.DeleteTopicState("t")]
    assert not desk.ask(DeleteTopicsRequest(topics=states, timeout_ms=1000), 6).responses[0].error_code
    desk.create_topic("t")
    for frame in frames:
        result_of(desk, frame)
    assert [log.high_watermark for log in desk.broker.logs.partitions("t")] == [1, 1]


def test_a_right_revoked_during_a_check_refuses_the_next_batch(desk, monkeypatch):
    """Otherwise a template would keep the revoked right."""
    monkeypatch.setattr(record_walk, "RECORDS_A_TURN", 3)
    right = AclBinding(
        ResourceType.TOPIC, "t", PatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.WRITE, PermissionType.ALLOW
    )
    acls = desk.broker.acls
    desk.broker.authorizer = Authorizer(acls)
    desk.broker.acls_durable(acls.add([right]))
    message = request_of(desk, build_batch([NewRecord(b"x", None, 0)] * 10))
    begun = desk.decide(message, 9)
    assert isinstance(begun, Unfinished)
    desk.broker.acls_durable(acls.remove([right]))
    assert not desk.finish(message, 9, begun).responses[0].partition_responses[0].error_code, "it was allowed then"
    answer = desk.ask(request_of(desk, batch_of(1)), 9).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_request_of_another_version_is_not_answered_like_the_last(desk):
    """The bytes around the records are the same, those of the answer are not."""
    for versions in ((4, 5), (5, 4), (7, 8), (8, 7), (9, 10)):
        for version in versions:
            answer = desk.ask(request_of(desk, batch_of(1)), version)  # which fails where bytes are left
            assert answer.responses[0].partition_responses[0].log_start_offset == (0 if version >= 5 else -1)


def test_a_request_of_another_version_replaces_a_template_at_the_limit(desk, ways, monkeypatch):
    monkeypatch.setattr(produce_template, "TEMPLATES_MAX", 1)
    for version in (4, 5, 5):
        desk.ask(request_of(desk, batch_of(1)), version)
    assert (remembered(desk), ways["short"]) == (1, 1)


def test_refused_batches_are_answered_on_the_general_path(desk, ways):
    good, bad = batch_of(1), bytearray(batch_of(1))
    bad[-1] ^= 1  # so that the checksum is wrong
    for _ in range(2):
        result_of(desk, frame_of(request_of(desk, good), 9))
    assert ways["short"] == 1
    answer = desk.ask(request_of(desk, bytes(bad)), 9).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (2, -1)
    assert ways["short"] == 1


def test_the_request_says_with_which_acks_it_was_answered(desk):
    for acks in (1, -1, 1, -1):
        request = Request(desk.connection, 1, frame_of(request_of(desk, batch_of(1), acks=acks), 9), 0)
        desk.dispatcher.handle(request)
        assert request.acks == acks


def test_a_batch_with_a_longer_length_field_takes_the_fast_path_in_every_version(desk, ways):
    for version in (FLEXIBLE_FROM - 1, FLEXIBLE_FROM):
        ways["short"] = 0
        for _ in range(2):
            result_of(desk, frame_of(request_of(desk, batch_of(500)), version))
        assert ways["short"] == 1


@pytest.mark.parametrize(("version", "short"), [(ZSTD_FROM - 1, 0), (ZSTD_FROM, 1)])
def test_zstandard_takes_the_fast_path_from_its_first_version(desk, ways, version, short):
    result_of(desk, frame_of(request_of(desk, batch_of(50)), version))
    batch = build_batch([NewRecord(b"x" * 50, None, 0)], compression=Compression.ZSTD)
    result_of(desk, frame_of(request_of(desk, batch), version))
    assert ways["short"] == short


def test_a_duplicate_on_the_fast_path_is_counted_once(desk, ways):
    batch = build_batch([NewRecord(b"x")], producer_id=7, producer_epoch=0, base_sequence=0)
    answers = {result_of(desk, frame_of(request_of(desk, batch), 9)) for _ in range(3)}
    assert (len(answers), ways["short"]) == (1, 2)
    assert desk.broker.logs.partitions("t")[0].duplicates == 2


@pytest.mark.parametrize("version", [FLEXIBLE_FROM - 1, FLEXIBLE_FROM])
def test_a_frame_cut_within_the_length_of_its_records_fails_as_on_the_general_path(desk, version):
    frame = frame_of(request_of(desk, batch_of(500)), version)
    ends = range(len(frame) - len(batch_of(500)) - 8, len(frame) - len(batch_of(500)))
    outcomes = [outcome_of(desk, frame[:end]) for end in ends]
    result_of(desk, frame)
    assert [outcome_of(desk, frame[:end]) for end in ends] == outcomes


def test_templates_with_long_client_ids_are_bounded_in_bytes(desk):
    """A client id may have 32 KB, and differ each time."""
    edges = desk.broker.edges
    edges.bytes_max = 8 * 200_000
    message = request_of(desk, batch_of(1))
    body = b"".join(map(bytes, encode(message, 9)))

    def produce(client_id):
        header = encode_request_header(RequestHeader(ApiKey.PRODUCE, 9, CORRELATION, client_id))
        assert type(result_of(desk, header + body)) is bytes

    for number in range(20):
        produce(f"{number:030000d}")
    kept = remembered(desk)
    assert 1 <= kept <= 200_000 // 60_000
    assert edges.size_bytes <= edges.holder_bytes_max
    desk.connection = Connection()
    produce("short")
    assert remembered(desk) == kept + 1
    assert desk.broker.logs.partitions("t")[0].log_end_offset == 21


def test_templates_that_the_budget_drops_are_forgotten_and_seen_again(desk, ways):
    for _ in range(2):
        result_of(desk, frame_of(request_of(desk, batch_of(1)), 9))
    (kept,) = next(iter(desk.broker.edges._holders.values())).kept
    kept.drop()
    for _ in range(2):
        result_of(desk, frame_of(request_of(desk, batch_of(1)), 9))
    assert remembered(desk) == 1
    assert ways["short"] == 2
