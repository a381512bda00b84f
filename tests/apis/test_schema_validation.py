"""Records of topics that validate schemas need ids that are registered for the topic's subjects."""

import pytest

from pipeline_broker.apis import schema_validation
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.check import RECORD_ERRORS_MAX, RECORDS_BYTES_A_TURN
from pipeline_broker.records.compression import Compression
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from stages.request import Parked, Unfinished, Waiting, go_on
from tests.apis.desk import Desk

VERSION = 9
KEYS, VALUES = "confluent.key.schema.validation", "confluent.value.schema.validation"
STRATEGY = "confluent.value.subject.name.strategy"
SUBJECTS = "io.confluent.kafka.serializers.subject"
TOPIC = 2
KNOWN, UNKNOWN, OF_ANOTHER, WITHOUT = (b"\0\0\0\0\1x", b"\0\0\0\0\2x", b"\0\0\0\0\3x", b"plain")


class Registry:
    """Registered ids by subject; those in `unread` are known after a catch-up, which `answer` ends."""

    def __init__(self, unread=None, names=None, **subjects):
        self.subjects = {"t-value": {1}, "t-key": {1}, "other-value": {3}} | subjects
        self.unread = unread or {}
        self.names = names or {}  # by id, as far as they can be read
        self.read_names = set()
        self.waiting = []

    @property
    def is_current(self):
        return not self.unread

    def catch_up(self, then):
        self.waiting.append(then)

    def read(self):
        self.subjects |= self.unread
        self.unread = {}

    def ids(self, subject):
        return frozenset(self.subjects.get(subject, ()))

    def record_names(self, schema_id):
        return self.names.get(schema_id) if schema_id in self.read_names else None

    def read_record_names(self, schema_id, then):
        self.read_names.add(schema_id)
        then()


def desk_with(*settings, registry=None):
    desk = Desk()
    desk.broker.schemas = registry or Registry()
    assert create(desk, *settings).error_code == 0
    return desk


def create(desk, *settings, topic="t"):
    configs = [CreateTopicsRequest.CreatableTopicConfig(*setting.split("=")) for setting in settings]
    wanted = CreateTopicsRequest.CreatableTopic(topic, 1, 1, configs=configs)
    return desk.ask(CreateTopicsRequest(topics=[wanted]), 4).topics[0]


def alter(desk, name, value, topic="t"):
    change = IncrementalAlterConfigsRequest.AlterableConfig(name, 0, value)
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(TOPIC, topic, [change])
    return desk.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]


def request(*contents, topic="t", **options):
    records = [NewRecord(value, key, 0) for key, value in contents]
    data = ProduceRequest.PartitionProduceData(0, build_batch(records, **options))
    return ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData(topic, partition_data=[data])])


def produce(desk, *contents, **options):
    return desk.ask(request(*contents, **options), VERSION).responses[0].partition_responses[0]


def end_offset(desk, topic="t"):
    return desk.broker.logs.find(topic, 0).log_end_offset


def indexes(answer):
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    return [problem.batch_index for problem in answer.record_errors]


def test_without_the_setting_every_record_is_accepted_on_the_fast_path():
    desk = desk_with()
    assert produce(desk, (None, WITHOUT)).error_code == 0
    assert desk.connection.session.produce_templates is not None
    assert end_offset(desk) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (UNKNOWN, "schema 2 of the value is not registered for the subject t-value"),
        (OF_ANOTHER, "schema 3 of the value is not registered for the subject t-value"),
        (WITHOUT, "the value has no schema id"),
        (b"", "the value has no schema id"),
        (b"\0\0\0\0", "the value has no schema id"),
        (b"\1\0\0\0\1x", "the value has no schema id"),
    ],
)
def test_a_value_without_a_registered_schema_is_refused_by_its_index_and_nothing_is_stored(content, reason):
    desk = desk_with(f"{VALUES}=true")
    answer = produce(desk, (None, KNOWN), (WITHOUT, content), (None, KNOWN), (None, content))
    assert indexes(answer) == [1, 3]
    assert answer.record_errors[0].batch_index_error_message == reason
    assert end_offset(desk) == 0


def test_keys_are_validated_by_a_setting_of_their_own():
    desk = desk_with(f"{KEYS}=true")
    assert produce(desk, (KNOWN, WITHOUT)).error_code == 0
    answer = produce(desk, (UNKNOWN, KNOWN))
    assert indexes(answer) == [0]
    assert "of the key is not registered for the subject t-key" in answer.record_errors[0].batch_index_error_message


def test_null_keys_and_values_are_allowed():
    desk = desk_with(f"{KEYS}=true", f"{VALUES}=true")
    assert produce(desk, (None, KNOWN), (KNOWN, None)).error_code == 0


