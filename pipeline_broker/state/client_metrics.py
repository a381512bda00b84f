"""Telemetry subscriptions of clients: the metrics to push, and when (KIP-714)."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Mapping

import attrs

from pipeline_broker.base.error_code import ErrorCode, KafkaError
from pipeline_broker.base.patterns import MATCH_WORK_MAX, Pattern
from pipeline_broker.config.properties import ConfigError, Settings
from pipeline_broker.config.resolution import BrokerSettings
from pipeline_broker.config.resources import CLIENT_METRICS, RESOURCE_KINDS, parse_client_patterns
from pipeline_broker.state.dynamic_settings import DynamicSettings

__all__ = ["CLIENTS_MAX", "ClientMetrics", "Subscription", "TelemetryError"]

CLIENTS_MAX = 16_384
"""Clients that push metrics; Kafka's number."""
# Memory of the subscriptions of all clients: each may have 32 KB of metric names.
CLIENTS_BYTES_MAX = 32 << 20
"""Subscriptions of the clients that push metrics."""
# Approximate memory of a client, and of each metric name in addition to its characters.
CLIENT_BYTES, NAME_BYTES = 500, 60
# Patterns of all subscriptions. Compiled ones stay in memory, MEMORY_BYTES_MAX each, and every new client is matched
# against all of them.
PATTERNS_MAX = 100
"""Patterns in all subscriptions to client metrics."""
EVERYTHING = "*"
_KIND = RESOURCE_KINDS[CLIENT_METRICS]
_NO_SETTINGS = BrokerSettings()


class TelemetryError(KafkaError):
    pass


@attrs.frozen
class Subscription:
    """The metrics that one client should push.

    Attributes:
        subscription_id: changes with the metrics and the interval.
        metrics: prefixes of metric names; "*" for all, empty for none.
        push_interval_ms: time between pushes.
    """

    subscription_id: int
    metrics: tuple[str, ...]
    push_interval_ms: int


@attrs.define
class _Client:
    """A known client; times in milliseconds, None for never."""

    subscription: Subscription
    generation: int
    requested_ms: int | None = None
    pushed_ms: int | None = None
    has_ended: bool = False
    may_request: bool = (
        False  # a rejected push is repaired by a new subscription, so it may ask before its interval ends
    )

    @property
    def size_bytes(self) -> int:
        return CLIENT_BYTES + sum(NAME_BYTES + len(name) for name in self.subscription.metrics)


