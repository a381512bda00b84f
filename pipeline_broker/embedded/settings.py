"""The settings of an embedded broker: Kafka's, without the delays that slow tests down.

Rules of this file: everything here can be set otherwise, by the same names.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.properties import ConfigError, property_text
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.log.archive.local.archive_place import Wal
from pipeline_broker.log.journal.flush_policy import Flush
from pipeline_broker.node.options import ServeOptions, mode_of
from stages.mode import MODES

__all__ = ["DEFAULTS", "FLUSHES", "SettingValue", "serve_options"]

logger = logging.getLogger(__name__)

SettingValue = str | int | float | bool
FLUSHES: Mapping[str, Flush] = {"os": "os", "always": "always"}
"""By the texts that a caller may give."""

DEFAULTS: Mapping[str, str] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # they share one event loop anyway, and a broker begins and ends sooner with one
    "num.network.threads": "1",
    # a group forms when its first member joins, and does not wait for others
    "group.initial.rebalance.delay.ms": "0",
    # a test may be as impatient as it likes
    "group.min.session.timeout.ms": "10",
    # members of KIP-848 learn of a rebalance by their next heartbeat
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    # each partition of them is made when the first group, transaction or share group is
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # a store that a test has costs nothing
    "wal.puts.per.second": "0",
    # records of fixed times long ago stay until a test lets time pass; Kafka deletes them half a minute after its start
    "log.initial.task.delay.ms": "86400000",
}


def serve_options(
    mode: str, settings: Mapping[str, SettingValue] | None, data: Path, flush: str, wal: Wal = "disk"
) -> ServeOptions:
    """How the broker is started.

    Raises:
        EmbeddedBrokerError: something is not possible.
    """
    if mode not in MODES:
        raise EmbeddedBrokerError(f"mode {mode!r} is neither of {', '.join(MODES)}")
    promised = FLUSHES.get(flush)
    if promised is None:
        raise EmbeddedBrokerError(f"flush {flush!r} is neither of {', '.join(FLUSHES)}")
    config = _config(settings or {})
    return ServeOptions(mode=mode_of(mode, config), flush=promised, data=data, config=config, wal=wal)


def _config(settings: Mapping[str, SettingValue]) -> BrokerConfig:
    texts = {**DEFAULTS, **{name: property_text(value) for name, value in settings.items()}}
    try:
        config, warnings = parse_settings(texts.items())
        _ = config.listener_configs  # what is wrong with them is said now
    except ConfigError as error:
        raise EmbeddedBrokerError(f"settings: {error}") from None
    for warning in warnings:
        logger.warning("%s", warning)
    return config
