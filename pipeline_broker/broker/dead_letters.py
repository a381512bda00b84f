"""Dead-letter queues of share groups (KIP-1191): topics with a record for each record that no member accepted.

* A record of the queue becomes durable in the same commit as the archived state of the undelivered record.
* If the group has no valid queue, its records are archived without a trace, as in Kafka.

Counterpart in Kafka: `ShareGroupDLQStateManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from pipeline_broker.broker.appended import Appended
from pipeline_broker.config.group_relations import DEAD_LETTER_TOPIC
from pipeline_broker.config.properties import topic_properties
from pipeline_broker.config.settings import DEAD_LETTERS_ENABLED
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.state.share_partitions.messages import Undelivered
from pipeline_broker.state.topics import TopicCatalogue

__all__ = ["DeadLetters", "has_room"]

AT_ONCE_MAX = 2_000
"""Records of dead-letter queues after which a request or a timer writes those of no further share partition."""
GROUP_ID_BYTES_MAX = 1_000
"""Maximum length of the id of a group with a dead-letter queue, whose records contain the id."""
LEVEL_MIN = 2
HEADER = "__dlq.errors."
# Lengths, names of headers, numbers and reasons of a record, or the header of a batch; the names of group and topic are
# extra.
RECORD_BYTES = 300


def has_room(appended: Appended) -> bool:
    return appended.dead_letters < AT_ONCE_MAX


@attrs.frozen
class DeadLetters:
    """The dead-letter queues of a broker.

    Attributes:
        topics: existing topics.
        logs: logs with their partitions.
        configs_of: returns the settings of a group.
        level: returns the finalized level of `share.version`.
    """

    topics: TopicCatalogue
    logs: LogManager
    configs_of: Callable[[str], Mapping[str, str]]
    level: Callable[[], int]

    def append(
        self, key: ShareKey, undelivered: Iterable[Undelivered], prefix: str, appended: Appended, now_ms: int
    ) -> None:
        """Append a record for each undelivered record of a share partition.

        Args:
            prefix: `errors.deadletterqueue.topic.name.prefix`.
            appended: receives the entries.
            now_ms: wall clock.
        """
        source, log = self.topics.by_id(key.topic_id), self._log(key, prefix)
        if source is None or log is None:
            return
        size = RECORD_BYTES + len(key.group_id.encode()) + len(source.name)
        count_max = max(1, (log.rules.size_max - RECORD_BYTES) // size)
        records = [
            NewRecord(None, None, now_ms, headers) for run in undelivered for headers in _headers(key, source.name, run)
        ]
        appended.dead_letters += len(records)
        for first in range(0, len(records), count_max):
            batch = build_batch(records[first : first + count_max])
            entry = log.append(read_header(batch), batch, now_ms).entry
            assert entry is not None, "batches without sequence numbers have no duplicates"
            appended.entries.append(entry)

    def _log(self, key: ShareKey, prefix: str) -> PartitionLog | None:
        """Return the log of the group's queue; None if the group or the topic does not permit it."""
        name = self.configs_of(key.group_id).get(DEAD_LETTER_TOPIC, "")
        topic = self.topics.get(name) if name.startswith(prefix) else None
        if topic is None or self.level() < LEVEL_MIN or len(key.group_id.encode()) > GROUP_ID_BYTES_MAX:
            return None
        if not topic_properties()[DEAD_LETTERS_ENABLED].parse(topic.configs.get(DEAD_LETTERS_ENABLED, "false")):
            return None
        log = self.logs.find(name, key.partition % topic.partitions)
        # The topic would refuse such records of a client, too.
        return None if log is None or log.rules.keys_required or log.rules.subject_strategies else log


def _headers(key: ShareKey, topic: str, run: Undelivered) -> Iterator[tuple[tuple[str, bytes], ...]]:
    before = ((f"{HEADER}topic", topic.encode()), (f"{HEADER}partition", b"%d" % key.partition))
    after = (
        (f"{HEADER}group", key.group_id.encode()),
        (f"{HEADER}delivery.count", b"%d" % run.delivery_count),
        (f"{HEADER}message", run.reason.encode()),
    )
    for offset in range(run.first, run.last + 1):
        yield (*before, (f"{HEADER}offset", b"%d" % offset), *after)
