"""The state of a broker: logs, topics, quotas, access rules and coordinators.

Longer than most files: all state has one owner.

Counterpart in Kafka: `ReplicaManager`; the broker object owns topics, logs and coordinators; no replicas exist.
"""

from __future__ import annotations

import functools
import random
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pipeline_broker.base.byte_budget import ByteBudget
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.steps import THINGS_PER_STEP, Steps
from pipeline_broker.broker.cluster_parts import ClusterParts
from pipeline_broker.broker.coordinators import Coordinators
from pipeline_broker.broker.groups import Groups
from pipeline_broker.broker.metadata_log import METADATA_TOPIC, Change, MetadataLog
from pipeline_broker.broker.ports import NO_PORTS, ClusterPort, GrantedId, Load, Ports
from pipeline_broker.broker.replay import StateReplay
from pipeline_broker.broker.settings_layers import SettingsLayers
from pipeline_broker.broker.share import Share
from pipeline_broker.broker.share_ports import SharePorts
from pipeline_broker.broker.topic_policies import policies_of, rules_of
from pipeline_broker.broker.transactions import Transactions
from pipeline_broker.broker.waiting_fetches import WaitingFetches
from pipeline_broker.config.settings_warnings import SettingsWarnings
from pipeline_broker.config.topic_settings import TopicSettings
from pipeline_broker.log.log_manager import LogManager, LogTotals
from pipeline_broker.log.segments.policies import LogPolicies
from pipeline_broker.quotas.quotas import Quotas
from pipeline_broker.records.check import Rules
from pipeline_broker.security.refusals import Refusals
from pipeline_broker.state.cluster_id import ClusterId
from pipeline_broker.state.dynamic_settings import DynamicSettings
from pipeline_broker.state.fetch_sessions import fetch_sessions_of
from pipeline_broker.state.log_starts import LogStarts
from pipeline_broker.state.metadata_records import METADATA_TOPIC_ID, RecordType, Topic, record_type
from pipeline_broker.state.outcome import Write
from pipeline_broker.state.set_aside import SetAside
from pipeline_broker.state.topics import NewTopic
from pipeline_broker.state.waiting_line import WaitingLine
from pipeline_broker.telemetry.broker_loggers import BrokerLoggers
from pipeline_broker.telemetry.timelines_topic import TIMELINES_TOPIC, timelines_configs
from pipeline_broker.wire.uuid_text import uuid_text
from stages.request import Final, Pending

if TYPE_CHECKING:
    from pipeline_broker.base.steps import Steps
    from pipeline_broker.broker.leader_changes import LeaderChanges
    from pipeline_broker.broker.registered_schemas import RegisteredSchemas
    from pipeline_broker.broker.streams_topics import StreamsTopics
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
    from pipeline_broker.state.leadership.records import PartitionKey
    from pipeline_broker.state.topics import TopicChange
    from pipeline_broker.telemetry.client_metrics_file import ClientMetricsFile
    from pipeline_broker.telemetry.topic_metrics import TopicMetrics

__all__ = ["Broker"]

# Requests of many turns in progress at a time. A decoded one takes up to 20 MB.
LARGE_REQUESTS_MAX = 1
"""Concurrent requests of more than two turns; later ones wait."""
# Batches that are checked in steps, or searched by timestamp, at a time. A decompressed one takes up to 32 MiB.
LONG_BATCHES_MAX = 1
"""Concurrent checks of long batches, of 32 MiB each; later ones wait."""
# Deleted logs that one turn drops: about 2 ms. All 10,000 logs of a large topic at once took at least 15 ms.
FORGOTTEN_AT_ONCE_MAX = 1_000
# As Kafka's `producer.id.expiration.check.interval.ms`.
PRODUCERS_CHECK_INTERVAL_MS = 600_000


class Replayed(Protocol):
    # Applies the key and value of a record of the metadata partition.
    def replay(self, key: bytes, value: bytes | None) -> object: ...


