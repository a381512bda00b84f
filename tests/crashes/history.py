"""What clients did, what they were told, and whether what a broker holds agrees with it.

Rules of this file: it does no I/O. Whatever a client is about to send is written down before it is sent, whatever it
was told as soon as it was told; so for everything sent there are three fates: acknowledged, refused (a complaint: the
scenarios here give no reason to refuse anything), or unknown, and the unknown may be there or not. Values are unique.

The claims, each of which has a function of its own below:
- acknowledged records are at their offsets with their bytes; so are records that a reader has seen
- offsets have no gap and the high watermark is above the last acknowledged one
- no value is there twice, and none that nobody sent
- a stream (what one producer sent to one partition without sending again) is there in its order, and what is there
  is a beginning of it: nothing is missing in the middle but what was refused
- topics that were acknowledged exist with their ids, partitions and settings; deleted ones do not
- an id of a producer is given out once
- committed offsets are between the last acknowledged commit and the last sent one
"""

import itertools
import threading

import attrs


class Stream:
    """What one producer sent to one partition, in order, and the offsets that it was told."""

    def __init__(self, name, partition):
        self.name = name
        self.partition = partition
        self.values = []
        self.acknowledged = {}
        self.refused = set()

    def __repr__(self):
        return f"{self.name} to {self.partition[0]}-{self.partition[1]}"

    def draw(self, filler):
        """The next value; it counts as sent from here on."""
        number = len(self.values)
        self.values.append(b"%s:%d:%s" % (self.name.encode(), number, filler))
        return number, self.values[number]


class Register:
    """A value that one client writes again and again: the values sent, and how many of them were acknowledged."""

    def __init__(self, initial):
        self._sent = [initial]
        self._acknowledged = 1

    def __repr__(self):
        return f"{self._acknowledged} acknowledged, at last {self._sent[self._acknowledged - 1 :]} sent"

    def send(self, value):
        """The value is about to be sent."""
        self._sent.append(value)

    def acknowledge(self):
        """The last value sent was acknowledged."""
        self._acknowledged = len(self._sent)

    def may_be(self, value):
        """Whether the register may hold the value: the last acknowledged one or any sent since."""
        return value in self._sent[self._acknowledged - 1 :]


@attrs.define
class TopicFate:
    """What a client knows of a topic: what it asked for, and what it was told of it."""

    partitions: int
    partitions_sent: int | None = None  # to which it was to grow, and no answer came
    message_bytes_max: Register = attrs.field(factory=lambda: Register(None))
    topic_id: bytes | None = None
    created: bool = False
    deletion_sent: bool = False
    deleted: bool = False

    def may_have(self, partitions):
        """Whether it may have so many: all that was acknowledged, or all that was asked for."""
        return partitions in {self.partitions, self.partitions_sent}


class History:
    """Everything that the clients of one run know; written by several threads."""

    def __init__(self):
        self._names = itertools.count()
        self._lock = threading.Lock()
        self.streams = []
        self.topics = {}
        self.producer_ids = []
        self.commits = {}
        self.seen = {}
        self.complaints = []

    def stream(self, kind, partition):
        """A new stream."""
        with self._lock:
            stream = Stream(f"{kind}-{next(self._names)}", partition)
            self.streams.append(stream)
        return stream

    @property
    def acknowledged_count(self):
        return sum(len(stream.acknowledged) for stream in tuple(self.streams))

    def snapshot(self):
        """What was known at this moment, to be checked against what is read later."""
        with self._lock:
            return Known(
                acknowledged=[(stream, dict(stream.acknowledged)) for stream in self.streams],
                seen={partition: dict(records) for partition, records in self.seen.items()},
            )


@attrs.frozen
class Known:
    """What was known before the read-back began."""

    acknowledged: list
    seen: dict


@attrs.frozen
class Contents:
    """What a broker holds: partition -> [(offset, value)], and so on."""

    records: dict
    high_watermarks: dict
    topics: dict  # name -> (id, partitions)
    message_bytes_max: dict  # name -> what was set for the topic, None for nothing
    offsets: dict  # (group, topic, partition) -> offset, None for nothing


