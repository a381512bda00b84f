"""What may differ between Apache Kafka's answers and ours, field by field, and why.

A mask replaces a value by what is left of it to compare. The lists of APIs whose order Kafka leaves to its hash maps,
or in which it lists what it refuses first, are sorted.
Everything that is not named here must be equal. docs/reference/compatibility.md explains each difference that a client
can see.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.records.batch import BatchHeader, iterate_batches
from pipeline_broker.records.record import Record, iterate_records
from pipeline_broker.state.features import Features
from tests.differential.data_requests import NOW_MS
from tests.differential.oracle import CLOSED, MEMBER_ID, Side, name_of_topic

HIDDEN = "..."
STARTUP_MS_MIN = 1_000
"""All brokers take longer to start after the times of requests are chosen."""
DRAWN_ID = re.compile(r"[\w-]{22}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An id that is drawn as a whole: in base64, as Kafka writes it, or in hexadecimal digits."""
WITH_MARKERS = {"one", "marked"}
"""Where transactions end: each broker writes markers at its own time."""
INTERNAL_TOPICS = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
DONE_WITH = (2, 4)
"""Delivery states Acknowledged and Archived."""


def hidden(_side: Side, _value: Any) -> Any:
    return HIDDEN


def is_given(_side: Side, value: Any) -> Any:
    """Whether there is an id, not which."""
    return value not in (0, -1, "", None, bytes(16))


def is_allocated(_side: Side, value: Any) -> Any:
    """Whether there is a number from 0 on, not which."""
    return value >= 0


def is_allocated_time(_side: Side, value: Any) -> Any:
    """Whether there is a time, not which."""
    return value > 0


def member(_side: Side, value: Any) -> Any:
    """A member id without the part that is drawn."""
    if value and DRAWN_ID.fullmatch(value):
        return HIDDEN
    match = MEMBER_ID.fullmatch(value) if value else None
    return f"{match[1]}-..." if match else value


def records(_side: Side, value: Any) -> Any:
    """Batches as they are, but for what each broker gives out: ids of producers, times of markers, so checksums too."""
    if value is None:
        return None
    return [_batch(header, list(iterate_records(batch, header))) for header, batch in iterate_batches(value)]


def _batch(header: BatchHeader, inner: list[Record]) -> list[Any]:
    header = header._replace(crc=0, producer_id=min(header.producer_id, 0))
    if header.is_control:
        header = header._replace(base_timestamp=0, max_timestamp=0)
        inner = [record._replace(timestamp=0) for record in inner]
    return [header, inner]


def served_only(_side: Side, value: Any) -> Any:
    """Of the APIs that Kafka advertises those that we serve."""
    return [entry for entry in value if entry["api_key"] in SERVED]


def given_time(_side: Side, value: Any) -> Any:
    """A time that a client gave; that of a marker is hidden, which each broker writes after the run began."""
    return HIDDEN if value > NOW_MS + STARTUP_MS_MIN else value


def producers(_side: Side, value: Any) -> Any:
    """All but the ids that each broker gives out, and the time of markers, which is each broker's own."""
    known = [{name: inner for name, inner in it.items() if name != "producer_id"} for it in value]
    for it in known:
        if it["coordinator_epoch"] >= 0:
            it["last_timestamp"] = HIDDEN
    return sorted(known, key=lambda it: sorted(map(str, it.items())))


def features(_side: Side, value: Any) -> Any:
    """Those that our APIs make true."""
    ours = {feature.name for feature in Features.supported(SERVED)}
    return [feature for feature in value if feature["name"] in ours]


def records_or_none(side: Side, value: Any) -> Any:
    """The batches; no records are told in two ways."""
    return records(side, value) if value else None


def share_state(_side: Side, value: Any) -> Any:
    """Kafka writes a start that has moved with the next change, so what is done with stands behind the start still."""
    return [one | dict(zip(("start_offset", "state_batches"), _moved(one), strict=True)) for one in value]


def _moved(partition: dict[str, Any]) -> tuple[int, list[Any]]:
    start, batches = partition["start_offset"], list(partition["state_batches"])
    while batches and batches[0]["first_offset"] == start and batches[0]["delivery_state"] in DONE_WITH:
        start = batches.pop(0)["last_offset"] + 1
    return start, batches


def sizes(_side: Side, value: Any) -> Any:
    """How large the partitions of clients are: what a broker notes for itself is worded, and placed, differently."""
    return [
        topic | {"partitions": [part | {"partition_size": HIDDEN} for part in topic["partitions"]]}
        if topic["name"] in INTERNAL_TOPICS | WITH_MARKERS
        else topic
        for topic in value
    ]


@attrs.frozen
class Mask:
    """What is left to compare of some fields, and why; `api` is None where they are masked in every API."""

    why: str
    apply: Callable[[Side, Any], Any]
    fields: tuple[str, ...]
    api: str | None = None


