"""The layers of a broker's settings: those of its startup, and dynamic ones for all brokers and for this broker.

Counterpart in Kafka: `DynamicBrokerConfig`.
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
from pipeline_broker.state.dynamic_settings import DynamicSettings

__all__ = ["BROKER_RESOURCE", "SettingsLayers"]

logger = logging.getLogger(__name__)

BROKER_RESOURCE = "broker"
# Sources of settings that are in the data directory and apply to every broker that opens it.
STORED = frozenset({Source.DYNAMIC_TOPIC, Source.DYNAMIC_DEFAULT_BROKER})


class SettingsLayers:
    """The layers of a broker's settings, and the effective values.

    Args:
        started_with: configuration at startup.
        dynamic_settings: for this broker, and for all brokers.

    Attributes:
        config: effective configuration.
    """

    def __init__(self, started_with: BrokerConfig, dynamic_settings: DynamicSettings) -> None:
        self._started_with = started_with
        self._dynamic_settings = dynamic_settings
        self.config = started_with
        self._settings = BrokerSettings()
        self._settings_of: tuple[BrokerConfig, int] | None = None

    @property
    def settings(self) -> BrokerSettings:
        """All settings with their sources.

        The object stays the same until a setting changes, because it caches the values that topics inherit.
        """
        latest = self.config, self._dynamic_settings.generations[BROKER_RESOURCE]
        if self._settings_of != latest:
            self._settings_of = latest
            self._settings = BrokerSettings(
                static=self.config.properties,
                secrets=self.config.secrets,
                dynamic_default=self._dynamic_settings.settings(self.key(for_all=True)),
                dynamic=self._dynamic_settings.settings(self.key(for_all=False)),
            )
        return self._settings

    def settings_with(self, key: tuple[str, str], settings: Mapping[str, str]) -> BrokerSettings:
        if key == self.key(for_all=True):
            return attrs.evolve(self.settings, dynamic_default=settings)
        return attrs.evolve(self.settings, dynamic=settings)

    def key(self, *, for_all: bool) -> tuple[str, str]:
        """Return the resource under which dynamic settings are stored, for this broker or for all."""
        return BROKER_RESOURCE, "" if for_all else str(self.config.node_id)

    def refresh(self) -> BrokerConfig:
        """Compute the configuration again after dynamic settings changed, and return it.

        Settings of this broker override those of all brokers. Inconsistent dynamic settings are logged and ignored.
        """
        of_all, of_this = (self._dynamic_settings.settings(self.key(for_all=for_all)) for for_all in (True, False))
        try:
            self.config = config_with(self._started_with, {**of_all, **of_this})
        except ConfigError as error:  # they were consistent with the configuration of an earlier startup
            logger.warning(
                "all dynamic broker settings are ignored, because they contradict the configuration: %s. Correct the"
                " settings with `config set` or `config delete`",
                error,
            )
        return self.config

    @property
    def is_changed(self) -> bool:
        return any(self._dynamic_settings.settings(self.key(for_all=for_all)) for for_all in (True, False))

    def inherited_from_start(self, own: Mapping[str, str], names: Iterable[str]) -> list[str]:
        """Return the topic settings that get their values from the startup configuration or a default.

        All others are in the data directory, so that they do not depend on the broker that opens it. Dynamic settings
        of a single broker count as inherited: they apply only with that broker's `node.id`.

        Args:
            own: the topic's own settings.
            names: names of topic settings.
        """
        ids = filter(None, self._dynamic_settings.names(BROKER_RESOURCE))
        of_single_brokers = {name for each in ids for name in self._dynamic_settings.settings((BROKER_RESOURCE, each))}
        for_all = self._dynamic_settings.settings(self.key(for_all=True))
        stored = BrokerSettings(dynamic_default={n: text for n, text in for_all.items() if n not in of_single_brokers})
        return [name for name in names if topic_entry(name, own, stored).source not in STORED]

    def check(self, key: tuple[str, str], settings: Mapping[str, str]) -> BrokerConfig:
        """Return the configuration as it would be with `settings` under a key.

        Raises:
            ConfigError: the settings are inconsistent with the others, or cannot be changed at run time.
        """
        # Pending changes are included, so that two changes in progress are consistent with each other.
        layers = {
            layer: self._dynamic_settings.latest_settings(layer)
            for layer in (self.key(for_all=True), self.key(for_all=False))
        }
        layers[key] = settings
        of_all, of_this = layers.values()
        after = config_with(self._started_with, {**of_all, **of_this})
        check_change(self.config, after)
        return after
