"""The broker: composition of logs and state, with the coordinators that append what state returns."""

from __future__ import annotations

import functools
import random
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from pipeline_broker.broker.coordinators import Coordinators
from pipeline_broker.broker.groups import Groups
from pipeline_broker.broker.lazy_state import LazyState
from pipeline_broker.broker.metadata_log import METADATA_TOPIC, Change, MetadataLog
from pipeline_broker.broker.replay import StateReplay
from pipeline_broker.broker.settings_layers import SettingsLayers
from pipeline_broker.broker.share import Share
from pipeline_broker.broker.topic_policies import policies_of, rules_of
from pipeline_broker.broker.transactions import GrantedId, Transactions
from pipeline_broker.broker.waiting_fetches import WaitingFetches
from pipeline_broker.config.settings_warnings import SettingsWarnings
from pipeline_broker.log.log_manager import LogManager, LogTotals
from pipeline_broker.log.partition.policies import LogPolicies
from pipeline_broker.quotas.quotas import Quotas
from pipeline_broker.records.check import Rules
from pipeline_broker.state.cluster import ClusterState
from pipeline_broker.state.fetch_sessions import fetch_sessions_of
from pipeline_broker.state.log_starts import LogStarts
from pipeline_broker.state.metadata_records import METADATA_TOPIC_ID, RecordType, Topic, record_type
from pipeline_broker.state.outcome import Write
from pipeline_broker.state.producer_ids import ProducerIds
from pipeline_broker.state.set_aside import SetAside
from pipeline_broker.state.topics import NewTopic, TopicCatalogue
from pipeline_broker.telemetry.broker_loggers import BrokerLoggers
from pipeline_broker.telemetry.timelines_topic import TIMELINES_CONFIGS, TIMELINES_PARTITIONS, TIMELINES_TOPIC
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.uuid_text import uuid_text
from stages.request import Final, Pending

if TYPE_CHECKING:
    from pipeline_broker.config.resolution import BrokerSettings
    from pipeline_broker.config.settings import BrokerConfig
    from pipeline_broker.faults.faults import Faults
    from pipeline_broker.faults.files import FaultyFiles
    from pipeline_broker.log.entry import JournalEntry
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.security.authorizer import Authorizer
    from pipeline_broker.telemetry.topic_metrics import TopicMetrics

__all__ = ["Broker"]

SUBJECTS: Mapping[int, str] = {
    RecordType.PRODUCER_IDS: "producer_ids",
    RecordType.CLUSTER: "cluster",
    RecordType.SETTINGS: "cluster",
    RecordType.SCRAM_USER: "scram_users",
    RecordType.CLIENT_QUOTA: "quotas",
    RecordType.ACL: "acls",
    RecordType.LOG_START: "log_starts",
    RecordType.FEATURE: "features",
    RecordType.DELEGATION_TOKEN: "delegation_tokens",
}
"""Type of a record in the metadata partition: which attribute of the broker it is about. Topics are treated apart."""
PRODUCERS_CHECK_INTERVAL_MS = 600_000
"""How often silent producers are looked for; Kafka's `producer.id.expiration.check.interval.ms`."""