OWN_SETTINGS = re.compile(
    r"(pipeline|wal|confluent)\..*|control\.plane\.listener\.name|.*\.throttled\.rate|.*io\.max\.bytes\.per\.second"
)
"""Ours alone; and quotas between copies, which Kafka shows only when they are set."""
PLACES = {
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
}
"""Where each broker listens, and keeps its files."""
COPIES = re.compile(
    r"(offsets\.topic|(share\.coordinator\.state\.topic|transaction\.state\.log))\.(replication\.factor|min\.isr)"
)
"""A Kafka that is alone must be told to keep one copy."""
CLUSTER_DEFAULT = "min.insync.replicas"
"""A formatted KRaft cluster has one dynamic default, this one; ours has none, but the value is the same."""
REQUIRED = {"node.id", "process.roles"}
"""Kafka has no defaults of them, so it shows none beside what is set."""
OTHER_DEFAULTS = {"broker.session.timeout.ms", "socket.listen.backlog.size", "socket.receive.buffer.bytes"}
"""Ours are the time until a standby takes over, the maximum of the system, and its choice."""


def settings_of_broker(configs: list[dict[str, Any]], *, is_default: bool) -> list[dict[str, Any]]:
    """The settings that Kafka has too; of what each broker has its own all but the value, and where that comes from."""
    found = []
    for config in configs:
        name = config["name"]
        if OWN_SETTINGS.fullmatch(name) or (is_default and name == CLUSTER_DEFAULT):
            continue
        is_own = name in PLACES | OTHER_DEFAULTS or COPIES.fullmatch(name)
        hides = config.keys() & {"value", "config_source", "is_default", "synonyms"} if is_own else ()
        if name in REQUIRED:
            hides = config.keys() & {"synonyms"}
        found.append(config | dict.fromkeys({"documentation", *hides}, HIDDEN))
    return found


OWN = ("session_id", "documentation", "client_instance_id", "subscription_id", "log_dir", "total_bytes", "usable_bytes")
MASKS = (
    Mask("nothing is throttled; Kafka measures", hidden, ("throttle_time_ms",)),
    Mask("texts are for people", hidden, ("error_message", "acknowledge_error_message", "batch_index_error_message")),
    Mask("Kafka says none in two ways, by how it read", lambda _side, value: value or None, ("aborted_transactions",)),
    Mask("drawn by each broker", name_of_topic, ("topic_id",)),
    Mask("each has its own", hidden, ("cluster_id", "host", "port")),
    Mask("given out by each broker", is_allocated, ("producer_id",)),
    Mask("each has its own", is_given, OWN),
    Mask("drawn by each broker", member, ("member_id", "leader")),
    Mask("ours leaves out Java's slash", hidden, ("client_host",)),
    Mask("hold ids of producers", records, ("records",)),
    Mask("a set", lambda _side, value: sorted(value), ("subscribed_topic_names",)),
    Mask("what is not served yet, and telemetry where nobody receives it", served_only, ("api_keys",), "ApiVersions"),
    Mask("of what is not served yet", features, ("supported_features", "finalized_features"), "ApiVersions"),
    Mask("counts other things", is_allocated, ("finalized_features_epoch",), "ApiVersions"),
    Mask(
        "each has its own metadata, and there is no controller apart",
        is_given,
        (
            "high_watermark",
            "last_caught_up_timestamp",
            "last_fetch_timestamp",
            "listeners",
            "log_end_offset",
            "replica_directory_id",
        ),
        "DescribeQuorum",
    ),
    Mask(
        "Kafka's controller resigns at an error that it did not expect",
        is_allocated,
        ("leader_epoch",),
        "DescribeQuorum",
    ),
    Mask("what each notes for itself is worded differently", sizes, ("topics",), "DescribeLogDirs"),
    Mask("ids and the time of markers are each broker's own", producers, ("active_producers",), "DescribeProducers"),
    Mask("the time is each broker's own", is_allocated_time, ("transaction_start_time_ms",), "DescribeTransactions"),
    Mask(
        "Kafka writes a start that has moved with the next change", share_state, ("partitions",), "ReadShareGroupState"
    ),
    Mask("follows the group's epoch, which each counts", is_allocated, ("state_epoch",), "ReadShareGroupState"),
    Mask("the same; the lag is compared", hidden, ("start_offset",), "DescribeShareGroupOffsets"),
    Mask("the time of markers is each broker's own", given_time, ("timestamp",), "ListOffsets"),
    Mask("no records are told in two ways", records_or_none, ("records",), "ShareFetch"),
)
"""All that is not compared as it is."""
COMPARED_AS_THEY_ARE = {("WriteTxnMarkers", "producer_id"), ("ShareGroupDescribe", "authorized_operations")}
"""Fields that would be masked by their name, and are not."""
BY_FIELD = {(mask.api, field): mask.apply for mask in MASKS for field in mask.fields}
MASKS_MAX = 25
TEXTS = {"error_message"}
SAME_TEXTS = {*range(29, 32), 33, 34, 53, 54}
"""Codes of refusals whose texts are Kafka's."""
OF_CLUSTER = "Cluster authorization failed."
JAVA_TEXT = re.compile(r"Request Request\(.* needs [A-Z_]+ permission\.$")
"""Kafka's text for the same: it prints objects of its program."""
BROKER = 4
SAME_TEXTS_IN = {
    "ConsumerGroupDescribe",
    "ConsumerGroupHeartbeat",
    "CreateAcls",
    "DeleteAcls",
    "DeleteGroups",
    "DescribeAcls",
    "UnregisterController",
}

