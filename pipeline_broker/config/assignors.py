"""Names of assignors in `group.consumer.assignors`, `group.share.assignors` and `group.streams.assignors`.

A setting names an assignor by its short name or by Kafka's class. Classes of users are not supported.
"""

from collections.abc import Iterable, Mapping

from pipeline_broker.config.properties import ConfigError

__all__ = [
    "CONSUMER_ASSIGNORS",
    "SHARE_ASSIGNORS",
    "STREAMS_ASSIGNORS",
    "consumer_assignors",
    "share_assignor",
    "streams_assignors",
]

CLASSES = "org.apache.kafka.coordinator.group.assignor."
CONSUMER_ASSIGNORS: Mapping[str, str] = {"uniform": f"{CLASSES}UniformAssignor", "range": f"{CLASSES}RangeAssignor"}
"""Assignors of consumer groups: short name and Kafka's class."""
SHARE_ASSIGNORS: Mapping[str, str] = {"simple": f"{CLASSES}SimpleAssignor"}
"""Assignors of share groups: short name and Kafka's class."""
STREAMS_CLASSES = "org.apache.kafka.coordinator.group.streams.assignor."
STREAMS_ASSIGNORS: Mapping[str, str] = {"sticky": f"{STREAMS_CLASSES}StickyTaskAssignor"}
"""Assignors of streams groups: short name and Kafka's class."""


def consumer_assignors(names: Iterable[str]) -> tuple[str, ...]:
    """Return the short names of the assignors that consumer groups may select, the default first.

    Args:
        names: the items of `group.consumer.assignors`.

    Raises:
        ConfigError: the list is empty, or has an unknown name or one assignor under both of its names.
    """
    return _known("group.consumer.assignors", names, CONSUMER_ASSIGNORS)


def share_assignor(names: Iterable[str]) -> str:
    """Return the short name of the assignor of all share groups.

    Args:
        names: the items of `group.share.assignors`.

    Raises:
        ConfigError: the list does not name exactly one known assignor (Kafka's GroupCoordinatorConfig).
    """
    name, *more = _known("group.share.assignors", names, SHARE_ASSIGNORS)
    assert not more, "SHARE_ASSIGNORS has one item, and _known refuses it twice"
    return name


def streams_assignors(names: Iterable[str]) -> tuple[str, ...]:
    """Return the short names of the assignors that streams groups may select, the default first.

    Args:
        names: the items of `group.streams.assignors`.

    Raises:
        ConfigError: the list is empty, or has an unknown name or one assignor under both of its names.
    """
    return _known("group.streams.assignors", names, STREAMS_ASSIGNORS)


def _known(name: str, items: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    short = {class_name: assignor for assignor, class_name in known.items()}
    texts = list(dict.fromkeys(items))  # Kafka, too, accepts the same text twice
    unknown = [text for text in texts if text not in known and text not in short]
    if unknown or not texts:
        found = ", ".join(unknown) or "an empty list"
        expected = ("one or both of " if len(known) > 1 else "") + ", ".join(known)
        raise ConfigError(f"{name}: {found} is not supported; use {expected}")
    assignors = tuple(short.get(text, text) for text in texts)
    if len(set(assignors)) < len(assignors):
        raise ConfigError(f"{name}: {', '.join(texts)} names one assignor twice. Remove one of them.")
    return assignors
