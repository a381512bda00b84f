"""The broker: composition of logs and state, and the only room that appends what state returns.

Rules of this room: synchronous, on the event loop's thread, time passed in. A change of state is decided, appended, and
applied when it is durable; what is not durable is shown to nobody. Completing a request is the last thing that is done
with it. An answer that fails is one request's misfortune: it never fails the commit that woke it.
"""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.config.resolution import BrokerSettings, topic_value
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.check import Rules
from pipeline_broker.records.record import iterate_records
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.parked_fetches import ParkedFetch, ParkedFetches
from pipeline_broker.state.producer_ids import ProducerIds
from pipeline_broker.state.topics import Topic, TopicCatalogue
from pipeline_broker.wire.error import ErrorCode
from stages.request import Close, Pending, Request, Result, Send

if TYPE_CHECKING:
    from pipeline_broker.config.settings import BrokerConfig
    from pipeline_broker.log.entry import JournalEntry
    from pipeline_broker.log.partition_log import PartitionLog
    from pipeline_broker.records.batch import BatchHeader

__all__ = ["Broker", "Waiting"]

logger = logging.getLogger(__name__)

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The internal partition that holds topics and settings; it is in no catalogue, so no client sees it."""
OFFSETS_TOPIC = "__consumer_offsets"
BROKER_RESOURCE = "broker"


@attrs.frozen
class Waiting:
    """The token of something parked: a request, and how it is answered when its time has come."""

    request: Request
    answer: Callable[[], Result]


class Broker:
    """All state of one broker.

    Args:
        config: what it acts on.
        logs: over a journal that is open and not recovered yet; see `recover`.

    Attributes:
        advertised_host, advertised_port: what clients are told, set once the listener is bound.
        wake_timer: called when `next_deadline_ms` may have become earlier.
        submit: commits entries that belong to no request, then calls back; set by the server.
    """

    internal_topics = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})

    def __init__(self, config: BrokerConfig, logs: LogManager) -> None:
        self.config = config
        self.logs = logs
        self.topics = TopicCatalogue()
        self.producer_ids = ProducerIds()
        self.fetches = ParkedFetches()
        self.advertised_host = "127.0.0.1"
        self.advertised_port = 0
        self.wake_timer: Callable[[], None] = lambda: None
        self.submit: Callable[[Sequence[JournalEntry], Callable[[], None]], None] = _not_serving
        (self._metadata_log,) = logs.create(METADATA_TOPIC, METADATA_TOPIC_ID, 1, Rules(size_max=2**31 - 1))

    # Start

    def recover(self, now_ms: int) -> None:
        """Replay the journal.

        Raises:
            JournalCorrupt: records that were durable cannot be read.
        """
        self.logs.recover(self._replay, now_ms)

    def first_entries(self, now_ms: int) -> list[JournalEntry]:
        """What a new data directory needs to be durable before it serves: the id of the cluster."""
        if self.topics.cluster_id is not None:
            return []
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        records = self.topics.set_cluster_id(cluster_id)
        entry = self.append_records(self._metadata_log, records, now_ms)
        self.topics.apply(records)
        return [entry]

    def _replay(self, log: PartitionLog, header: BatchHeader, batch: memoryview) -> None:
        if log is not self._metadata_log:
            return
        for record in iterate_records(batch, header):
            assert record.key is not None
            value = None if record.value is None else bytes(record.value)
            self._apply_metadata([StateRecord(bytes(record.key), value)])

    # What the handlers ask

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, made at the first start on a data directory."""
        assert self.topics.cluster_id is not None, "first_entries comes before serving"
        return self.topics.cluster_id

    @property
    def settings(self) -> BrokerSettings:
        """All that was set for this broker."""
        return BrokerSettings(
            static=self.config.properties,
            dynamic_default=self.topics.settings(BROKER_RESOURCE, ""),
            dynamic=self.topics.settings(BROKER_RESOURCE, str(self.config.node_id)),
        )

    def find_log(self, name: str, topic_id: bytes, partition: int, *, by_id: bool) -> PartitionLog | ErrorCode:
        """The log of a partition that a request names, or why there is none."""
        if by_id:
            topic = self.topics.by_id(topic_id)
            if topic is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            name = topic.name
        log = self.logs.find(name, partition)
        if log is None or name == METADATA_TOPIC:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return log

    # Changes of metadata

    def append_records(self, log: PartitionLog, records: Iterable[StateRecord], now_ms: int) -> JournalEntry:
        """Append records of our own as one batch; the entry must be committed."""
        batch = build_batch([NewRecord(record.value, record.key, now_ms) for record in records])
        entry = log.append(read_header(batch), batch, now_ms).entry
        assert entry is not None, "no producer, so no duplicate"
        return entry

    def commit_metadata(
        self, records: list[StateRecord], now_ms: int, answer: Callable[[], Send]
    ) -> Pending | Send:
        """Make a decided change durable, apply it, then answer.

        Args:
            records: what the catalogue or the producer ids decided.
            now_ms: the records' timestamp.
            answer: makes the response, now: it must not depend on the change being visible.
        """
        if not records:
            return answer()
        entry = self.append_records(self._metadata_log, records, now_ms)
        return Pending([entry], answer(), lambda: self._apply_metadata(records))

    def _apply_metadata(self, records: list[StateRecord]) -> None:
        for record in records:
            self.producer_ids.replay(record)
        for before, after in self.topics.apply(records):
            if before is not None and (after is None or after.topic_id != before.topic_id):
                self._delete_logs(before)
            if after is not None:
                self.logs.create(after.name, after.topic_id, after.partition_count, self.rules_of(after))
                self.logs.set_rules(after.name, self.rules_of(after))

    def _delete_logs(self, topic: Topic) -> None:
        logs = self.logs.partitions(topic.name)
        self.logs.delete(topic.name)
        self._answer(self.fetches.take(logs))

    def rules_of(self, topic: Topic) -> Rules:
        """What a topic's settings mean for the batches that it accepts."""
        own, settings = topic.settings, self.settings

        def integer(name: str) -> int:
            value = topic_value(name, own, settings)
            assert isinstance(value, int)
            return value

        policies = topic_value("cleanup.policy", own, settings)
        assert isinstance(policies, tuple | list)
        return Rules(
            size_max=integer("max.message.bytes"),
            segment_size_max=integer("segment.bytes"),
            timestamp_before_max_ms=integer("message.timestamp.before.max.ms"),
            timestamp_after_max_ms=integer("message.timestamp.after.max.ms"),
            keys_required="compact" in policies,
            append_time=topic_value("message.timestamp.type", own, settings) == "LogAppendTime",
        )

    # Commits and time

    def entries_durable(self, entries: list[JournalEntry]) -> None:
        """A commit is durable: show its entries and answer the fetches that waited for them."""
        self.logs.on_durable(entries)
        if len(self.fetches):
            self._answer(self.fetches.notify(dict.fromkeys(entry.log for entry in entries)))

    def park_fetch(self, fetch: ParkedFetch) -> None:
        """Let a fetch wait; its token is a Waiting."""
        earliest = self.fetches.next_deadline_ms()
        self.fetches.park(fetch)
        if earliest is None or fetch.deadline_ms < earliest:
            self.wake_timer()

    def next_deadline_ms(self) -> int | None:
        """When `advance` has something to do."""
        return self.fetches.next_deadline_ms()

    def advance(self, now_ms: int) -> None:
        """Do what is due."""
        self._answer(self.fetches.advance(now_ms))

    def connection_closed(self, session: object) -> None:
        """Forget what a connection parked."""
        self.fetches.forget(session)

    @staticmethod
    def _answer(fetches: list[ParkedFetch]) -> None:
        for fetch in fetches:
            waiting = fetch.token
            assert isinstance(waiting, Waiting)
            try:
                result = waiting.answer()
            except Exception as error:
                logger.exception("a parked fetch could not be answered")
                result = Close(f"parked fetch failed: {error!r}")
            waiting.request.complete(result)


def _not_serving(entries: Sequence[JournalEntry], on_durable: Callable[[], None]) -> None:
    raise RuntimeError("the broker is not serving yet")