class ClientMetrics:
    """The clients that requested a subscription.

    A subscription is a resource with settings (`config/resources.py`). A client gets the union of all subscriptions
    that match it. Nothing here is durable: an unknown client gets its subscription again.

    Args:
        dynamic_settings: hold the settings of the subscriptions.
    """

    def __init__(self, dynamic_settings: DynamicSettings) -> None:
        self._dynamic_settings = dynamic_settings
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()
        self._clients_bytes = 0
        self._matches: dict[str, dict[str, Pattern]] = {}  # by subscription
        self._matches_generation = -1

    def __len__(self) -> int:
        return len(self._clients)

    def subscription(self, instance_id: bytes, client: Mapping[str, str], now_ms: int) -> Subscription:
        """Return the subscription of a client, and record the request.

        Args:
            client: the client's attributes, keyed by `config.resources.MATCHED_BY`.
            now_ms: wall clock.

        Raises:
            TelemetryError: the client asks before its push interval has passed, and none of its pushes was rejected for
                an outdated subscription or an unknown codec since its last request.
        """
        known = self._known(instance_id, client)
        # A push counts as well: the client may ask one interval after its last request or push.
        times = [each for each in (known.requested_ms, known.pushed_ms) if each is not None]
        if times and now_ms - max(times) < known.subscription.push_interval_ms:
            if not known.may_request:
                raise TelemetryError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        else:
            known.requested_ms = now_ms
        known.may_request = False
        return known.subscription

    def check_push(
        self,
        instance_id: bytes,
        client: Mapping[str, str],
        subscription_id: int,
        now_ms: int,
        *,
        is_last: bool,
        is_codec_known: bool = True,
    ) -> None:
        """Check that a client may push now, and record the push.

        Args:
            client: see `subscription`.
            subscription_id: the subscription that the client pushes for.
            now_ms: wall clock.
            is_last: the client terminates; its last push may arrive early.
            is_codec_known: whether the broker can decompress the data.

        Raises:
            TelemetryError: the client has terminated, pushes too often, or names an outdated subscription or an unknown
                codec.
        """
        known = self._known(instance_id, client)
        # As in Kafka, a later push that is not the last resets the flag, even though that push is rejected.
        has_ended, known.has_ended = known.has_ended, is_last
        if has_ended:
            raise TelemetryError(ErrorCode.INVALID_REQUEST)
        if self._may_push(known, now_ms):
            known.pushed_ms = now_ms
        elif not is_last:
            raise TelemetryError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if subscription_id != known.subscription.subscription_id:
            known.may_request = True
            raise TelemetryError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if not is_codec_known:
            known.may_request = True
            raise TelemetryError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

    @staticmethod
    def _may_push(known: _Client, now_ms: int) -> bool:
        # The client chooses when to send the first push after it got a subscription; later pushes are an interval
        # apart.
        if known.pushed_ms is None:
            return True
        if known.requested_ms is not None and known.requested_ms > known.pushed_ms:
            return True
        return now_ms - known.pushed_ms >= known.subscription.push_interval_ms

    def _known(self, instance_id: bytes, client: Mapping[str, str]) -> _Client:
        """Return the entry of a client; a new one if it is unknown or any subscription has changed, as in Kafka."""
        known, generation = self._clients.get(instance_id), self._dynamic_settings.generations[_KIND.key]
        if known is None or known.generation != generation:
            self._forget(self._clients.pop(instance_id, None))
            known = self._clients[instance_id] = _Client(self._subscription_for(instance_id, client), generation)
            self._clients_bytes += known.size_bytes
            while len(self._clients) > CLIENTS_MAX or (
                self._clients_bytes > CLIENTS_BYTES_MAX and len(self._clients) > 1
            ):
                self._forget(self._clients.popitem(last=False)[1])
        self._clients.move_to_end(instance_id)
        return known

    def _forget(self, client: _Client | None) -> None:
        if client is not None:
            self._clients_bytes -= client.size_bytes

    def check_room(self, name: str, settings: Settings) -> None:
        """Reject settings of a subscription if all subscriptions together would have more than PATTERNS_MAX patterns.

        Args:
            name: the subscription to create or change.
            settings: its new settings.

        Raises:
            ConfigError: all subscriptions would have too many patterns, or a pattern is malformed.
        """
        others = sum(len(each) for other, each in self._patterns().items() if other != name)
        if others + len(parse_client_patterns(settings.get("match", ""))) > PATTERNS_MAX:
            raise ConfigError(
                f"match: all subscriptions together may have {PATTERNS_MAX} patterns. Delete other patterns first."
            )

    def _patterns(self) -> Mapping[str, Mapping[str, Pattern]]:
        generation = self._dynamic_settings.generations[_KIND.key]
        if generation != self._matches_generation:
            texts = {
                name: self._dynamic_settings.settings((_KIND.key, name))
                for name in self._dynamic_settings.names(_KIND.key)
            }
            self._matches = {name: parse_client_patterns(settings.get("match", "")) for name, settings in texts.items()}
            self._matches_generation = generation
        return self._matches

    def _subscription_for(self, instance_id: bytes, client: Mapping[str, str]) -> Subscription:
        metrics: dict[str, None] = {}
        interval_ms = _KIND.value_of("interval.ms", {}, _NO_SETTINGS)
        assert isinstance(interval_ms, int)
        # Matching runs on the event loop. Subscriptions beyond this budget do not match the client.
        work_left = MATCH_WORK_MAX
        for name, patterns in self._patterns().items():
            settings = self._dynamic_settings.settings((_KIND.key, name))
            work_left -= sum(pattern.work(client.get(field, "")) for field, pattern in patterns.items())
            if work_left >= 0 and all(pattern.matches(client.get(field, "")) for field, pattern in patterns.items()):
                wanted = _KIND.value_of("metrics", settings, _NO_SETTINGS)
                own_ms = _KIND.value_of("interval.ms", settings, _NO_SETTINGS)
                assert isinstance(wanted, tuple)
                assert isinstance(own_ms, int)
                metrics.update(dict.fromkeys(wanted))
                interval_ms = min(interval_ms, own_ms)
        names = (EVERYTHING,) if EVERYTHING in metrics else tuple(metrics)
        digest = zlib.crc32(repr((names, interval_ms)).encode() + instance_id)
        return Subscription(digest - 2**31, names, interval_ms)
