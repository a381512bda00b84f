"""Requests of maximum amplification, made from the schemas of all served APIs.

Rules of this file: a new API or version is in it by itself. For each array of a request there is a case whose array is
as long as the API takes, once with elements that differ and once with the same one again and again, and one case where
nothing is named, which often means all. Where so many elements make a frame that is small, there are as many as make
it LARGE_BYTES long, because smaller ones are not counted. What a field may name is said by the first of the ROLES whose
pattern fits.
"""

import re
from functools import cache

import attrs

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.wire.primitives import LARGE_BYTES
from pipeline_broker.wire.registry import ApiKey, message_classes
from pipeline_broker.wire.schema import fields_of, resolve
from tests.bad_input.raw_client import frame_of
from tests.hostile.prepared import PARTITIONS, TOPIC_RESOURCE

NOTHING_NAMED, EACH_DIFFERENT, ALL_ALIKE = "nothing named", "each different", "all alike"
COUNTED_BESIDE = 100
"""Elements that are left for the other arrays of a request."""
SPARE_BYTES = 200
"""Of a frame that is to stay below LARGE_BYTES."""
BROKER_ID = 1
WATCHED_SECONDS = 0.06
"""Of most cases: two requests of the innocent client."""
PLAIN = {"bool": True, "float64": 1.0, "bytes": b"", "records": b"", "string": "", "uuid": bytes(16)}


def cycled(values, number, made_up):
    """The nth of what there is; beyond that something that there is not."""
    return values[number] if number < len(values) else f"{made_up}{number}"


def topic(world, number):
    return cycled(world.topics, number, "t")


def topic_id(world, number):
    return world.topic_ids[number] if number < len(world.topic_ids) else number.to_bytes(16, "big")


def group(world, number):
    """The large one first, then some of each kind."""
    return cycled(world.described_groups, number, "g")


def partition(_world, number):
    return number


def plain_name(_world, number):
    return f"n{number}"


def always(value):
    return lambda _world, _number: value


