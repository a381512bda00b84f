"""Hypothesis strategies for records of internal topics: valid ones of every type, and damaged ones.

The types come from the declared messages and the tables of the readers, so new types are included automatically.
"""

import functools
import json
import struct

from hypothesis import strategies as st

from pipeline_broker.broker.metadata_record_readers import METADATA_READERS
from pipeline_broker.quotas.client_quotas import ClientQuotas
from pipeline_broker.security.acl import AclBinding, AclOperation, PatternType, PermissionType, ResourceType
from pipeline_broker.security.acls import Acls
from pipeline_broker.security.delegation_tokens import DelegationToken
from pipeline_broker.security.delegation_tokens import _record as token_record
from pipeline_broker.security.principal import KafkaPrincipal
from pipeline_broker.security.scram import SCRAM_MECHANISMS, ScramCredential
from pipeline_broker.security.scram_users import _key as scram_key
from pipeline_broker.security.scram_users import _value as scram_value
from pipeline_broker.state.cluster_id import ClusterId
from pipeline_broker.state.dynamic_settings import DynamicSettings
from pipeline_broker.state.features import _record as feature_record
from pipeline_broker.state.groups.offset_records import OFFSET_TYPES
from pipeline_broker.state.groups.records import RECORD_OWNERS
from pipeline_broker.state.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from pipeline_broker.state.leadership.records import (
    ListenerAddress,
    NodeRecord,
    OpenRecord,
    PartitionKey,
    PartitionRecord,
    node_record,
    open_record,
    partition_record,
)
from pipeline_broker.state.log_starts import LogStarts
from pipeline_broker.state.metadata_records import RecordType, Topic, producer_ids_record, topic_record
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.wire.codec import encode, versions_of
from tests.wire.generated import INTEGER_BITS, RECORDS, objects, primitive, sample, structures

TYPE = struct.Struct(">h")
GROUP_SETTINGS = {"consumer.session.timeout.ms": "46000"}
FOREIGN_ID = "foreign"
"""The id of what most of these records are about, groups of all kinds among them, and nothing else is."""


def _pairs(*modules):
    """Return key and value messages of modules, by record type."""
    named = {message.__name__: message for message in RECORDS}
    found = {}
    for name, key in named.items():
        if name.endswith("Key") and key.__module__.rpartition(".")[2] in modules:
            found[key.SCHEMA.key] = key, named[name.removesuffix("Key") + "Value"]
    return found


GROUP_MODULES = (
    "offset_commit_record",
    "group_metadata_record",
    "consumer_group_records",
    "share_group_records",
    "streams_group_records",
)
MESSAGES = {
    OFFSETS_TOPIC: _pairs(*GROUP_MODULES),
    TRANSACTIONS_TOPIC: _pairs("transaction_log_record"),
    SHARE_TOPIC: _pairs("share_state_records"),
}
CODED = [(topic, kind, *pair) for topic, pairs in MESSAGES.items() for kind, pair in sorted(pairs.items())]
"""Topic, type, key and value of every record that has a layout of Kafka's."""
assert set(MESSAGES[OFFSETS_TOPIC]) == set(RECORD_OWNERS) | OFFSET_TYPES


def _named(message):
    """Replace every text by foreign ids."""
    for name in message.__slots__ if hasattr(message, "__slots__") else vars(message):
        if isinstance(getattr(message, name), str):
            setattr(message, name, FOREIGN_ID)
    return message


def encoded(number, message, version):
    return b"".join([TYPE.pack(number), *map(bytes, encode(message, version))])


def foreign_key(kind, key):
    """Draw the key of a record about a foreign entity."""
    return encoded(kind, _named(sample(key, 0)), 0)


@st.composite
def coded_records(draw, topic):
    """Draw decodable records: any values in the fields of any version."""
    kind, (key, value) = draw(st.sampled_from(sorted(MESSAGES[topic].items(), key=lambda item: item[0])))
    named = st.just(foreign_key(kind, key))
    data = draw(named | objects(key, 0).map(lambda message: encoded(kind, message, 0)))
    if draw(st.integers(0, 9)) == 0:
        return data, None
    version = draw(st.sampled_from(versions_of(value)))
    return data, encoded(version, draw(objects(value, version)), version)


SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
TEXTS = st.sampled_from([FOREIGN_ID, FOREIGN_ID, "t", "range", "consumer", "", "\0", "other"])
DATA = st.sampled_from([SUBSCRIPTION, b"", b"\xff", b"\0\0\0\0\0\0"])


def _strange_field(_owner, field):
    """Draw decodable values at the limits of their types, and texts that name each other."""
    kind = str(field.type)
    if kind in INTEGER_BITS:
        high = 2 ** (INTEGER_BITS[kind] - 1)
        return st.sampled_from([0, 1, 2, -1, -5, high - 1, -high])
    known = {"string": TEXTS, "bytes": DATA}
    return known[kind] if kind in known else primitive(kind)


@functools.cache
def _strange_values(value, version):
    return structures(value, value, version, _strange_field)


