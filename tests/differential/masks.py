"""What may differ between Apache Kafka's answers and ours, field by field, and why.

A mask replaces a value by what is left of it to compare. Lists whose order Kafka leaves to its hash maps are sorted.
Everything that is not named here must be equal. docs/compatibility.md explains each difference that a client can see.
"""

from __future__ import annotations

import re
from typing import Any

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from tests.differential.oracle import CLOSED, MEMBER_ID, Side, name_of_topic

HIDDEN = "..."
OFFSETS_TOPIC = "__consumer_offsets"


def hidden(_side: Side, _value: Any) -> Any:
    return HIDDEN


def is_given(_side: Side, value: Any) -> Any:
    """Whether there is an id, not which."""
    return value not in (0, -1, "", None)


def is_allocated(_side: Side, value: Any) -> Any:
    """Whether there is a number from 0 on, not which."""
    return value >= 0


def member(_side: Side, value: Any) -> Any:
    """A member id without the part that is drawn."""
    match = MEMBER_ID.fullmatch(value) if value else None
    return f"{match[1]}-..." if match else value


def records(_side: Side, value: Any) -> Any:
    """Batches as they are, but for the id of their producer, which each broker gives out, and its checksum."""
    if value is None:
        return None
    return [
        [header._replace(crc=0, producer_id=min(header.producer_id, 0)), list(iterate_records(batch, header))]
        for header, batch in iterate_batches(value)
    ]


def served_only(_side: Side, value: Any) -> Any:
    """Of the APIs that Kafka advertises those that we serve."""
    return [entry for entry in value if entry["api_key"] in SERVED]


def sizes(_side: Side, value: Any) -> Any:
    """How large the partitions of clients are: what a broker notes of groups is worded differently."""
    return [
        topic | {"partitions": [part | {"partition_size": HIDDEN} for part in topic["partitions"]]}
        if topic["name"] == OFFSETS_TOPIC
        else topic
        for topic in value
    ]


EVERYWHERE = {
    "throttle_time": hidden,  # nothing is throttled; Kafka measures
    "error_message": hidden,  # texts are for people
    "batch_index_error_message": hidden,
    "aborted_transactions": lambda _side, value: value or None,  # Kafka says "none" in two ways, by how it read
    "topic_id": name_of_topic,  # drawn by each broker
    "cluster_id": hidden,
    "host": hidden,
    "port": hidden,
    "producer_id": is_allocated,
    "session_id": is_given,
    "member_id": member,
    "leader": member,
    "client_host": hidden,  # ours leaves out Java's slash
    "records": records,
    "documentation": is_given,
}
"""By the field's name."""

ONLY_IN = {
    ("ApiVersions", "api_keys"): served_only,
    ("ApiVersions", "supported_features"): hidden,  # features of KRaft clusters, none of which are served yet
    ("ApiVersions", "finalized_features"): hidden,
    ("ApiVersions", "finalized_features_epoch"): hidden,
    ("ApiVersions", "zk_migration_ready"): hidden,
    ("DescribeLogDirs", "log_dir"): is_given,
    ("DescribeLogDirs", "topics"): sizes,
    ("DescribeLogDirs", "total_bytes"): is_given,
    ("DescribeLogDirs", "usable_bytes"): is_given,
}
"""By the API and the field's name."""
TEXTS = {"error_message"}
SAME_TEXTS = {*range(29, 32), 33, 34, 53, 54}
"""Codes of refusals whose texts are Kafka's."""
OF_CLUSTER = "Cluster authorization failed."
JAVA_TEXT = re.compile(r"Request Request\(.* needs [A-Z_]+ permission\.$")
"""Kafka's text for the same: it prints objects of its program."""
BROKER = 4
SAME_TEXTS_IN = {"CreateAcls", "DescribeAcls", "DeleteAcls"}

CLUSTER_DEFAULT = "min.insync.replicas"
"""A formatted KRaft cluster has one dynamic default, this one; ours has none, but the value is the same."""
TOPIC_NAMES = {"name", "topic", "topic_id"}
PARTITION_LISTS = {"partitions", "partition_responses"}
SORTED_BY = (
    "name",
    "topic",
    "topic_id",
    "partition_index",
    "partition",
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
)
"""Lists of such things are compared in the order of these fields."""


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
            if name == "configs" and value.get("resource_type") == BROKER:  # which settings there are depends on both
                found[name] = bool(inner)
                continue
            mask = ONLY_IN.get((api, name)) or EVERYWHERE.get(name)
            plain = inner if mask is None else mask(side, inner)
            found[name] = plain if mask is records else _masked(side, api, plain)
        return found
    if isinstance(value, list):
        return sorted(_merged([_masked(side, api, inner) for inner in value]), key=_order)
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
