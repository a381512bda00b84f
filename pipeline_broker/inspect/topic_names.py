"""Topic names for the ids in the journal."""

import contextlib
from collections.abc import Iterable

from pipeline_broker.inspect.selection import Selection
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.errors import RecordError
from pipeline_broker.records.record import iterate_records
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.metadata_records import (
    METADATA_TOPIC_ID,
    RecordType,
    Topic,
    read_topic_record,
    record_type,
)

__all__ = ["TopicNames"]


class TopicNames:
    """The known topics, from folder names of the archive and from the broker's own metadata.

    Archived metadata must be added before that of the journal. Names of deleted topics are kept, because their batches
    may still be stored.
    """

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._live: dict[str, Topic] = {}

    def find(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def is_live(self, topic_id: bytes) -> bool:
        """Return whether the topic exists according to the metadata so far."""
        return self.live_name(topic_id) is not None

    def live_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic that exists according to the metadata so far, else None."""
        name = self._names.get(topic_id)
        live = None if name is None else self._live.get(name)
        return name if live is not None and live.topic_id == topic_id else None

    def live_topics(self) -> Iterable[Topic]:
        return self._live.values()

    def has_selected(self, selection: Selection) -> bool:
        return any(selection.takes_topic(name, topic_id) for topic_id, name in self._names.items())

    def note_folder(self, topic_id: bytes, folder: str) -> None:
        self._names[topic_id] = folder.rpartition("-")[0]

    def note_batch(self, topic_id: bytes, header: BatchHeader, batch: memoryview) -> None:
        """Apply the topic records of a batch of the broker's metadata.

        Other batches and unreadable records are ignored.
        """
        if topic_id != METADATA_TOPIC_ID:
            return
        try:
            for record in iterate_records(batch, header):
                with contextlib.suppress(CorruptStateRecordError):
                    self._note(record.key or b"", record.value)
        except RecordError:
            return  # `EntryCheck` and `SegmentCheck` report damaged batches

    def _note(self, key: bytes, value: bytes | None) -> None:
        if record_type(key) != RecordType.TOPIC:
            return
        name, topic = read_topic_record(key, value)
        if topic is None:
            self._live.pop(name, None)
        else:
            self._live[name] = topic
            self._names[topic.topic_id] = name