TOPIC_NAMES = {"name", "topic", "topic_id"}
PARTITION_LISTS = {"partitions", "partition_responses"}
UNORDERED_APIS = frozenset(
    [
        "AddPartitionsToTxn",
        "AlterClientQuotas",
        "AlterReplicaLogDirs",
        "AlterShareGroupOffsets",
        "AlterUserScramCredentials",
        "ApiVersions",
        "ConsumerGroupDescribe",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DeleteGroups",
        "DeleteRecords",
        "DeleteTopics",
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeConfigs",
        "DescribeGroups",
        "DescribeLogDirs",
        "DescribeShareGroupOffsets",
        "DescribeTopicPartitions",
        "DescribeUserScramCredentials",
        "ElectLeaders",
        "Fetch",
        "ListConfigResources",
        "ListGroups",
        "ListOffsets",
        "Metadata",
        "OffsetCommit",
        "OffsetDelete",
        "OffsetFetch",
        "OffsetForLeaderEpoch",
        "Produce",
        "ShareGroupDescribe",
        "StreamsGroupDescribe",
        "TxnOffsetCommit",
        "WriteTxnMarkers",
    ]
)
"""What they list is compared in the order of `SORTED_BY`; that of the others in theirs."""
UNORDERED_APIS_MAX = 36
SORTED_BY = (
    "name",
    "producer_id",
    "topic_name",
    "feature",
    "topic",
    "topic_id",
    "partition_index",
    "partition",
    "partition_id",
    "index",
    "group_id",
    "key",
    "resource_name",
    "entity_type",
    "entity",
    "user",
    "resource_type",
    "pattern_type",
    "principal",
    "operation",
    "permission_type",
    "member_id",
    "mechanism",
)


def masked(side: Side, api: str, answer: Any) -> Any:
    """What of an answer is compared."""
    if answer == CLOSED:
        return CLOSED
    return _masked(side, api, answer)


def _masked(side: Side, api: str, value: Any) -> Any:
    if isinstance(value, dict):
        found = {}
        if value.get("name") == CLUSTER_DEFAULT:
            value = value | dict.fromkeys(value.keys() & {"config_source", "source", "synonyms"}, HIDDEN)
        same_texts = api in SAME_TEXTS_IN or value.get("error_code") in SAME_TEXTS
        for name, inner in value.items():
            if name in TEXTS and same_texts:
                found[name] = OF_CLUSTER if inner is not None and JAVA_TEXT.match(inner) else inner
                continue
            if name == "configs" and inner and "name" in inner[0]:
                inner = [each for each in inner if not each["name"].startswith("confluent.")]
            if name == "configs" and value.get("resource_type") == BROKER:
                inner = settings_of_broker(inner, is_default=not value["resource_name"])
            mask = BY_FIELD.get((api, name)) or BY_FIELD.get((None, name))
            if (api, name) in COMPARED_AS_THEY_ARE:
                mask = None
            plain = inner if mask is None else mask(side, inner)
            found[name] = plain if mask is records else _masked(side, api, plain)
        return found
    if isinstance(value, list):
        found = [_masked(side, api, inner) for inner in value]
        return sorted(_merged(found), key=_order) if api in UNORDERED_APIS else found
    return value


def _merged(elements: list[Any]) -> list[Any]:
    """Topics that are listed more than once become one, and those without partitions none.

    Kafka lists the partitions of a topic that it refuses apart from those that it serves.
    """
    found: dict[Any, Any] = {}
    for element in elements:
        lists = PARTITION_LISTS & element.keys() if isinstance(element, dict) else set()
        if not lists or not element.keys() <= PARTITION_LISTS | TOPIC_NAMES:
            return elements
        (partitions,) = lists
        name = tuple(element.get(field) for field in sorted(TOPIC_NAMES))
        topic = found.setdefault(name, element | {partitions: []})
        topic[partitions] = sorted(topic[partitions] + element[partitions], key=_order)
    return [topic for topic in found.values() if any(topic[name] for name in PARTITION_LISTS & topic.keys())]


def _order(value: Any) -> tuple[str, ...]:
    if not isinstance(value, dict):
        return ()
    return tuple(f"{value[name]!r:>40}" for name in SORTED_BY if name in value)


def differences(kafka: Any, ours: Any, path: str = "") -> list[str]:
    """Where two masked answers differ."""
    if isinstance(kafka, dict) and isinstance(ours, dict) and kafka.keys() == ours.keys():
        return [text for name in kafka for text in differences(kafka[name], ours[name], f"{path}.{name}")]
    if isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        pairs = enumerate(zip(kafka, ours, strict=True))
        return [text for index, (a, b) in pairs for text in differences(a, b, f"{path}[{index}]")]
    return [] if kafka == ours else [f"{path}: Kafka {kafka!r}, ours {ours!r}"]