class Broker:
    """All state of one broker.

    Args:
        config: configuration at startup.
        logs: logs over an open journal; `recover` replays them.
        randomness: source of ids; the system's by default. A simulation passes a seeded one.
        ports: callbacks to the process.

    Attributes:
        internal_topics: topics that clients see as internal, as in Kafka.
        reserved_topics: topics that clients may not write. Some are not internal, because Spark cannot read internal
            ones.
        failed_logins, denials: refused clients, see `Refusals`.
        authorizer: checks the access rules; None if every client may do everything.
        topics_generation: changes with each change of a topic or access rule, so that cached partitions become invalid.
        edges: budget of memory that clients make the broker keep in addition to requests and state, see `ByteBudget`.
        loggers: loggers with levels that clients may read and change.
        settings_warnings: warnings about settings without an effect.
        set_aside: records that the startup could not apply.
        altering: queue of the requests that alter broker settings; one runs at a time.
        large_requests: queue of the requests that take many turns.
        long_batches: queue of the requests whose batches are checked in steps or searched by timestamp.
        schemas: the registry for topics that validate schemas; None without one.
        topic_metrics: metrics of traffic that leaves no trace in the logs, set by `observe_topics`.
    """

    internal_topics = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
    reserved_topics = internal_topics | {TIMELINES_TOPIC}
    schemas: RegisteredSchemas | None = None
    _replay: StateReplay | None = None  # set by `recover`
    _sweep_tokens_ms: int | None

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        randomness: random.Random | None = None,
        ports: Ports = NO_PORTS,
    ) -> None:
        self.ports = ports
        self._randomness = random.SystemRandom() if randomness is None else randomness
        self.config = config = config.with_flush(logs.journal.flush)
        self.settings_warnings = SettingsWarnings()
        self.logs = logs
        self._cluster_id, self.dynamic_settings = ClusterId(), DynamicSettings()
        self.layers = SettingsLayers(config, self.dynamic_settings)
        topics, self.leadership, self.producer_ids, self.members, markers = ClusterParts.of(config, logs, ports)
        self.topics = topics
        self.log_starts = LogStarts()
        self.quotas = Quotas(config, ports.ip_rates_changed)
        self.failed_logins, self.denials = Refusals(ports.clock_ms), Refusals(ports.clock_ms)
        self.authorizer = self._authorizer()
        submit, wake_timer, level = ports.submit, ports.wake_timer, self._share_level
        self.groups = Groups(config, logs, topics, self._configs_of_group, submit, wake_timer)
        grant_id, marked = self._grant_id, self.marker_durable
        self.transactions = Transactions(config, logs, topics, marked, grant_id, submit, wake_timer, markers)
        self.fetches = WaitingFetches(wake_timer, ports.fetch_parked)
        share_ports = SharePorts(self._configs_of_group, self.fetches, submit, wake_timer, level, self._delete_records)
        self.share = Share(config, logs, topics, share_ports)
        self.coordinators = Coordinators(self.groups, self.transactions, self.share)
        self.fetch_sessions = fetch_sessions_of(config, self._randomness)
        self.loggers = BrokerLoggers()
        self.topic_metrics: TopicMetrics | None = None
        self.edges, self.topics_generation = ByteBudget(config.pipeline_edge_bytes), 0
        self._leader_changes = self._made_leader_changes()
        self._check_producers_ms, self._sweep_tokens_ms = 0, None
        self._metadata = MetadataLog(logs)
        self.altering, self.long_batches = WaitingLine(1), WaitingLine(LONG_BATCHES_MAX)
        self.large_requests = WaitingLine(LARGE_REQUESTS_MAX)
        self._faults: Faults | None = None
        self._states: Mapping[int, Callable[[], Replayed]] = {
            RecordType.PRODUCER_IDS: lambda: self.producer_ids,
            RecordType.CLUSTER: lambda: self._cluster_id,
            RecordType.SETTINGS: lambda: self.dynamic_settings,
            RecordType.SCRAM_USER: lambda: self.scram_users,
            RecordType.CLIENT_QUOTA: lambda: self.quotas,
            RecordType.ACL: lambda: self.acls,
            RecordType.LOG_START: lambda: self.log_starts,
            RecordType.FEATURE: lambda: self.features,
            RecordType.DELEGATION_TOKEN: lambda: self.delegation_tokens,
        }
        self.set_aside = SetAside()

    # Start

    def recover(self, now_ms: int, metadata: Iterable[tuple[bytes, bytes | None]] = ()) -> None:
        """Replay the archived state records, then the journal.

        Args:
            metadata: records of the controller, which a member of a cluster needs before its own.

        Raises:
            JournalCorrupt: durable records of the journal cannot be read.
            DamagedSegment: archived state records cannot be read.
        """
        for key, value in metadata:
            self._apply_from_controller(key, value)
        replay = StateReplay(self.coordinators, self._metadata.log, self._replay_metadata, self.set_aside)
        self.logs.recover(replay, now_ms, replay.is_state, lambda: not self.set_aside.has_any_of(METADATA_TOPIC))
        self.set_aside.end()
        self._check_producers_ms = now_ms + PRODUCERS_CHECK_INTERVAL_MS
        if self.config.delegation_token_secret_key and self.controller is None:
            self._sweep_tokens_ms = now_ms + self.config.delegation_token_expiry_check_interval_ms
        # After the replay, because topics were created with the settings of the startup.
        if self.layers.is_changed:
            self._apply_settings()
        self.quotas.replayed()
        self.log_starts.replayed({topic.topic_id for topic in self.topics.all()})
        # The archive may hold records that clients have deleted: only a recorded log start hides them.
        for log in self.logs:
            log.raise_log_start(self.log_starts.get(log.topic_id, log.partition))
        self.coordinators.loaded(now_ms)
        self._replay = replay

    def first_entries(self, now_ms: int) -> list[JournalEntry]:
        """Return the entries to commit before serving.

        The entries are the NODE record of a controller, the missing markers and records of decided transactions, and
        the id of a new cluster.
        """
        entries: list[JournalEntry] = []
        if self.ports.cluster is not None and self.members is not None and not self.members.follows:
            # Before the markers, which carry the number of this process (C1). With the number of the previous process,
            # its late markers would end later transactions.
            joined = self.members.next_process(self.ports.cluster.listeners)
            self.node_durable(joined)  # early, as below
            entries.append(self.append_metadata(joined, now_ms))
        if self.members is not None:
            while (write := self.members.open()) is not None:
                # Early: the startup makes it durable, or fails, before clients connect.
                self._open_logs(self.members.opened(write))
                entries.append(self.append_metadata(write, now_ms))
        entries += self.transactions.start_entries(now_ms)
        if self._cluster_id.value is None:
            write = self._cluster_id.create(uuid_text(self.new_id().bytes))
            self._cluster_id.durable(write)
            entries.append(self.append_metadata(write, now_ms))
        return entries

    def _replay_metadata(self, key: bytes, value: bytes | None) -> None:
        if self.members is not None:
            self.members.check_local(key)
        self._apply_metadata(key, value)

    def _apply_metadata(self, key: bytes, value: bytes | None) -> TopicChange | None:
        kind = record_type(key)
        if kind == RecordType.TOPIC:
            change = self.topics.replay(key, value)
            self._topic_changed(change.before, change.after)
            return change
        if kind in self._states:
            self._states[kind]().replay(key, value)
        elif self.members is not None and kind in {RecordType.NODE, RecordType.PARTITION}:
            self._leader_changed(key, value)
        elif self.members is not None and kind == RecordType.OPEN:
            opened = self.members.replay_open(key, value)
            if opened is not None:
                self._open_logs([opened])
        return None

    # A cluster

    def _apply_from_controller(self, key: bytes, value: bytes | None) -> TopicChange | None:
        assert self.members is not None, "only members of a cluster receive metadata"
        # Its log also has the records that each broker keeps for itself. They would take back producer ids given here.
        return None if self.members.is_local(key) else self._apply_metadata(key, value)

    def apply_metadata(self, records: Iterable[tuple[bytes, bytes | None]]) -> Steps[None]:
        """Apply durable records that the controller wrote. `open_partitions` follows."""
        kinds: set[int] = set()
        for count, (key, value) in enumerate(records, 1):
            if not count % THINGS_PER_STEP:
                yield
            kinds.add(record_type(key))
            change = self._apply_from_controller(key, value)
            if change is not None and change.before is not None and change.after is None:
                self.coordinators.topic_deleted(change.before)
        self.topics_generation += 1
        if RecordType.SETTINGS in kinds:
            self._apply_settings()
            self.ports.config_changed(self.config)
        if RecordType.CLIENT_QUOTA in kinds:
            self.quotas.replayed()
        if RecordType.TOPIC in kinds:
            self.groups.topic_changed()

    def open_partitions(self, now_ms: int, then: Callable[[], None]) -> bool:
        """Open some partitions that this broker leads; return False if all are open.

        Args:
            then: called once these partitions are open. The caller opens the next ones in another turn.
        """
        assert self.members is not None, "only members of a cluster open partitions"
        write = self.members.open()
        if write is None:
            return False

        def opened() -> None:
            self.partitions_open(write)
            then()

        self.ports.submit([self.append_metadata(write, now_ms)], opened)
        return True

    @property
    def controller(self) -> ClusterPort | None:
        """The way to the broker that writes the metadata; None if this broker does."""
        return self.ports.cluster if self.members is not None and self.members.follows else None

    @property
    def metadata_log(self) -> PartitionLog:
        return self._metadata.log

    def controller_reached(self, *, is_reached: bool) -> None:
        assert self.members is not None, "only members of a cluster have a controller"
        self.members.is_controller_down = not is_reached
        self.topics_generation += 1

    def node_durable(self, write: Write) -> None:
        for record in write.records:
            self._leader_changed(record.key, record.value)
        self.topics_generation += 1

    def partitions_open(self, write: Write) -> None:
        assert self.members is not None, "only members of a cluster open partitions"
        self._resume(self._open_logs(self.members.opened(write)))

    def give_up_partitions(self, keys: Iterable[PartitionKey]) -> list[PartitionLog]:
        """End to lead partitions, and return their logs, whose commits may be in flight.

        A record of a new leader must follow. Until then, no broker leads them.
        """
        assert self._leader_changes is not None, "only members of a cluster give partitions up"
        self.topics_generation += 1
        given_up = [self._leader_changes.give_up(key) for key in keys]
        return [log for log in given_up if log is not None]

    def _open_logs(self, keys: Iterable[PartitionKey]) -> list[tuple[Topic, list[int]]]:
        found = []
        numbers: dict[bytes, list[int]] = {}
        for key in keys:
            numbers.setdefault(key.topic_id, []).append(key.partition)
        for topic_id, partitions in numbers.items():
            topic = self.topics.by_id(topic_id)
            if topic is not None:  # otherwise it was deleted since
                self._create_logs(topic, partitions)
                if self._replay is not None:
                    assert self._leader_changes is not None, "only members of a cluster open partitions"
                    self._leader_changes.load(topic, partitions, self._replay, self.ports.clock_ms())
                found.append((topic, partitions))
        return found

    def _create_logs(self, topic: Topic, partitions: Collection[int], made: Sequence[PartitionLog] = ()) -> None:
        rules, policies = self._rules_and_policies(topic)
        self.logs.create(topic.name, topic.topic_id, partitions, rules, policies, made)
        if self._leader_changes is not None:
            self._leader_changes.begin_epochs(topic, partitions)

    def _resume(self, opened: Iterable[tuple[Topic, Collection[int]]]) -> None:
        if self._replay is None or self._leader_changes is None:  # `first_entries` does it after the recovery
            return
        for topic, partitions in opened:
            self._leader_changes.resume(topic, partitions, self.ports.clock_ms())

    def _leader_changed(self, key: bytes, value: bytes | None) -> None:
        assert self.members is not None, "only members of a cluster know leaders"
        change = self.members.replay_leader(key, value)
        if change is None:
            return
        if change.is_served:
            self._resume(self._open_logs([change.key]))
        elif given_up := self.give_up_partitions([change.key]):  # recovery has replayed an earlier leadership
            self.logs.forget_given_up(log.entry_key for log in given_up)

    def _made_leader_changes(self) -> LeaderChanges | None:
        if self.members is None:
            return None
        from pipeline_broker.broker.leader_changes import LeaderChanges  # noqa: PLC0415 - only in a cluster

        parts = self.coordinators, self.transactions, self.fetches
        return LeaderChanges(self.members, self.topics, self.logs, *parts)

    def _authorizer(self) -> Authorizer | None:
        if not self.config.authorizer_class_name:
            return None
        from pipeline_broker.security.authorizer import Authorizer  # noqa: PLC0415 - only if configured

        everyone = self.config.allow_everyone_if_no_acl_found
        return Authorizer(self.acls, self.config.super_users, allow_everyone=everyone, denials=self.denials)

    # For the handlers

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, created at the first startup on a data directory."""
        assert self._cluster_id.value is not None, "first_entries comes before serving"
        return self._cluster_id.value

    @property
    def settings(self) -> BrokerSettings:
        return self.layers.settings

    def new_id(self) -> uuid.UUID:
        return uuid.UUID(int=self._randomness.getrandbits(128), version=4)

    def find_log(self, name: str, topic_id: bytes, partition: int, *, by_id: bool) -> PartitionLog | ErrorCode:
        """Return the log of a partition, by topic id or name.

        Returns:
            UNKNOWN_TOPIC_ID if no topic has the id; UNKNOWN_TOPIC_OR_PARTITION if the partition does not exist or is
            not for clients; NOT_LEADER_OR_FOLLOWER if another broker leads it.
        """
        if by_id:
            topic = self.topics.by_id(topic_id)
            if topic is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            name = topic.name
        log = self.logs.find(name, partition)
        if log is None:
            is_elsewhere = 0 <= partition < self.partition_count(name)
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # As in KRaft, `__cluster_metadata` is not a topic for clients.
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if log is self._metadata.log else log

    def partition_count(self, name: str) -> int:
        topic = self.topics.get(name)
        return 0 if topic is None else topic.partitions

    def find_allowed_log(
        self, name: str, topic_id: bytes, partition: int, is_allowed: Callable[[str], bool], *, by_id: bool
    ) -> PartitionLog | ErrorCode:
        """Return the log of a partition like `find_log`, or TOPIC_AUTHORIZATION_FAILED.

        A forbidden name is refused whether the topic exists or not. An unknown id remains UNKNOWN_TOPIC_ID.

        Args:
            is_allowed: returns whether the client may use a topic, given the name.
        """
        log = self.find_log(name, topic_id, partition, by_id=by_id)
        if self.authorizer is not None:
            topic = self.topics.by_id(topic_id) if by_id else None
            # A known or unknown name gives the same error, so that a client cannot probe for names. An id is not
            # guessable.
            if (topic is not None or not by_id) and not is_allowed(topic.name if topic is not None else name):
                return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return log

    def topic_totals(self) -> Steps[dict[tuple[str, bytes], LogTotals]]:
        """Sum the durable records and batches of each topic that clients see, in steps; see `LogManager.totals`."""
        return self.logs.totals((METADATA_TOPIC, METADATA_TOPIC_ID))

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self.topics.by_id(topic_id)
        return None if topic is None else topic.name

    # Changes of metadata

    def acls_durable(self, write: Write) -> None:
        """Apply durable access rules, and invalidate the permissions that connections have cached."""
        self.acls.durable(write)
        self.topics_generation += 1

    def append_metadata(self, write: Write, now_ms: int) -> JournalEntry:
        """Append a change of metadata. The caller commits the entry, then passes the write to its state machine."""
        if self.members is not None and self.members.follows:
            for record in write.records:
                self.members.check_local(record.key)
        return self._metadata.append(write, now_ms)

    def commit_metadata(self, changes: Sequence[Change], now_ms: int, answer: Final) -> Pending | Final:
        """Commit changes, apply them, then answer.

        Args:
            changes: writes with the functions that apply them.
            now_ms: timestamp of the records.
            answer: answer to the request; returned at once without changes.
        """
        changes = tuple(changes)
        if not changes:
            return answer

        def apply() -> None:
            for write, durable in changes:
                durable(write)

        return Pending([self.append_metadata(write, now_ms) for write, _ in changes], answer, apply)

    def _grant_id(self, now_ms: int) -> GrantedId:
        allocation = self.producer_ids.allocate()
        write = allocation.write
        if write is None:
            return GrantedId(allocation.producer_id)
        entry = self.append_metadata(write, now_ms)
        return GrantedId(allocation.producer_id, entry, functools.partial(self.producer_ids.durable, write))

    def log_start_durable(self, write: Write) -> None:
        """Delete the records before a durable log start, and answer the fetches of the partition."""
        start = self.log_starts.durable(write)
        topic = None if start is None else self.topics.by_id(start.topic_id)
        log = None if start is None or topic is None else self.logs.find(topic.name, start.partition)
        if start is not None and log is not None:
            log.raise_log_start(start.offset)
            self.fetches.wake(log)

    def _delete_records(self, log: PartitionLog, offset: int, now_ms: int) -> None:
        write = self.log_starts.raise_to(log.topic_id, log.partition, offset)
        if write is not None and self.topics.latest(log.topic) is not None:
            self.ports.submit([self.append_metadata(write, now_ms)], lambda: self.log_start_durable(write))

    def log_maker(self, topic: Topic) -> Callable[[int], PartitionLog]:
        """Return a function that makes the log of a partition, for `topic_durable`.

        A large topic takes long to make. A request makes its logs in turns before the topic's record is durable; until
        then nothing finds them.
        """
        rules, policies = self._rules_and_policies(topic)
        return lambda partition: self.logs.make(topic.name, topic.topic_id, partition, rules, policies)

    def topic_durable(self, write: Write, made: Sequence[PartitionLog] = ()) -> None:
        """Apply the durable record of a created, changed or deleted topic.

        Args:
            write: the record.
            made: logs of the topic from `log_maker`; the missing ones are made now.
        """
        change = self.topics.durable(write)
        self._topic_changed(change.before, change.after, made)
        self.groups.topic_changed()
        if change.before is not None and change.after is None:
            self.coordinators.topic_deleted(change.before)

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None:
        self.coordinators.marker_durable(log, producer_id, is_commit=is_commit)

    def _topic_changed(self, before: Topic | None, after: Topic | None, made: Sequence[PartitionLog] = ()) -> None:
        self.topics_generation += 1
        if before is not None and (after is None or after.topic_id != before.topic_id):
            self.logs.delete(before.name)
            self._forget_logs()
            # A large topic is dropped in several turns; the timer runs the next ones.
            if self.logs.is_any_leaving:
                self.ports.wake_timer()
            self.coordinators.unload(before.name)
        if after is not None:
            self._create_logs(after, self.leadership.led(after), made)
            self.logs.set_rules(after.name, *self._rules_and_policies(after))

    def _forget_logs(self) -> None:
        for log in self.logs.forget_some(FORGOTTEN_AT_ONCE_MAX):
            self.fetches.wake(log)

    def settings_durable(self, write: Write, adopt: Callable[[], None] | None = None) -> None:
        """Apply a durable change of settings.

        Args:
            write: the record.
            adopt: the function that the `Load` of the change returned.
        """
        if adopt is not None:
            adopt()
        self.dynamic_settings.durable(write)
        self._apply_settings()
        self.ports.config_changed(self.config)

    def _configs_of_group(self, group_id: str) -> Mapping[str, str]:
        return self.dynamic_settings.settings(("group", group_id))

    def _share_level(self) -> int:
        return self.features.level("share.version")

    def _apply_settings(self) -> None:
        self.config = self.layers.refresh()
        self.groups.settings_changed(self.config)
        self.share.settings_changed(self.config)
        # Most topics have the same settings, so that few rules are computed even for many topics.
        known: dict[tuple[tuple[str, str], ...], tuple[Rules, LogPolicies]] = {}
        for topic in self.topics.all():
            own = tuple(topic.configs.items())
            if own not in known:
                known[own] = self._rules_and_policies(topic)
            self.logs.set_rules(topic.name, *known[own])

    def check_settings(self, key: tuple[str, str], settings: Mapping[str, str], named: Collection[str]) -> Load | None:
        """Check that changed settings are consistent with all others.

        Args:
            key: type and name of the resource.
            settings: settings of the resource after the change.
            named: properties that the client sets or resets.

        Returns:
            a function that opens files and keys in a thread; None if the settings name none.

        Raises:
            ConfigError: the settings are inconsistent, or cannot be changed at run time.
        """
        return self.ports.check_config(self.layers.check(key, settings), named)

    def _rules_and_policies(self, topic: Topic) -> tuple[Rules, LogPolicies]:
        settings = TopicSettings.of(topic.configs, self.settings)
        return rules_of(settings), policies_of(settings, self.config.producer_id_expiration_ms)

    def observe_topics(self, metrics: TopicMetrics | None) -> None:
        """Report traffic per topic to these metrics; None stops that."""
        self.topic_metrics = metrics

    @property
    def can_write(self) -> bool:
        """False while the journal accepts no entries, such as on a full disk. Handlers then refuse to write."""
        return self.logs.journal.room.obstacle is None

    def new_topic(self, name: str) -> NewTopic:
        """Return the topic to create when a client requests an unknown name."""
        topic_id = self.new_id().bytes
        # Internal topics get the settings of their coordinators, even if a client creates them.
        coordinator = self.coordinators.get(name)
        if coordinator is not None:
            topic = coordinator.topic
            return NewTopic(name=name, topic_id=topic_id, partitions=topic.partitions, configs=dict(topic.configs))
        if name == TIMELINES_TOPIC:
            partitions = self.ports.request_queues
            return NewTopic(name=name, topic_id=topic_id, partitions=partitions, configs=timelines_configs(partitions))
        return NewTopic(name=name, topic_id=topic_id)

    # Parts that most brokers never use: each is imported and made on first use

    @property
    def faults(self) -> Faults:
        if self._faults is None:
            from pipeline_broker.faults.faults import Faults  # noqa: PLC0415 - on first use

            ports = self.ports
            disk = None if ports.fault_files is None else ports.fault_files.disk
            store = None if ports.fault_store is None else ports.fault_store.rules
            self._faults = Faults(self.groups, ports.clock_ms, ports.wake_timer, disk, ports.faults_changed, store)
        return self._faults

    @property
    def has_faults(self) -> bool:
        return self._faults is not None

    @functools.cached_property
    def acls(self) -> Acls:
        from pipeline_broker.security.acls import Acls  # noqa: PLC0415 - on first use

        return Acls()

    @functools.cached_property
    def scram_users(self) -> ScramUsers:
        """The users with SCRAM credentials, and the delegation tokens if these are enabled."""
        from pipeline_broker.security.scram_users import ScramUsers  # noqa: PLC0415 - on first use

        return ScramUsers(self.delegation_tokens if self.config.delegation_token_secret_key else None)

    @functools.cached_property
    def delegation_tokens(self) -> DelegationTokens:
        from pipeline_broker.security.delegation_tokens import (  # noqa: PLC0415 - on first use
            DelegationTokens,
        )

        return DelegationTokens(self.config)

    @functools.cached_property
    def features(self) -> Features:
        from pipeline_broker.state.features import Features  # noqa: PLC0415 - on first use

        return Features(self._cluster_id)

    @functools.cached_property
    def client_metrics(self) -> ClientMetrics:
        from pipeline_broker.state.client_metrics import ClientMetrics  # noqa: PLC0415 - on first use

        return ClientMetrics(self.dynamic_settings)

    @functools.cached_property
    def client_metrics_file(self) -> ClientMetricsFile:
        from pipeline_broker.telemetry.client_metrics_file import (  # noqa: PLC0415 - on first use
            ClientMetricsFile,
        )

        path = self.config.pipeline_telemetry_file
        return ClientMetricsFile(None if path is None else Path(path), self.config.telemetry_max_bytes)

    @functools.cached_property
    def streams_topics(self) -> StreamsTopics:
        from pipeline_broker.broker.streams_topics import StreamsTopics  # noqa: PLC0415 - on first use

        return StreamsTopics(self._ask_controller)

    def _ask_controller(self, request: Any, response_type: type[Any], done: Callable[[Any], None]) -> None:
        if self.controller is None:
            self.ports.ask_self(request, response_type, done)
        else:
            self.controller.ask(self.controller.controller_id, request, response_type, done)

    # Commits and time

    def entries_durable(self, entries: list[JournalEntry]) -> None:
        """Make the entries of a completed commit visible, and answer the fetches that waited for them."""
        self.logs.on_durable(entries)
        self.fetches.notify(entries)
        if self.ports.cluster is not None and any(entry.log is self._metadata.log for entry in entries):
            self.ports.cluster.metadata_durable()

    def next_deadline_ms(self) -> int:
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
        """Answer all parked fetches, and the requests that fault rules hold, before shutdown."""
        self.fetches.end()
        if self.has_faults:
            self.faults.end()

    def advance(self, now_ms: int) -> None:
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
        # While the disk is full, expired tokens stay until the next sweep. They are not accepted in any case.
        write = tokens.sweep(now_ms) if self.can_write else None
        if write is not None:
            entry = self.append_metadata(write, now_ms)
            self.ports.submit([entry], lambda: tokens.durable(write))
