"""Names of topics: the journal knows ids only.

Rules of this file: names come from the folders of the archive and from the broker's own records as they are read, the
archived ones before those of the journal; what cannot be read names nothing. A name stays known when its topic is gone,
because its batches may still be there.
"""

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
    """See the rules of the file."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._live: dict[str, Topic] = {}

    def find(self, topic_id: bytes) -> str | None:
        """The topic's name, if it is known."""
        return self._names.get(topic_id)

    def is_live(self, topic_id: bytes) -> bool:
        """Whether the records so far say that there is such a topic."""
        return self.live_name(topic_id) is not None

    def live_name(self, topic_id: bytes) -> str | None:
        """The topic's name, if the records so far say that there is such a topic."""
        name = self._names.get(topic_id)
        live = None if name is None else self._live.get(name)
        return name if live is not None and live.topic_id == topic_id else None

    def live_topics(self) -> Iterable[Topic]:
        """The topics that there are, as the records so far say."""
        return self._live.values()

    def has_one_taken_by(self, selection: Selection) -> bool:
        """Whether a topic that is asked for is known."""
        return any(selection.takes_topic(name, topic_id) for topic_id, name in self._names.items())

    def note_folder(self, topic_id: bytes, folder: str) -> None:
        """The archive calls a partition of the topic so."""
        self._names[topic_id] = folder.rpartition("-")[0]

    def note_batch(self, topic_id: bytes, header: BatchHeader, batch: memoryview) -> None:
        """A batch that may be one of the broker's own records."""
        if topic_id != METADATA_TOPIC_ID:
            return
        try:
            for record in iterate_records(batch, header):
                with contextlib.suppress(CorruptStateRecordError):
                    self._note(record.key or b"", record.value)
        except RecordError:
            return  # batches are judged elsewhere

    def _note(self, key: bytes, value: bytes | None) -> None:
        if record_type(key) != RecordType.TOPIC:
            return
        name, topic = read_topic_record(key, value)
        if topic is None:
            self._live.pop(name, None)
        else:
            self._live[name] = topic
            self._names[topic.topic_id] = name
