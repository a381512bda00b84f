"""Settings of an embedded broker: Kafka's defaults, without the delays that slow tests down."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.embedded.arguments import SettingValue, setting_texts
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.log.archive.local.archive_place import Wal
from pipeline_broker.log.journal.flush_policy import Flush
from pipeline_broker.node.options import ServeOptions, mode_of
from stages.mode import MODES

__all__ = ["DEFAULTS", "FLUSHES", "serve_options"]

logger = logging.getLogger(__name__)

FLUSHES: Mapping[str, Flush] = {"os": "os", "always": "always"}

# Every default can be overridden by the same name in `settings`.
DEFAULTS: Mapping[str, str] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # All threads of a mode share one event loop; a single one starts and stops faster.
    "num.network.threads": "1",
    # A group forms when its first member joins.
    "group.initial.rebalance.delay.ms": "0",
    # Tests may use short session timeouts.
    "group.min.session.timeout.ms": "10",
    # Members of KIP-848 learn of a rebalance from their next heartbeat.
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    # The first group, transaction or share group creates every partition of its internal topic.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # The pace limits the cost of requests to a bucket; a store in a test is free.
    "wal.puts.per.second": "0",
    # Records with old timestamps stay until a test advances the clock. Kafka deletes them 30 seconds after its start.
    "log.initial.task.delay.ms": "86400000",
}


def serve_options(
    mode: str, settings: Mapping[str, SettingValue] | None, data: Path, flush: str, wal: Wal = "disk"
) -> ServeOptions:
    """Return the startup options of a broker. Logs a warning for each setting without effect.

    Raises:
        EmbeddedBrokerError: the mode, `flush` or a setting is invalid.
    """
    if mode not in tuple(MODES):
        raise EmbeddedBrokerError(f"mode {mode!r} is unknown; use one of {', '.join(MODES)}")
    if flush not in tuple(FLUSHES):
        raise EmbeddedBrokerError(f"flush {flush!r} is unknown; use one of {', '.join(FLUSHES)}")
    config = _config({} if settings is None else settings)
    return ServeOptions(mode=mode_of(mode, config), flush=FLUSHES[flush], data=data, config=config, wal=wal)


def _config(settings: Mapping[str, SettingValue]) -> BrokerConfig:
    texts = {**DEFAULTS, **setting_texts("settings", settings)}
    try:
        config, warnings = parse_settings(texts.items())
        _ = config.listener_configs  # reject invalid listeners now, not at startup
    except ConfigError as error:
        raise EmbeddedBrokerError(f"settings: {error}") from None
    for warning in warnings:
        logger.warning("%s", warning)
    return config
