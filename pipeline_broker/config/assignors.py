"""What `group.consumer.assignors` and `group.share.assignors` may name, and which assignors that means.

Rules: an assignor goes by its short name or by the name of Kafka's class (KIP-848, KIP-932); classes of a user's own
cannot be loaded here. A name that stands twice counts once, as in Kafka; one assignor by two names is refused.
"""

from collections.abc import Iterable, Mapping

from pipeline_broker.config.properties import ConfigError

__all__ = ["CONSUMER_ASSIGNORS", "SHARE_ASSIGNORS", "consumer_assignors", "share_assignor"]

CLASSES = "org.apache.kafka.coordinator.group.assignor."
CONSUMER_ASSIGNORS: Mapping[str, str] = {"uniform": f"{CLASSES}UniformAssignor", "range": f"{CLASSES}RangeAssignor"}
"""Of consumer groups: name, Kafka's class."""
SHARE_ASSIGNORS: Mapping[str, str] = {"simple": f"{CLASSES}SimpleAssignor"}
"""Of share groups."""


def consumer_assignors(names: Iterable[str]) -> tuple[str, ...]:
    """The assignors that members of consumer groups may ask for, the default first.

    Args:
        names: what `group.consumer.assignors` says.

    Raises:
        ConfigError: it names none, one that is not known, or one by both of its names.
    """
    return _known("group.consumer.assignors", names, CONSUMER_ASSIGNORS)


def share_assignor(names: Iterable[str]) -> str:
    """The one assignor of all share groups.

    Args:
        names: what `group.share.assignors` says.

    Raises:
        ConfigError: it does not name exactly one, or one that is not known (Kafka's GroupCoordinatorConfig).
    """
    name, *more = _known("group.share.assignors", names, SHARE_ASSIGNORS)
    assert not more, "there is but one"
    return name


def _known(name: str, said: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    short = {class_name: assignor for assignor, class_name in known.items()}
    texts = list(dict.fromkeys(said))
    strangers = [text for text in texts if text not in known and text not in short]
    if strangers or not texts:
        found = ", ".join(strangers) or "an empty list"
        expected = ("one or both of " if len(known) > 1 else "") + ", ".join(known)
        raise ConfigError(f"{name}: {found} is not known here; expected {expected}")
    assignors = tuple(short.get(text, text) for text in texts)
    if len(set(assignors)) < len(assignors):
        raise ConfigError(f"{name}: {', '.join(texts)} names one assignor twice")
    return assignors
