"""The layers of a broker's settings: what it was started with, and what clients have set since.

Rules of this room: synchronous; it reads what the cluster keeps and changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import attrs

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.reconfiguration import check_change
from pipeline_broker.config.resolution import BrokerSettings, Source, topic_entry
from pipeline_broker.config.settings import config_with
from pipeline_broker.state.cluster import ClusterState

__all__ = ["SettingsLayers"]

logger = logging.getLogger(__name__)

BROKER_RESOURCE = "broker"
STORED = frozenset({Source.DYNAMIC_TOPIC, Source.DYNAMIC_DEFAULT_BROKER})
"""Where a setting comes from that is kept in the data directory and counts for every broker."""


class SettingsLayers:
    """Which settings count for a broker.

    Args:
        started_with: the configuration of its start.
        cluster: keeps what was set for this broker and for all brokers.

    Attributes:
        config: the configuration that counts.
    """

    def __init__(self, started_with: BrokerConfig, cluster: ClusterState) -> None:
        self._started_with = started_with
        self._cluster = cluster
        self.config = started_with
        self._settings = BrokerSettings()
        self._settings_of: tuple[BrokerConfig, int] | None = None

    @property
    def settings(self) -> BrokerSettings:
        """All that was set; the same object until something else is, because it knows what topics inherit."""
        latest = self.config, self._cluster.generations[BROKER_RESOURCE]
        if self._settings_of != latest:
            self._settings_of = latest
            self._settings = BrokerSettings(
                static=self.config.properties,
                secrets=self.config.secrets,
                dynamic_default=self._cluster.settings(self.key(for_all=True)),
                dynamic=self._cluster.settings(self.key(for_all=False)),
            )
        return self._settings

    def settings_with(self, key: tuple[str, str], settings: Mapping[str, str]) -> BrokerSettings:
        """All that would be set with these settings under a key."""
        if key == self.key(for_all=True):
            return attrs.evolve(self.settings, dynamic_default=settings)
        return attrs.evolve(self.settings, dynamic=settings)

    def key(self, *, for_all: bool) -> tuple[str, str]:
        """Under which key the cluster keeps what was set for this broker, or for all brokers, while they run."""
        return BROKER_RESOURCE, "" if for_all else str(self.config.node_id)

    def refresh(self) -> BrokerConfig:
        """Work out the configuration that counts after something was set; of two settings that for this broker does."""
        of_all, of_this = (self._cluster.settings(self.key(for_all=for_all)) for for_all in (True, False))
        try:
            self.config = config_with(self._started_with, {**of_all, **of_this})
        except ConfigError as error:  # it did go together with the settings of an earlier start
            logger.warning("what was set while the broker ran is left aside: %s", error)
        return self.config

    @property
    def is_changed(self) -> bool:
        """Whether anything was set while brokers ran."""
        return any(self._cluster.settings(self.key(for_all=for_all)) for for_all in (True, False))

    def inherited_from_start(self, own: Mapping[str, str], names: Iterable[str]) -> list[str]:
        """Which of these topic settings come from what the broker was started with, or from a default.

        The others are decided by the directory itself, whoever opens it. What is stored for a single broker decides
        nothing here: it counts only for a start with that broker's `node.id`.

        Args:
            own: the topic's own settings.
            names: of topic settings.
        """
        ids = filter(None, self._cluster.names(BROKER_RESOURCE))
        of_single_brokers = {name for each in ids for name in self._cluster.settings((BROKER_RESOURCE, each))}
        for_all = self._cluster.settings(self.key(for_all=True))
        stored = BrokerSettings(dynamic_default={n: text for n, text in for_all.items() if n not in of_single_brokers})
        return [name for name in names if topic_entry(name, own, stored).source not in STORED]

    def check(self, key: tuple[str, str], settings: Mapping[str, str]) -> BrokerConfig:
        """The configuration that would count with these settings under a key.

        Raises:
            ConfigError: they do not go together with the others, or cannot be changed in this way.
        """
        layers = {
            layer: self._cluster.latest_settings(layer) for layer in (self.key(for_all=True), self.key(for_all=False))
        }
        layers[key] = settings
        of_all, of_this = layers.values()
        after = config_with(self._started_with, {**of_all, **of_this})
        check_change(self.config, after)
        return after