ROLES = [
    (re.compile(pattern), make)
    for pattern, make in (
        (r"CreateTopics\.CreatableTopic\.name", plain_name),
        (r"CreateTopics\..*\.(num_partitions)", always(1)),
        (r"CreateTopics\..*\.(replication_factor)", always(1)),
        (r"CreatePartitions\..*\.count", always(PARTITIONS + 1)),
        (r"(AlterConfigs|CreateTopics|IncrementalAlterConfigs)\..*Config\.name", always("retention.ms")),
        (r"(AlterConfigs|CreateTopics|IncrementalAlterConfigs)\..*Config\.value", lambda _, number: str(number + 1)),
        (r"\.configuration_keys", always("retention.ms")),
        (r"(DescribeClientQuotas|AlterClientQuotas)\..*\.entity_type", always("user")),
        (r"(DescribeClientQuotas)\..*\.match$", always(None)),
        (r"(DescribeClientQuotas)\..*\.match_type", always(2)),
        (r"AlterClientQuotas\..*\.entity_name", lambda world, number: cycled(world.users, number, "u")),
        (r"AlterClientQuotas\..*\.key", always("producer_byte_rate")),
        (r"AlterClientQuotas\..*\.remove", always(False)),
        (r"ScramCredential.*\.mechanism|\.UserName\.mechanism", always(1)),
        (r"ScramCredential.*\.iterations", always(4096)),
        (r"ScramCredential.*\.(salt|salted_password)", always(bytes(32))),
        (r"Scram.*\.name", lambda world, number: cycled(world.users, number, "u")),
        (r"Acls\..*\.(resource_type_filter|operation|permission_type|pattern_type_filter)", always(1)),  # any
        (r"Acls\..*filter", always(None)),
        (r"CreateAcls\..*\.(resource_type|resource_pattern_type|operation|permission_type)", always(3)),
        (r"CreateAcls\..*\.principal", lambda _, number: f"User:{number}"),
        (r"CreateAcls\..*\.host", always("*")),
        (r"\.(resource_type|resource_types)$", always(TOPIC_RESOURCE)),
        (r"\.resource_name", topic),
        (r"\.(principal_type|owner_principal_type)", always("User")),
        (r"principal_name", plain_name),
        (r"UpdateFeatures\..*\.feature", plain_name),
        (r"(states_filter|state_filters)", plain_name),
        (r"\.types_filter", plain_name),
        (r"\.(group_id|groups|group_ids|groups_names|coordinator_keys)$", group),
        (r"FindCoordinator\..*\.key$", group),
        (r"FindCoordinator\..*\.key_type", always(0)),
        (
            r"\.(transactional_id|transactional_ids|v3_and_below_transactional_id)$",
            lambda world, number: cycled(world.transactional_ids, number, "x"),
        ),
        (
            r"\.(producer_id|producer_id_filters|v3_and_below_producer_id)$",
            lambda world, number: world.producer_ids[number % len(world.producer_ids)],
        ),
        (
            r"\.(topic_name|topic|subscribed_topic_names)$|Topic[A-Za-z]*\.name$|TopicState\.name$|\.topic_names$|Topics?Data\.name$",
            topic,
        ),
        (r"\.topic_id$", topic_id),
        (r"\.member_id$", always("A" * 22)),
        (r"\.(partition|partition_index|index|partitions|partition_indexes)$", partition),
        (r"\.(broker_ids|replicas)$", lambda _, number: number or BROKER_ID),
        (r"\.path$", lambda _, number: f"/{number}"),
        (r"JoinGroup\..*Protocol\.name", plain_name),
        (r"\.(timeout_ms|rebalance_timeout_ms|session_timeout_ms|transaction_timeout_ms)$", always(30_000)),
        (
            r"\.(max_wait_ms|min_bytes|isolation_level|session_epoch|share_session_epoch|member_epoch|session_id)$",
            always(0),
        ),
        (r"\.(max_bytes|partition_max_bytes|max_records|batch_size)$", always(2**31 - 1)),
        (r"ListOffsets\..*\.timestamp", always(1)),
        (r"\.validate_only$|\.verify_only$|\.is_renew_ack$", always(False)),
        (r"Produce\..*\.acks", always(-1)),
        (r"\.response_partition_limit", always(2**31 - 1)),
        (r"\.replica_id$", always(-1)),
        (r"\.(committed_metadata)$", always("m")),
        (r"\.protocol_type$", always("consumer")),
        (r"\.election_type$", always(0)),
        (r"\.acknowledge_types$", always(1)),
    )
]


CREATED_BYTES_MAX = 10_000 * 6_000
"""What the topics, or the partitions, keep that one request may create."""
KEPT_BYTES_MAX = dict.fromkeys((ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS), CREATED_BYTES_MAX)
"""By API, what a setting lets the broker keep of its requests."""


@attrs.frozen
class Case:
    """A request, or several at once.

    Attributes:
        key: of the API.
        version: of the API.
        what: what is large about it.
        payloads: makes the frames, without their lengths, for a World: each is sent by a connection of its own.
        before: asks a WireClient, for a World, for what the case needs; None where it needs nothing.
        kept_bytes_max: what a setting lets the broker keep of it, beyond what its work may take.
        reads: the answers are read.
        watched_seconds: how long the innocent client is watched after the last answer, for what the broker does by
            its clock.
    """

    key: int
    version: int
    what: str
    payloads: object = attrs.field(repr=False, eq=False)
    before: object = attrs.field(default=None, repr=False, eq=False)
    kept_bytes_max: int = 0
    reads: bool = True
    watched_seconds: float = WATCHED_SECONDS

    @property
    def name(self):
        return f"{SERVED[self.key].name}-{self.version} {self.what}"