class Broker(LazyState):
    """All state of one broker.

    Args:
        config: what it acts on.
        logs: over a journal that is open and not recovered yet; see `recover`.
        randomness: where ids come from, the system's unless given; a simulation gives one that it can repeat.

    Attributes:
        internal_topics: those that clients are told to be internal, as Kafka's.
        reserved_topics: those that clients may not write; some of them are for reading (Spark reads no internal one).
        advertised: the host and port that clients are told, by the listener they came by; None where it is not
            advertised. Set by the server once its listeners are bound.
        check_config: refuses what the server cannot become, by raising ConfigError, given what a client names; set by
            the server.
        authorizer: decides who may do what; None where everybody may do everything.
        topics_generation: changes with every change of a topic, for those who remember partitions.
        produce_templates: how many the connections remember together; counted by `apis.produce_template`.
        wake_timer: called when `next_deadline_ms` may have become earlier; set by the server.
        clock_ms: wall clock for what no request brings, milliseconds since 1970; set by the dispatcher.
        loggers: whose levels clients may see and change.
        settings_warnings: of settings that have no effect.
        set_aside: the records that the start could not take over.
        topic_metrics: told of what leaves no trace in a log, when somebody observes the broker.
        config_changed: called when `config` has become another while the broker runs; set by the server.
        fault_files: the broker's files where they take fault rules; set by whoever opens it.
        faults_changed: called when there are fault rules, or others; set by whoever asks them about requests.
    """

    internal_topics = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
    reserved_topics = internal_topics | {TIMELINES_TOPIC}

    def __init__(self, config: BrokerConfig, logs: LogManager, randomness: random.Random | None = None) -> None:
        self._randomness = random.SystemRandom() if randomness is None else randomness
        self.config = config
        self.settings_warnings = SettingsWarnings()
        self.logs = logs
        self.cluster = ClusterState()
        self.layers = SettingsLayers(config, self.cluster)
        self.topics = TopicCatalogue(config.num_partitions, config.node_id)
        self.producer_ids = ProducerIds()
        self.log_starts = LogStarts()
        self.quotas = Quotas(config)
        self.authorizer = self._authorizer()
        self.groups = Groups(config, logs, self.topics, self._configs_of_group, self._wake_timer)
        self.transactions = Transactions(config, logs, self.marker_durable, self._grant_id, self._wake_timer)
        self.fetches = WaitingFetches(self._wake_timer)
        self.share = Share(config, logs, self._configs_of_group, self.topics, self.fetches, self._wake_timer)
        self.share.raise_log_start = self._delete_records
        self.coordinators = Coordinators(self.groups, self.transactions, self.share)
        self.fetch_sessions = fetch_sessions_of(config, self._randomness)
        self.advertised: Mapping[str, tuple[str, int] | None] = {}
        self.check_config: Callable[[BrokerConfig, Collection[str]], None] = lambda _, __: None
        self.wake_timer: Callable[[], None] = lambda: None
        self.clock_ms: Callable[[], int] = lambda: 0
        self.config_changed: Callable[[BrokerConfig], None] = lambda _: None
        self.loggers = BrokerLoggers()
        self.topic_metrics: TopicMetrics | None = None
        self.fault_files: FaultyFiles | None = None
        self.faults_changed: Callable[[Faults], None] = lambda _: None
        self.topics_generation = self.produce_templates = 0
        self._check_producers_ms = 0
        self._sweep_tokens_ms: int | None = None
        self._metadata = MetadataLog(logs)
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
        elif kind in SUBJECTS:
            getattr(self, SUBJECTS[kind]).replay(key, value)

    def _authorizer(self) -> Authorizer | None:
        if not self.config.authorizer_class_name:
            return None
        from pipeline_broker.security.authorizer import Authorizer  # noqa: PLC0415 - for brokers that ask it

        everyone = self.config.allow_everyone_if_no_acl_found
        return Authorizer(self.acls, self.config.super_users, allow_everyone=everyone)

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

    def find_allowed_log(
        self, name: str, topic_id: bytes, partition: int, is_allowed: Callable[[str], bool], *, by_id: bool
    ) -> PartitionLog | ErrorCode:
        """The same for a client that may not know of every topic: what it may not use is said to be forbidden."""
        log = self.find_log(name, topic_id, partition, by_id=by_id)
        if self.authorizer is not None:
            topic = self.topics.by_id(topic_id) if by_id else None
            if (topic is not None or not by_id) and not is_allowed(topic.name if topic is not None else name):
                return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return log

    def topic_totals(self) -> dict[tuple[str, bytes], LogTotals]:
        """What the logs of each topic hold; see `LogManager.totals`."""
        totals = self.logs.totals()
        del totals[METADATA_TOPIC, METADATA_TOPIC_ID]
        return totals

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic; None for an id that there is not."""
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
            self.share.submit([self.append_metadata(write, now_ms)], lambda: self.log_start_durable(write))

    def topic_durable(self, write: Write) -> None:
        """The record of a topic's change is durable."""
        change = self.topics.durable(write)
        self._topic_changed(change.before, change.after)
        self.groups.topic_changed(change.name)
        if change.after is None:
            self.coordinators.topic_deleted(change.name)

    def marker_durable(self, log: PartitionLog, producer_id: int, *, is_commit: bool) -> None:
        """The marker that ends a producer's transaction in a log is durable; see Coordinator."""
        self.coordinators.marker_durable(log, producer_id, is_commit=is_commit)

    def _topic_changed(self, before: Topic | None, after: Topic | None) -> None:
        self.topics_generation += 1
        if before is not None and (after is None or after.topic_id != before.topic_id):
            logs = self.logs.partitions(before.name)
            self.logs.delete(before.name)
            for log in logs:
                self.fetches.wake(log)
            self.coordinators.unload(before.name)
        if after is not None:
            rules, policies = self._rules_and_policies(after)
            self.logs.create(after.name, after.topic_id, after.partitions, rules, policies)
            self.logs.set_rules(after.name, rules, policies)

    def settings_durable(self, write: Write) -> None:
        """The record of altered settings is durable; what topics inherit may have changed."""
        self.cluster.durable(write)
        self._apply_settings()
        self.config_changed(self.config)

    def _configs_of_group(self, group_id: str) -> Mapping[str, str]:
        return self.cluster.settings(("group", group_id))

    def _apply_settings(self) -> None:
        self.config = self.share.config = self.layers.refresh()
        self.groups.settings_changed(self.config)
        for topic in self.topics.all():
            self.logs.set_rules(topic.name, *self._rules_and_policies(topic))

    def check_settings(self, key: tuple[str, str], settings: Mapping[str, str], named: Collection[str]) -> None:
        """Refuse settings that do not go together with the others; `named` are those that a client sets or resets.

        Raises:
            ConfigError: they do not.
        """
        self.check_config(self.layers.check(key, settings), named)

    def _rules_and_policies(self, topic: Topic) -> tuple[Rules, LogPolicies]:
        settings = self.settings
        expiration_ms = self.config.producer_id_expiration_ms
        return rules_of(topic, settings), policies_of(topic, settings, expiration_ms)

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
            return NewTopic(name=name, topic_id=topic_id, partitions=TIMELINES_PARTITIONS, configs=TIMELINES_CONFIGS)
        return NewTopic(name=name, topic_id=topic_id)

    # Commits and time

    def entries_durable(self, entries: list[JournalEntry]) -> None:
        """A commit is durable: show its entries and answer the fetches that waited for them."""
        self.logs.on_durable(entries)
        self.fetches.notify(entries)

    def _wake_timer(self) -> None:
        self.wake_timer()

    def next_deadline_ms(self) -> int:
        """When `advance` has something to do."""
        deadlines = (
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
            self.groups.submit([entry], lambda: tokens.durable(write))
