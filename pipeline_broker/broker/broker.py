"""The broker: composition of logs and state, with the coordinators that append what state returns.

Longer than most files: all state has one owner.
"""

from __future__ import annotations

import functools
import random
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pipeline_broker.base.byte_budget import ByteBudget
from pipeline_broker.broker.coordinators import Coordinators
from pipeline_broker.broker.groups import Groups
from pipeline_broker.broker.metadata_log import METADATA_TOPIC, Change, MetadataLog
from pipeline_broker.broker.ports import Load, Ports
from pipeline_broker.broker.replay import StateReplay
from pipeline_broker.broker.settings_layers import SettingsLayers
from pipeline_broker.broker.share import Share
from pipeline_broker.broker.share_ports import SharePorts
from pipeline_broker.broker.topic_policies import policies_of, rules_of
from pipeline_broker.broker.transactions import GrantedId, Transactions
from pipeline_broker.broker.waiting_fetches import WaitingFetches
from pipeline_broker.config.settings_warnings import SettingsWarnings
from pipeline_broker.log.log_manager import LogManager, LogTotals
from pipeline_broker.log.segments.policies import LogPolicies
from pipeline_broker.quotas.quotas import Quotas
from pipeline_broker.records.check import Rules
from pipeline_broker.security.refusals import Refusals
from pipeline_broker.state.cluster import ClusterState
from pipeline_broker.state.fetch_sessions import fetch_sessions_of
from pipeline_broker.state.log_starts import LogStarts
from pipeline_broker.state.metadata_records import METADATA_TOPIC_ID, RecordType, Topic, record_type
from pipeline_broker.state.outcome import Write
from pipeline_broker.state.producer_ids import ProducerIds
from pipeline_broker.state.set_aside import SetAside
from pipeline_broker.state.topics import NewTopic, TopicCatalogue
from pipeline_broker.state.waiting_line import WaitingLine
from pipeline_broker.telemetry.broker_loggers import BrokerLoggers
from pipeline_broker.telemetry.timelines_topic import TIMELINES_TOPIC, timelines_configs
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.uuid_text import uuid_text
from stages.request import Final, Pending

if TYPE_CHECKING:
    from pipeline_broker.base.steps import Steps
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.config.resolution import BrokerSettings
    from pipeline_broker.faults.faults import Faults
    from pipeline_broker.log.journal.entry import IndexedLog, JournalEntry
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.security.acls import Acls
    from pipeline_broker.security.authorizer import Authorizer
    from pipeline_broker.security.delegation_tokens import DelegationTokens
    from pipeline_broker.security.scram_users import ScramUsers
    from pipeline_broker.state.client_metrics import ClientMetrics
    from pipeline_broker.state.features import Features
    from pipeline_broker.telemetry.client_metrics_file import ClientMetricsFile
    from pipeline_broker.telemetry.topic_metrics import TopicMetrics

__all__ = ["Broker"]

LARGE_REQUESTS_MAX = 1
"""Requests that take many turns at a time; decoded, each takes up to 20 MB."""
LONG_BATCHES_MAX = 1
"""Batches that are checked in steps, or searched by time, at a time; decompressed, each takes up to 32 MiB."""
FORGOTTEN_AT_ONCE_MAX = 1_000
"""Logs of deleted topics that are let go of in one turn: about 2 ms; those behind them wait for the next ones."""
PRODUCERS_CHECK_INTERVAL_MS = 600_000
"""How often silent producers are looked for; Kafka's `producer.id.expiration.check.interval.ms`."""

Replay: TypeAlias = Callable[[bytes, bytes | None], object]
"""Takes over a record of the metadata partition."""