def violations(history, known, contents):
    """Each claim that does not hold, as a text."""
    return [
        *_lost(known, contents),
        *_gaps(known, contents),
        *_foreign(history, contents),
        *_out_of_order(history, contents),
        *_topics(history, contents),
        *_producer_ids(history),
        *_commits(history, contents),
        *history.complaints,
    ]


def wrong_records(history, contents):
    """Only the claims about what is there, for when something may be missing at the end."""
    nothing = Known(acknowledged=[], seen={})
    return [*_gaps(nothing, contents), *_foreign(history, contents), *_out_of_order(history, contents)]


def _lost(known, contents):
    for stream, acknowledged in known.acknowledged:
        held = dict(contents.records.get(stream.partition, ()))
        for number, offset in acknowledged.items():
            if held.get(offset) != stream.values[number]:
                what = "is not there" if offset not in held else f"holds {held[offset][:40]!r}"
                yield f"{stream}: value {number} was acknowledged at offset {offset}, which {what}"
    for partition, records in known.seen.items():
        held = dict(contents.records.get(partition, ()))
        for offset, value in records.items():
            if held.get(offset) != value:
                yield f"{partition}: a reader saw {value[:40]!r} at offset {offset}, and it is not there"


def _gaps(known, contents):
    for partition, records in contents.records.items():
        offsets = [offset for offset, _ in records]
        if offsets != list(range(len(offsets))):
            yield f"{partition}: the offsets have gaps"
        if contents.high_watermarks[partition] < len(offsets):
            yield f"{partition}: a record is above the high watermark"
    for stream, acknowledged in known.acknowledged:
        if acknowledged and contents.high_watermarks.get(stream.partition, 0) <= max(acknowledged.values()):
            yield f"{stream}: the high watermark is not above the last acknowledged offset"


def _foreign(history, contents):
    sent = {}
    for stream in history.streams:
        sent.setdefault(stream.partition, set()).update(stream.values)
    for partition, records in contents.records.items():
        values = [value for _, value in records]
        if len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            yield f"{partition}: {twice[:40]!r} is there twice"
        for value in set(values) - sent.get(partition, set()):
            yield f"{partition}: nobody sent {value[:40]!r}"


def _out_of_order(history, contents):
    """Values name their stream and their number, so one pass over a partition does for all its streams."""
    streams = {stream.name.encode(): stream for stream in history.streams}
    for partition, records in contents.records.items():
        numbers = {}
        for _, value in records:
            name, number, _ = value.split(b":", 2)
            numbers.setdefault(name, []).append(int(number))
        for name, found in numbers.items():
            refused = streams[name].refused if name in streams else ()
            if found != [number for number in range(found[-1] + 1) if number in found or number not in refused]:
                yield f"{partition}: of {streams.get(name, name)} there is {found[:10]}... and not a beginning in order"


def _topics(history, contents):
    for name, fate in history.topics.items():
        held = contents.topics.get(name)
        if fate.deleted and held is not None:
            yield f"topic {name} was deleted, and it is back"
        if fate.created and not fate.deletion_sent:
            if held is None:
                yield f"topic {name} was created, and it is gone"
            elif held[0] != fate.topic_id or not fate.may_have(held[1]):
                yield f"topic {name} was {(fate.topic_id, fate.partitions)} and is {held}"
            elif not fate.message_bytes_max.may_be(contents.message_bytes_max[name]):
                held_max = contents.message_bytes_max[name]
                yield f"topic {name}: max.message.bytes is {held_max}, but {fate.message_bytes_max}"
        if held is not None and not fate.may_have(held[1]):
            yield f"topic {name} has {held[1]} partitions, not {fate.partitions}: a half topic"


def _producer_ids(history):
    if len(set(history.producer_ids)) < len(history.producer_ids):
        yield "an id of a producer was given out twice"


def _commits(history, contents):
    for key, register in history.commits.items():
        if not register.may_be(contents.offsets[key]):
            yield f"{key}: the committed offset is {contents.offsets[key]}, but {register}"