@st.composite
def strange_records(draw, topic):
    """Draw decodable but implausible records about the foreign group, transaction or share partition."""
    kind, (key, value) = draw(st.sampled_from(sorted(MESSAGES[topic].items(), key=lambda item: item[0])))
    version = draw(st.sampled_from(versions_of(value)))
    message = draw(_strange_values(value, version))
    return foreign_key(kind, key), encoded(version, message, version)


def sound_metadata():
    """Return one record of each type of the metadata partition."""
    principal = KafkaPrincipal("User", FOREIGN_ID)
    mechanism = SCRAM_MECHANISMS["SCRAM-SHA-256"]
    binding = AclBinding(
        ResourceType.TOPIC,
        FOREIGN_ID,
        PatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.READ,
        PermissionType.ALLOW,
    )
    token = DelegationToken(FOREIGN_ID, principal, principal, (principal,), 1, 2, 3)
    credential = ScramCredential.of(mechanism, b"salt", 4096, b"salted")
    found = {
        RecordType.TOPIC: topic_record(Topic(FOREIGN_ID, bytes(range(16)), 2, {"retention.ms": "1000"})),
        RecordType.PRODUCER_IDS: producer_ids_record(5_000),
        RecordType.CLUSTER: ClusterId().create("abc").records[0],
        RecordType.SETTINGS: DynamicSettings()
        .alter(("group", FOREIGN_ID), {"consumer.session.timeout.ms": "46000"})
        .records[0],
        RecordType.SCRAM_USER: StateRecord(scram_key((FOREIGN_ID, mechanism.name)), scram_value(credential)),
        RecordType.CLIENT_QUOTA: ClientQuotas()
        .alter({(("user", FOREIGN_ID),): {"producer_byte_rate": 5.0}})
        .records[0],
        RecordType.ACL: Acls().add([binding]).records[0],
        RecordType.LOG_START: LogStarts().raise_to(bytes(range(16)), 0, 3).records[0],
        RecordType.FEATURE: feature_record("share.version", 1, 1),
        RecordType.DELEGATION_TOKEN: token_record(FOREIGN_ID, token),
        RecordType.NODE: node_record(NodeRecord(2, 1, listeners={"PLAINTEXT": ListenerAddress("localhost", 9092)})),
        RecordType.PARTITION: partition_record(PartitionKey(bytes(range(16)), 0), PartitionRecord(2, 0, (2,))),
        RecordType.OPEN: open_record(PartitionKey(bytes(range(16)), 0), OpenRecord(0)),
    }
    assert set(found) == set(RecordType) == set(METADATA_READERS)
    return found


METADATA = sound_metadata()
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["", "\0", "-1", "1e999", "../x", "__cluster_metadata", "ff" * 16])
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner), max_leaves=4
)
DEEP = b"\0\0" + b"[" * 100_000
"""JSON that nests deeper than any reader goes."""


@st.composite
def coded_metadata(draw):
    """Draw records of the metadata partition: valid ones, and JSON with replaced leaves."""
    record = METADATA[draw(st.sampled_from(RecordType))]
    fate = draw(st.integers(0, 9))
    if fate == 0:
        return record.key, None
    if fate == 1:
        return record.key, DEEP
    body = record.value[2:]
    if body and body[:1] != b"{":
        return record.key, b"\0\0" + draw(st.binary(max_size=40))
    if not body or fate == 2:
        return record.key, b"\0\0" + json.dumps(draw(TREES)).encode()
    tree = json.loads(body)
    for name in list(tree):
        if draw(st.booleans()):
            tree[name] = draw(TREES)
    return record.key, b"\0\0" + json.dumps(tree).encode()


def sound(topic):
    """Return valid records of every type of a topic."""
    if topic == METADATA_TOPIC:
        return [(record.key, record.value) for record in METADATA.values()]
    return [
        (foreign_key(kind, key), encoded(version, _named(sample(value, version)), version))
        for kind, (key, value) in MESSAGES[topic].items()
        for version in versions_of(value)
    ]


@st.composite
def mutated(draw, topic):
    """Draw a valid record that is cut short, has other bytes, or has the value of another record."""
    key, value = draw(st.sampled_from(sound(topic)))
    fate = draw(st.integers(0, 4))
    if fate == 0:
        return key[: draw(st.integers(0, len(key)))], value
    if fate == 1:
        return key, value[: draw(st.integers(0, len(value)))]
    if fate == 2:
        return key, draw(st.sampled_from(sound(topic)))[1]
    if fate == 3:
        return key + draw(st.binary(min_size=1, max_size=4)), value
    changed = bytearray(value)
    for _ in range(draw(st.integers(1, 3))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return key, bytes(changed)


TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC, METADATA_TOPIC)
NUMBERED = st.builds(lambda kind, rest: TYPE.pack(kind) + rest, st.integers(-1, 20), st.binary(max_size=40))


def any_records(topic):
    """Draw keys and values of anything that may be in a topic."""
    coded = coded_metadata() if topic == METADATA_TOPIC else coded_records(topic) | strange_records(topic)
    random = st.tuples(st.none() | st.binary(max_size=60) | NUMBERED, st.none() | st.binary(max_size=60) | NUMBERED)
    return random | mutated(topic) | coded