@pytest.mark.parametrize("codec", list(Compression))
def test_compressed_batches_are_validated_too(codec):
    desk = desk_with(f"{VALUES}=true")
    assert produce(desk, (None, KNOWN), compression=codec).error_code == 0
    assert indexes(produce(desk, (None, KNOWN), (None, UNKNOWN), compression=codec)) == [1]
    assert end_offset(desk) == 1


def test_a_batch_that_the_broker_compresses_anew_is_validated():
    desk = desk_with(f"{VALUES}=true", "compression.type=zstd")
    assert produce(desk, (None, KNOWN)).error_code == 0
    assert indexes(produce(desk, (None, UNKNOWN))) == [0]


@pytest.mark.parametrize(("last", "code"), [(KNOWN, 0), (WITHOUT, ErrorCode.INVALID_RECORD)])
def test_a_batch_with_much_content_is_decompressed_in_a_thread_in_its_place(last, code):
    desk = desk_with(f"{VALUES}=true")
    message = request(
        (None, KNOWN + bytes(RECORDS_BYTES_A_TURN)), *[(None, KNOWN)] * 5000, (None, last), compression=Compression.ZSTD
    )
    result, parked, turns = desk.decide(message, VERSION), 0, 0
    while isinstance(result, Unfinished):
        parked, turns = parked + (type(result.first) is Parked), turns + 1
        result = go_on(result.steps, result.first.work() if type(result.first) is Parked else None)
    assert parked == 3  # the checks of the batch, its stored form, and its schemas
    assert turns > parked + 5000 * schema_validation.RECORD_COST // 4000
    assert desk.finish(message, VERSION, result).responses[0].partition_responses[0].error_code == code
    assert len(desk.broker.long_batches) == 0


def test_the_number_of_named_records_is_bounded():
    desk = desk_with(f"{VALUES}=true")
    assert len(indexes(produce(desk, *[(None, WITHOUT)] * (RECORD_ERRORS_MAX + 5)))) == RECORD_ERRORS_MAX


def test_an_accepted_request_leaves_no_template_for_the_next():
    desk = desk_with(f"{VALUES}=true")
    assert produce(desk, (None, KNOWN)).error_code == 0
    assert indexes(produce(desk, (None, UNKNOWN))) == [0]


def test_the_setting_applies_to_the_next_request_of_a_connection_with_a_template():
    desk = desk_with()
    assert produce(desk, (None, UNKNOWN)).error_code == 0
    assert alter(desk, VALUES, "true").error_code == 0
    assert indexes(produce(desk, (None, UNKNOWN))) == [0]
    assert alter(desk, VALUES, "false").error_code == 0
    assert produce(desk, (None, UNKNOWN)).error_code == 0


def test_a_request_waits_for_schemas_that_the_registry_has_not_read():
    registry = Registry({"t-value": {1, 2}})
    desk = desk_with(f"{VALUES}=true", registry=registry)
    message = request((None, UNKNOWN))
    result = desk.decide(message, VERSION)
    assert type(result.first) is Waiting
    result.first.when_over(lambda: None)
    assert len(registry.waiting) == 1
    registry.read()
    answer = desk.finish(message, VERSION, go_on(result.steps))
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_the_other_partitions_of_a_request_are_stored():
    desk = desk_with(f"{VALUES}=true")
    create(desk, topic="plain")
    message = request((None, WITHOUT))
    message.topic_data += request((None, WITHOUT), topic="plain").topic_data
    answers = [each.partition_responses[0].error_code for each in desk.ask(message, VERSION).responses]
    assert answers == [ErrorCode.INVALID_RECORD, 0]
    assert (end_offset(desk), end_offset(desk, "plain")) == (0, 1)


@pytest.mark.parametrize("name", [KEYS, VALUES])
def test_without_a_registry_the_setting_is_refused_in_one_line(name):
    desk = Desk()
    for refused in (create(desk, f"{name}=true"), create(desk) and alter(desk, name, "true")):
        assert refused.error_code == ErrorCode.INVALID_CONFIG
        assert refused.error_message.startswith(f"{name}: this broker has no schema registry. Start it with")
        assert "\n" not in refused.error_message
    assert alter(desk, name, "false").error_code == 0


def test_a_topic_that_validates_accepts_nothing_without_a_registry_and_can_be_altered():
    desk = desk_with(f"{VALUES}=true").restart()
    answer = produce(desk, (None, KNOWN))
    assert indexes(answer) == []
    assert answer.error_message == "t validates schemas, but this broker runs without a schema registry"
    assert alter(desk, "retention.ms", "5").error_code == 0
    assert alter(desk, VALUES, "false").error_code == 0
    assert produce(desk, (None, WITHOUT)).error_code == 0