class Broker:
    """All state of one broker.

    Args:
        config: what it acts on.
        logs: over a journal that is open and not recovered yet; see `recover`.
        randomness: where ids come from, the system's unless given; a simulation gives one that it can repeat.
        ports: what it asks of its surroundings.

    Attributes:
        internal_topics: reported to clients as internal, as Kafka does.
        reserved_topics: those that clients may not write; some of them are for reading (Spark reads no internal one).
        failed_logins, denials: who was refused, see `Refusals`.
        authorizer: decides who may do what; None where everybody may do everything.
        topics_generation: changes with every change of a topic, for those who remember partitions.
        edges: charged for what clients make the broker keep beside requests and state, see `ByteBudget`.
        loggers: whose levels clients may see and change.
        settings_warnings: of settings that have no effect.
        set_aside: the records that the start could not take over.
        altering: the request that alters settings of brokers, and those that wait for it.
        large_requests: who has a request that takes many turns, and who waits for that.
        long_batches: who has batches checked in steps or searched by time, and who waits for that.
        topic_metrics: given by `observe_topics`.
    """

    internal_topics = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
    reserved_topics = internal_topics | {TIMELINES_TOPIC}

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        randomness: random.Random | None = None,
        ports: Ports = Ports(),  # noqa: B008 - frozen
    ) -> None:
        self.ports = ports
        self._randomness = random.SystemRandom() if randomness is None else randomness
        self.config = config = config.flushing(logs.journal.flush)
        self.settings_warnings = SettingsWarnings()
        self.logs = logs
        self.cluster = ClusterState()
        self.layers = SettingsLayers(config, self.cluster)
        self.topics = TopicCatalogue(config.num_partitions, config.node_id)
        self.producer_ids = ProducerIds()
        self.log_starts = LogStarts()
        self.quotas = Quotas(config, ports.ip_rates_changed)
        self.failed_logins, self.denials = Refusals(ports.clock_ms), Refusals(ports.clock_ms)
        self.authorizer = self._authorizer()
        submit, wake_timer = ports.submit, ports.wake_timer
        self.groups = Groups(config, logs, self.topics, self._configs_of_group, submit, wake_timer)
        self.transactions = Transactions(config, logs, self.marker_durable, self._grant_id, submit, wake_timer)
        self.fetches = WaitingFetches(wake_timer, ports.fetch_parked)
        share_ports = SharePorts(self._configs_of_group, self.fetches, submit, wake_timer, self._delete_records)
        self.share = Share(config, logs, share_ports)
        self.coordinators = Coordinators(self.groups, self.transactions, self.share)
        self.fetch_sessions = fetch_sessions_of(config, self._randomness)
        self.loggers = BrokerLoggers()
        self.topic_metrics: TopicMetrics | None = None
        self.edges, self.topics_generation = ByteBudget(config.pipeline_edge_bytes), 0
        self._check_producers_ms = 0
        self._sweep_tokens_ms: int | None = None
        self._metadata = MetadataLog(logs)
        self.altering, self.large_requests = WaitingLine(1), WaitingLine(LARGE_REQUESTS_MAX)
        self.long_batches = WaitingLine(LONG_BATCHES_MAX)
        self._faults: Faults | None = None
        self._replays: Mapping[int, Replay] = {
            RecordType.PRODUCER_IDS: self.producer_ids.replay,
            RecordType.CLUSTER: self.cluster.replay,
            RecordType.SETTINGS: self.cluster.replay,
            RecordType.SCRAM_USER: lambda key, value: self.scram_users.replay(key, value),  # noqa: PLW0108 - loads it
            RecordType.CLIENT_QUOTA: self.quotas.replay,
            RecordType.ACL: lambda key, value: self.acls.replay(key, value),  # noqa: PLW0108 - loads it
            RecordType.LOG_START: self.log_starts.replay,
            RecordType.FEATURE: lambda key, value: self.features.replay(key, value),  # noqa: PLW0108 - loads it
            RecordType.DELEGATION_TOKEN: lambda key, value: self.delegation_tokens.replay(key, value),  # noqa: PLW0108 - loads it
        }
        self.set_aside = SetAside()

    # Start

    def recover(self, now_ms: int) -> None:
        """Replay the journal.

        Raises:
            JournalCorrupt: records that were durable cannot be read.
        """
        replay = StateReplay(self.coordinators, self._metadata.log, self._replay_metadata, self.set_aside)
        self.logs.recover(replay, now_ms, replay.is_state)
        self.logs.knows_all_topics = not self.set_aside.has_any_of(METADATA_TOPIC)
        self.set_aside.end()
        self._check_producers_ms = now_ms + PRODUCERS_CHECK_INTERVAL_MS
        if self.config.delegation_token_secret_key:
            self._sweep_tokens_ms = now_ms + self.config.delegation_token_expiry_check_interval_ms
        if self.layers.is_changed:
            self._apply_settings()
        self.quotas.replayed()
        self.log_starts.replayed({topic.topic_id for topic in self.topics.all()})
        for log in self.logs:
            log.raise_log_start(self.log_starts.get(log.topic_id, log.partition))
        self.coordinators.loaded(now_ms)

    def first_entries(self, now_ms: int) -> list[JournalEntry]:
        """What must be on disk before it serves: the id of a new cluster, the rest of transactions that had ended."""
        entries = self.transactions.start_entries(now_ms)
        if self.cluster.cluster_id is None:
            write = self.cluster.create(uuid_text(self.new_id().bytes))
            self.cluster.durable(write)
            entries.append(self.append_metadata(write, now_ms))
        return entries

    def _replay_metadata(self, key: bytes, value: bytes | None) -> None:
        """Take over one record of the metadata partition; raises StateRecordError and changes nothing then."""
        kind = record_type(key)
        if kind == RecordType.TOPIC:
            change = self.topics.replay(key, value)
            self._topic_changed(change.before, change.after)
        elif kind in self._replays:
            self._replays[kind](key, value)

    def _authorizer(self) -> Authorizer | None:
        if not self.config.authorizer_class_name:
            return None
        from pipeline_broker.security.authorizer import Authorizer  # noqa: PLC0415 - for brokers that ask it

        everyone = self.config.allow_everyone_if_no_acl_found
        return Authorizer(self.acls, self.config.super_users, allow_everyone=everyone, denials=self.denials)

    # What the handlers ask

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, made at the first start on a data directory."""
        assert self.cluster.cluster_id is not None, "first_entries comes before serving"
        return self.cluster.cluster_id

    @property
    def settings(self) -> BrokerSettings:
        """All that was set for this broker."""
        return self.layers.settings

    def new_id(self) -> uuid.UUID:
        """An id that nothing else has: of the cluster, a topic, a member of a group."""
        return uuid.UUID(int=self._randomness.getrandbits(128), version=4)

    def find_log(self, name: str, topic_id: bytes, partition: int, *, by_id: bool) -> PartitionLog | ErrorCode:
        """The log of a partition that a request names, or why there is none."""
        if by_id:
            topic = self.topics.by_id(topic_id)
            if topic is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            name = topic.name
        log = self.logs.find(name, partition)
        if log is None or log is self._metadata.log:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return log

    def partition_count(self, name: str) -> int:
        """How many partitions of a topic `find_log` finds."""
        return 0 if name == METADATA_TOPIC else len(self.logs.partitions(name))

    def find_allowed_log(
        self, name: str, topic_id: bytes, partition: int, is_allowed: Callable[[str], bool], *, by_id: bool
    ) -> PartitionLog | ErrorCode:
        """Like `find_log`, but a topic that the client may not use is forbidden, so that it cannot probe for names."""
        log = self.find_log(name, topic_id, partition, by_id=by_id)
        if self.authorizer is not None:
            topic = self.topics.by_id(topic_id) if by_id else None
            if (topic is not None or not by_id) and not is_allowed(topic.name if topic is not None else name):
                return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return log

    def topic_totals(self) -> Steps[dict[tuple[str, bytes], LogTotals]]:
        """What the logs of each topic hold; see `LogManager.totals`."""
        return self.logs.totals((METADATA_TOPIC, METADATA_TOPIC_ID))

    def topic_name(self, topic_id: bytes) -> str | None:
        """The topic's name, or None if the id is unknown."""
        topic = self.topics.by_id(topic_id)
        return None if topic is None else topic.name

    # Changes of metadata

    def acls_durable(self, write: Write) -> None:
        """The records of changed access rules are durable; those who remember what was allowed ask again."""
        self.acls.durable(write)
        self.topics_generation += 1

    def append_metadata(self, write: Write, now_ms: int) -> JournalEntry:
        """Append a change of metadata; the entry must be committed and the change be told that it is durable."""
        return self._metadata.append(write, now_ms)

    def commit_metadata(self, changes: Sequence[Change], now_ms: int, answer: Final) -> Pending | Final:
        """Make changes durable, apply them, then answer; see MetadataLog."""
        return self._metadata.commit(changes, now_ms, answer)

    def _grant_id(self, now_ms: int) -> GrantedId:
        """A producer id that nobody had, with what must be committed before it is told."""
        allocation = self.producer_ids.allocate()
        write = allocation.write
        if write is None:
            return GrantedId(allocation.producer_id)
        entry = self.append_metadata(write, now_ms)
        return GrantedId(allocation.producer_id, entry, functools.partial(self.producer_ids.durable, write))

    def log_start_durable(self, write: Write) -> None:
        """The record of a log's start is durable: who waits for what was in front of it looks again."""
        start = self.log_starts.durable(write)
        topic = None if start is None else self.topics.by_id(start.topic_id)
        log = None if start is None or topic is None else self.logs.find(topic.name, start.partition)
        if start is not None and log is not None:
            log.raise_log_start(start.offset)
            self.fetches.wake(log)

    def _delete_records(self, log: PartitionLog, offset: int, now_ms: int) -> None:  # see Share.raise_log_start
        write = self.log_starts.raise_to(log.topic_id, log.partition, offset)
        if write is not None and self.topics.latest(log.topic) is not None:
            self.ports.submit([self.append_metadata(write, now_ms)], lambda: self.log_start_durable(write))

    def log_maker(self, topic: Topic) -> Callable[[int], PartitionLog]:
        """What makes logs of a topic that is to come, or to grow, for `topic_durable`; until then they are nobody's."""
        rules, policies = self._rules_and_policies(topic)
        return lambda partition: self.logs.make(topic.name, topic.topic_id, partition, rules, policies)

    def topic_durable(self, write: Write, made: Sequence[PartitionLog] = ()) -> None:
        """The record of a topic's change is durable; `made` are logs of it that are made already, see LogManager."""
        change = self.topics.durable(write)
        self._topic_changed(change.before, change.after, made)
        self.groups.topic_changed()
        if change.before is not None and change.after is None:
            self.coordinators.topic_deleted(change.before)

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None:
        """The marker that ends a producer's transaction in a log is durable; see Coordinator."""
        self.coordinators.marker_durable(log, producer_id, is_commit=is_commit)

    def _topic_changed(self, before: Topic | None, after: Topic | None, made: Sequence[PartitionLog] = ()) -> None:
        self.topics_generation += 1
        if before is not None and (after is None or after.topic_id != before.topic_id):
            self.logs.delete(before.name)
            self._forget_logs()
            if self.logs.is_any_leaving:
                self.ports.wake_timer()
            self.coordinators.unload(before.name)
        if after is not None:
            rules, policies = self._rules_and_policies(after)
            self.logs.create(after.name, after.topic_id, after.partitions, rules, policies, made)
            self.logs.set_rules(after.name, rules, policies)

    def _forget_logs(self) -> None:
        """Let go of logs that were deleted; fetches that wait for them are answered."""
        for log in self.logs.forget_some(FORGOTTEN_AT_ONCE_MAX):
            self.fetches.wake(log)

    def settings_durable(self, write: Write, adopt: Callable[[], None] | None = None) -> None:
        """The record of altered settings is durable; what topics inherit may have changed.

        Args:
            adopt: what the `Load` of the change returned.
        """
        if adopt is not None:
            adopt()
        self.cluster.durable(write)
        self._apply_settings()
        self.ports.config_changed(self.config)

    def _configs_of_group(self, group_id: str) -> Mapping[str, str]:
        return self.cluster.settings(("group", group_id))

    def _apply_settings(self) -> None:
        self.config = self.layers.refresh()
        self.groups.settings_changed(self.config)
        self.share.settings_changed(self.config)
        known: dict[tuple[tuple[str, str], ...], tuple[Rules, LogPolicies]] = {}  # most topics have the same settings
        for topic in self.topics.all():
            own = tuple(topic.configs.items())
            if own not in known:
                known[own] = self._rules_and_policies(topic)
            self.logs.set_rules(topic.name, *known[own])

    def check_settings(self, key: tuple[str, str], settings: Mapping[str, str], named: Collection[str]) -> Load | None:
        """Refuse settings that do not go together with the others; `named` are those that a client sets or resets.

        Returns:
            what must be done in a thread before they are known to be usable.

        Raises:
            ConfigError: they do not.
        """
        return self.ports.check_config(self.layers.check(key, settings), named)

    def _rules_and_policies(self, topic: Topic) -> tuple[Rules, LogPolicies]:
        settings = self.settings
        expiration_ms = self.config.producer_id_expiration_ms
        return rules_of(topic, settings), policies_of(topic, settings, expiration_ms)

    def observe_topics(self, metrics: TopicMetrics | None) -> None:
        """Report to these metrics what leaves no trace in a log, from now on; None ends that."""
        self.topic_metrics = metrics

    @property
    def can_write(self) -> bool:
        """Whether the journal takes entries now; while the disk is full it does not, and requests should be refused."""
        return self.logs.journal.room.obstacle is None

    def new_topic(self, name: str) -> NewTopic:
        """A topic as it is created when a client merely asks for it."""
        topic_id = self.new_id().bytes
        coordinator = self.coordinators.get(name)
        if coordinator is not None:
            topic = coordinator.topic
            return NewTopic(name=name, topic_id=topic_id, partitions=topic.partitions, configs=dict(topic.configs))
        if name == TIMELINES_TOPIC:
            partitions = self.ports.request_queues
            return NewTopic(name=name, topic_id=topic_id, partitions=partitions, configs=timelines_configs(partitions))
        return NewTopic(name=name, topic_id=topic_id)

    # Parts that most brokers never have: each is loaded and made when something asks for it first

    @property
    def faults(self) -> Faults:
        """The fault rules."""
        if self._faults is None:
            from pipeline_broker.faults.faults import Faults  # noqa: PLC0415 - loaded when it is asked for first

            ports = self.ports
            disk = None if ports.fault_files is None else ports.fault_files.disk
            store = None if ports.fault_store is None else ports.fault_store.rules
            self._faults = Faults(self.groups, ports.clock_ms, ports.wake_timer, disk, ports.faults_changed, store)
        return self._faults

    @property
    def has_faults(self) -> bool:
        """Whether somebody asked for the fault rules."""
        return self._faults is not None

    @functools.cached_property
    def acls(self) -> Acls:
        """The rules of access."""
        from pipeline_broker.security.acls import Acls  # noqa: PLC0415 - loaded when it is asked for first

        return Acls()

    @functools.cached_property
    def scram_users(self) -> ScramUsers:
        """The users that prove who they are by SCRAM, and the tokens that do it for others."""
        from pipeline_broker.security.scram_users import ScramUsers  # noqa: PLC0415 - loaded when it is asked for first

        return ScramUsers(self.delegation_tokens if self.config.delegation_token_secret_key else None)

    @functools.cached_property
    def delegation_tokens(self) -> DelegationTokens:
        """The tokens that stand for users."""
        from pipeline_broker.security.delegation_tokens import (  # noqa: PLC0415 - loaded when it is asked for first
            DelegationTokens,
        )

        return DelegationTokens(self.config)

    @functools.cached_property
    def features(self) -> Features:
        """The levels of features that are finalized."""
        from pipeline_broker.state.features import Features  # noqa: PLC0415 - loaded when it is asked for first

        return Features()

    @functools.cached_property
    def client_metrics(self) -> ClientMetrics:
        """Which clients push metrics."""
        from pipeline_broker.state.client_metrics import ClientMetrics  # noqa: PLC0415 - loaded when it is asked for first

        return ClientMetrics(self.cluster)

    @functools.cached_property
    def client_metrics_file(self) -> ClientMetricsFile:
        """Where they are kept."""
        from pipeline_broker.telemetry.client_metrics_file import (  # noqa: PLC0415 - loaded when it is asked for first
            ClientMetricsFile,
        )

        path = self.config.pipeline_telemetry_file
        return ClientMetricsFile(None if path is None else Path(path), self.config.telemetry_max_bytes)

    # Commits and time

    def entries_durable(self, entries: list[JournalEntry]) -> None:
        """A commit is durable: show its entries and answer the fetches that waited for them."""
        self.logs.on_durable(entries)
        self.fetches.notify(entries)

    def next_deadline_ms(self) -> int:
        """When `advance` has something to do."""
        deadlines = (
            0 if self.logs.is_any_leaving else None,
            self.fetches.next_deadline_ms(),
            self.coordinators.next_deadline_ms(),
            self._check_producers_ms,
            self._sweep_tokens_ms,
            self.faults.next_deadline_ms() if self.has_faults else None,
        )
        return min(deadline for deadline in deadlines if deadline is not None)

    def end_waiting(self) -> None:
        """The broker ends: answer those that wait for records, and those that fault rules hold."""
        self.fetches.end()
        if self.has_faults:
            self.faults.end()

    def advance(self, now_ms: int) -> None:
        """Do what is due."""
        self._forget_logs()
        self.fetches.advance(now_ms)
        self.coordinators.advance(now_ms)
        if self.has_faults:
            self.faults.advance(now_ms)
        if now_ms >= self._check_producers_ms:
            self._check_producers_ms = now_ms + PRODUCERS_CHECK_INTERVAL_MS
            self.logs.expire_producers(now_ms, self.config.producer_id_expiration_ms)
        if self._sweep_tokens_ms is not None and now_ms >= self._sweep_tokens_ms:
            self._sweep_tokens_ms = now_ms + self.config.delegation_token_expiry_check_interval_ms
            self._sweep_tokens(now_ms)

    def _sweep_tokens(self, now_ms: int) -> None:
        tokens = self.delegation_tokens
        write = tokens.sweep(now_ms) if self.can_write else None
        if write is not None:
            entry = self.append_metadata(write, now_ms)
            self.ports.submit([entry], lambda: tokens.durable(write))