def cases_of(key, versions):
    """All generated cases of an API in some of its versions."""
    message = message_classes(ApiKey(key))[0]
    for version in versions:
        yield _case(key, version, NOTHING_NAMED, (), NOTHING_NAMED)
        for path in arrays_of(message, message, version):
            for kind in (EACH_DIFFERENT, ALL_ALIKE):
                yield _case(key, version, f"{'.'.join(path)}: {kind}", path, kind)


def _case(key, version, what, path, kind):
    def payloads(world):
        builder = Builder(key, version, world, kind)
        frame = builder.frame(path)
        if path and len(frame) < LARGE_BYTES:  # as many as nobody counts
            builder.elements_max = builder.elements_max * (LARGE_BYTES - SPARE_BYTES) // len(frame)
            frame = builder.frame(path)
        return [frame]

    return Case(key, version, what, payloads, kept_bytes_max=KEPT_BYTES_MAX.get(key, 0))


def arrays_of(message, struct, version):
    """Paths of field names to the arrays of a struct."""
    for field in fields_of(struct):
        if version not in field.versions:
            continue
        inner = resolve(message, field.type)
        if field.is_array:
            yield (field.name,)
        if inner:
            yield from ((field.name, *path) for path in arrays_of(message, inner, version))


class Builder:
    """Requests of an API for a World."""

    def __init__(self, key, version, world, kind):
        self._message = message_classes(ApiKey(key))[0]
        self._version = version
        self._world = world
        self._kind = kind
        self._known = {}
        self.elements_max = SERVED[key].elements_max - COUNTED_BESIDE

    def frame(self, path):
        """The request whose array at `path` is as long as `elements_max` says."""
        return frame_of(self.build(self._message, path, 0), self._version)

    def build(self, struct, path, number):
        """An object; `number` says which of its siblings it is."""
        values = {
            field.name: self._value(field, inner, make, path, number) for field, inner, make in self._fields_of(struct)
        }
        return struct(**values)

    def _fields_of(self, struct):
        """The fields that a struct has, each with the struct that it is of, if any, and what makes a single value."""
        if (known := self._known.get(struct)) is None:
            known = self._known[struct] = [
                (field, resolve(self._message, field.type), self._maker(struct, field))
                for field in fields_of(struct)
                if self._version in field.versions
            ]
        return known

    def _maker(self, struct, field):
        if make := _role(f"{self._message.__name__.removesuffix('Request')}.{struct.__name__}.{field.name}"):
            return make
        if self._version in field.nullable:
            return always(None)
        if field.default and not field.is_array:
            return always(field.default)
        return always(PLAIN.get(field.type, 0))

    def _value(self, field, inner, make, path, number):
        if field.is_array:
            return self._array(field, inner, make, path)
        if inner:
            if path and path[0] == field.name:
                return self.build(inner, path[1:], 0)
            is_null = self._version in field.nullable
            return None if is_null else field.default
        return make(self._world, number)

    def _array(self, field, inner, make, path):
        if not path or path[0] != field.name:
            if self._version in field.nullable:
                return None
            if self._kind is NOTHING_NAMED:
                return []
            return [self._element(inner, make, (), 0)]
        first = self._element(inner, make, path[1:], 0)
        if len(path) > 1:
            return [first]
        count = self.elements_max // _elements(self._message, first)
        if self._kind is ALL_ALIKE:
            return [first] * count
        return [self._element(inner, make, (), each) for each in range(count)]

    def _element(self, inner, make, path, number):
        return self.build(inner, path, number) if inner else make(self._world, number)


@cache
def _role(name):
    return next((make for pattern, make in ROLES if pattern.search(name)), None)


def _elements(message, value):
    """How many elements a value counts for: itself and those of its arrays."""
    count = 1
    if attrs.has(type(value)):
        for field in fields_of(type(value)):
            inner = getattr(value, field.name)
            if field.is_array and inner:
                count += sum(_elements(message, each) for each in inner)
    return count