def produce_by_name(strategy, *contents, registry):
    """Produce values to a topic with a subject name strategy. Each wait of the request ends at once."""
    desk = desk_with(f"{VALUES}=true", f"{STRATEGY}={SUBJECTS}.{strategy}", registry=registry)
    message = request(*((None, content) for content in contents))
    result = desk.decide(message, VERSION)
    while isinstance(result, Unfinished):
        assert type(result.first) is Waiting
        result.first.when_over(lambda: None)
        result = go_on(result.steps)
    return desk.finish(message, VERSION, result).responses[0].partition_responses[0]


BY_RECORD, BY_TOPIC_AND_RECORD = "RecordNameStrategy", "TopicRecordNameStrategy"
NAMES = {1: {(): "shop.Order"}, 2: {(): "shop.Bill"}, 3: {}, 4: {(0,): "shop.A", (1,): "shop.B", (1, 0): "shop.B.C"}}


@pytest.mark.parametrize(("strategy", "prefix"), [(BY_RECORD, ""), (BY_TOPIC_AND_RECORD, "t-")])
def test_subjects_can_be_named_after_records(strategy, prefix):
    registry = Registry(names=NAMES, **{f"{prefix}shop.Order": {1, 3}, "t-value": {1, 2, 3}})
    assert produce_by_name(strategy, KNOWN, b"\0\0\0\0\1y", registry=registry).error_code == 0
    answer = produce_by_name(strategy, KNOWN, UNKNOWN, OF_ANOTHER, b"\0\0\0\0\5x", WITHOUT, registry=registry)
    assert indexes(answer) == [1, 2, 3, 4]
    assert [each.batch_index_error_message for each in answer.record_errors] == [
        f"schema 2 of the value is not registered for the subject {prefix}shop.Bill",
        "schema 3 of the value is unknown, or names no record",
        "schema 5 of the value is unknown, or names no record",
        "the value has no schema id",
    ]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (b"\0", None),
        (b"\2\0", None),
        (b"\4\2\0", None),
        (b"\2\2", "schema 4 of the value is not registered for the subject t-shop.B"),
        (b"\2\4", "schema 4 of the value is unknown, or names no record"),
        (b"\2\1", "schema 4 of the value is unknown, or names no record"),
        (b"", "schema 4 of the value is unknown, or names no record"),
    ],
)
def test_the_name_of_a_protobuf_message_is_that_of_its_path(path, reason):
    registry = Registry(names=NAMES, **{"t-shop.A": {4}, "t-shop.B": {1}, "t-shop.B.C": {4}})
    first, head = b"\0\0\0\0\4\0", b"\0\0\0\0\4"
    answer = produce_by_name(BY_TOPIC_AND_RECORD, first, head + path, head + path, registry=registry)
    assert [each.batch_index_error_message for each in answer.record_errors] == [reason] * 2 * bool(reason)
    assert answer.error_code == (ErrorCode.INVALID_RECORD if reason else 0)


def test_records_with_paths_take_more_turns():
    turns = {}
    for schema_id, path in ((1, b""), (4, b"\0")):
        registry = Registry(names=NAMES, **{"shop.A": {4}, "shop.Order": {1}})
        desk = desk_with(f"{VALUES}=true", f"{STRATEGY}={SUBJECTS}.{BY_RECORD}", registry=registry)
        registry.read_names |= NAMES.keys()
        message = request(*[(None, b"\0\0\0\0" + bytes([schema_id]) + path)] * 3000)
        result, turns[schema_id] = desk.decide(message, VERSION), 0
        while isinstance(result, Unfinished):
            result, turns[schema_id] = go_on(result.steps), turns[schema_id] + 1
        assert desk.finish(message, VERSION, result).responses[0].partition_responses[0].error_code == 0
    assert turns[4] > turns[1] + 3000 * schema_validation.PATH_COST // 5000


def test_a_long_record_name_is_shortened_in_the_error():
    registry = Registry(names={1: {(): "n" * 60_000}})
    answer = produce_by_name(BY_RECORD, KNOWN, registry=registry)
    assert answer.record_errors[0].batch_index_error_message.endswith(f"subject {'n' * 200}")


def test_another_strategy_is_refused():
    desk = Desk()
    assert create(desk, f"{STRATEGY}={SUBJECTS}.AssociatedNameStrategy").error_code == ErrorCode.INVALID_CONFIG


def test_a_record_with_two_faults_is_named_once():
    desk = desk_with(f"{KEYS}=true", f"{VALUES}=true")
    answer = produce(desk, (WITHOUT, UNKNOWN), (KNOWN, UNKNOWN), (KNOWN, KNOWN))
    assert indexes(answer) == [0, 1]
    assert [each.batch_index_error_message for each in answer.record_errors] == [
        "the key has no schema id",
        "schema 2 of the value is not registered for the subject t-value",
    ]
