"""Constraints between the settings of a group, and between them and the broker's, with Kafka's error messages."""

from collections.abc import Callable, Mapping

from pipeline_broker.base.duration import BY_DURATION, iso_milliseconds
from pipeline_broker.config.properties import ConfigError, broker_properties, properties_of

__all__ = ["check_group_settings"]

KINDS = ("consumer", "share", "streams")
STANDBY_REPLICAS = "streams.num.standby.replicas"
OFFSET_RESET = "share.auto.offset.reset"
COPIES_RECORDS = "errors.deadletterqueue.copy.record.enable"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"


def check_group_settings(own: Mapping[str, str], value_of: Callable[[str], int], broker: Callable[[str], int]) -> None:
    """Refuse settings of a group that contradict each other or exceed the broker's limits.

    Args:
        own: the texts that are set for the group.
        value_of: returns the effective number of a setting of the group.
        broker: returns the number of a broker property.

    Raises:
        ConfigError: a constraint is violated.
    """
    _check_share_group(own)
    for name in properties_of("group"):
        kind, rest = name.split(".", 1)
        if f"group.{kind}.max.{rest}" not in broker_properties():
            continue
        for word, relation in (("min", "greater"), ("max", "less")):
            bound = f"group.{kind}.{word}.{rest}"
            value, limit = value_of(name), broker(bound)
            if value < limit if word == "min" else value > limit:
                raise ConfigError(f"{name} must be {relation} than or equal to {bound}")
    most = "group.streams.max.standby.replicas"
    if value_of(STANDBY_REPLICAS) > broker(most):
        raise ConfigError(f"{STANDBY_REPLICAS} must be less than or equal to {most}")
    for kind in KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if value_of(session) <= value_of(heartbeat):
            raise ConfigError(f"{session} must be greater than {heartbeat}")


def _check_share_group(own: Mapping[str, str]) -> None:
    reset = own.get(OFFSET_RESET)
    if reset not in {None, "earliest", "latest"} and _duration_ms(reset) is None:
        message = (
            f"Invalid value `{reset}` for configuration {OFFSET_RESET}. The value must be either 'earliest', 'latest'"
            " or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
        raise ConfigError(message, f"Invalid value {reset} for configuration {OFFSET_RESET}: {message}")
    if own.get(DEAD_LETTER_TOPIC, "").startswith("__"):
        raise ConfigError(f"{DEAD_LETTER_TOPIC}: DLQ topic name must not start with '__'")
    if properties_of("group")[COPIES_RECORDS].parse(own.get(COPIES_RECORDS, "false")):
        # Accepted, it would promise that the content of an undelivered record outlives the record.
        raise ConfigError(f"{COPIES_RECORDS}: this broker writes only headers to dead-letter queues")


def _duration_ms(reset: str) -> int | None:
    return iso_milliseconds(reset.removeprefix(BY_DURATION)) if reset.startswith(BY_DURATION) else None
