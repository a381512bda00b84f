"""Which client shall push which metrics, and when it may (KIP-714).

Rules of this file: see `state/outcome.py`; nothing here is durable, for a client that is unknown is simply told again.
A subscription is a resource with settings (`config/resources.py`); a client is told what all that match it ask for
together, under an id that changes with the answer. Of the clients that have asked the last ones are remembered. Codes
are Kafka's.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Mapping

import attrs

from pipeline_broker.base.patterns import MATCH_WORK_MAX, Pattern
from pipeline_broker.config.properties import ConfigError, Settings
from pipeline_broker.config.resolution import BrokerSettings
from pipeline_broker.config.resources import CLIENT_METRICS, RESOURCE_KINDS, matches_of
from pipeline_broker.state.cluster import ClusterState
from pipeline_broker.wire.error import ErrorCode, KafkaError

__all__ = ["CLIENTS_MAX", "ClientMetrics", "Subscription", "TelemetryError"]

CLIENTS_MAX = 16_384
"""As many as Kafka remembers."""
CLIENTS_BYTES_MAX = 32 << 20
"""Of the answers to all clients: a subscription may have 32 KB of names of metrics."""
CLIENT_BYTES, NAME_BYTES = 500, 60
"""Of a client, and of each name beside its characters."""
PATTERNS_MAX = 100
"""Of all subscriptions together. They are kept read, with MEMORY_BYTES_MAX each, and all of them meet each client."""
EVERYTHING = "*"
_KIND = RESOURCE_KINDS[CLIENT_METRICS]
_NO_SETTINGS = BrokerSettings()


class TelemetryError(KafkaError):
    """Why a client is refused."""


@attrs.frozen
class Subscription:
    """What one client is told.

    Attributes:
        subscription_id: names the answer.
        metrics: beginnings of names; none where nothing is wanted.
        push_interval_ms: how often it pushes.
    """

    subscription_id: int
    metrics: tuple[str, ...]
    push_interval_ms: int


@attrs.define
class _Client:
    """What is remembered of a client; times in milliseconds, None for never."""

    subscription: Subscription
    generation: int
    requested_ms: int | None = None
    pushed_ms: int | None = None
    has_ended: bool = False
    may_request: bool = False  # what it did is best mended by asking again

    @property
    def size_bytes(self) -> int:
        return CLIENT_BYTES + sum(NAME_BYTES + len(name) for name in self.subscription.metrics)


class ClientMetrics:
    """The clients that have asked.

    Args:
        cluster: keeps the subscriptions.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()
        self._clients_bytes = 0
        self._matches: dict[str, dict[str, Pattern]] = {}  # by subscription
        self._matches_generation = -1

    def __len__(self) -> int:
        return len(self._clients)

    def subscription(self, instance_id: bytes, client: Mapping[str, str], now_ms: int) -> Subscription:
        """What a client shall push.

        Args:
            instance_id: by which it is known.
            client: what a subscription may look at, by `config.resources.MATCHED_BY`.
            now_ms: wall clock.

        Raises:
            TelemetryError: it asks too often.
        """
        known = self._known(instance_id, client)
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
        """Whether a client may push now.

        Args:
            instance_id: see `subscription`.
            client: see `subscription`.
            subscription_id: what it believes to be told.
            now_ms: wall clock.
            is_last: it says that it ends: this one may come early.
            is_codec_known: whether its data can be decompressed.

        Raises:
            TelemetryError: it has said that it ends, pushes too often, or what it shall push, or how, is not this.
        """
        known = self._known(instance_id, client)
        has_ended, known.has_ended = known.has_ended, is_last  # as Kafka: a refused push takes the end back
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
        """The first push after a question is at the client's own time, later ones an interval apart."""
        if known.pushed_ms is None:
            return True
        if known.requested_ms is not None and known.requested_ms > known.pushed_ms:
            return True
        return now_ms - known.pushed_ms >= known.subscription.push_interval_ms

    def _known(self, instance_id: bytes, client: Mapping[str, str]) -> _Client:
        """A client; as in Apache Kafka a new one where it is unknown or any subscription has changed."""
        known, generation = self._clients.get(instance_id), self._cluster.generations[_KIND.key]
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
        """Refuse settings of a subscription with which all subscriptions would have too many patterns.

        Raises:
            ConfigError: they would.
        """
        others = sum(len(each) for other, each in self._patterns().items() if other != name)
        if others + len(matches_of(settings.get("match", ""))) > PATTERNS_MAX:
            raise ConfigError(
                f"match: all subscriptions together may have {PATTERNS_MAX} patterns; delete others first"
            )

    def _patterns(self) -> Mapping[str, Mapping[str, Pattern]]:
        """Return the patterns of each subscription; they are read once for all clients."""
        generation = self._cluster.generations[_KIND.key]
        if generation != self._matches_generation:
            texts = {name: self._cluster.settings((_KIND.key, name)) for name in self._cluster.names(_KIND.key)}
            self._matches = {name: matches_of(settings.get("match", "")) for name, settings in texts.items()}
            self._matches_generation = generation
        return self._matches

    def _subscription_for(self, instance_id: bytes, client: Mapping[str, str]) -> Subscription:
        metrics: dict[str, None] = {}
        interval_ms = _KIND.value_of("interval.ms", {}, _NO_SETTINGS)
        assert isinstance(interval_ms, int)
        work_left = MATCH_WORK_MAX
        for name, patterns in self._patterns().items():
            settings = self._cluster.settings((_KIND.key, name))
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
