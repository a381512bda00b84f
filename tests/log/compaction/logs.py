"""Logs to compact, and what a consumer sees of them."""

import attrs
from hypothesis import strategies as st

from pipeline_broker.log.compaction.transactions import AbortedTransaction
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches, read_header, restamped, with_times
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.control_batch import ABORT, COMMIT
from pipeline_broker.records.record import iterate_records

MARKER_VALUE = b"\0\0\0\0\0\0"
LONG = b"a key of more than sixteen bytes, number "
KEYS = [b"", b"a", b"b", b"c", b"0123456789abcde", b"0123456789abcdef", LONG + b"1", LONG + b"2", None]


def marker(producer_id, kind, timestamp, epoch=0):
    key = b"\0\0" + kind.to_bytes(2, "big")
    return build_batch(
        [NewRecord(MARKER_VALUE, key, timestamp)],
        producer_id=producer_id,
        producer_epoch=epoch,
        transactional=True,
        control=True,
    )


def placed(batch, base_offset, leader_epoch=0):
    return restamped(read_header(batch), batch, base_offset, leader_epoch)


def stamped(batch, append_ms):
    """The batch as a topic with append time stores it."""
    header = with_times(read_header(batch), batch, append_ms, append_time=True)
    return restamped(header, batch, header.base_offset)


@attrs.define
class TestLog:
    """Segments (each a list of batches) with what else a broker knows of them."""

    __test__ = False

    segments: list[list[bytes]]
    bases: list[int]
    """Base offsets of the segments."""
    end: int
    aborted: list[AbortedTransaction]
    last_data: dict[int, int]
    """The last data offset of each producer."""

    @property
    def batches(self):
        return [batch for segment in self.segments for batch in segment]


def parsed(batches):
    return [pair for batch in batches for pair in iterate_batches(batch)]


@st.composite
def data_records(draw):
    record = st.builds(
        NewRecord,
        key=st.sampled_from(KEYS),
        value=st.none() | st.binary(max_size=3),
        timestamp=st.integers(0, 200),
        headers=st.sampled_from([(), (("h", b"v"), ("n", None))]),
    )
    return draw(st.lists(record, min_size=1, max_size=4))


@st.composite
def logs(draw, transactions=True):
    """Plain, idempotent (ids 1, 2) and transactional (ids 11, 12) producers, every transaction ended."""
    producers = [-1, -1, 1, 2] + ([11, 12] if transactions else [])
    batches, offset = [], 0
    sequences, open_since, aborted, last_data = {}, {}, [], {}

    def append(batch):
        nonlocal offset
        batches.append(placed(batch, offset, draw(st.integers(0, 3))))
        offset = read_header(batches[-1]).last_offset + 1

    def end_transaction(producer):
        first = open_since.pop(producer)
        kind = draw(st.sampled_from([ABORT, COMMIT]))
        if kind == ABORT:
            aborted.append(AbortedTransaction(producer, first, offset))
        append(marker(producer, kind, draw(st.integers(0, 200))))

    for _ in range(draw(st.integers(1, 12))):
        producer = draw(st.sampled_from(producers))
        if producer in open_since and draw(st.booleans()):
            end_transaction(producer)
            continue
        records = draw(data_records())
        transactional = producer > 10
        if transactional:
            open_since.setdefault(producer, offset)
        sequence = sequences.get(producer, 0)
        sequences[producer] = sequence + len(records)
        codec = draw(st.sampled_from([0, 0, 1, 2, 3, 4]))
        identity = {} if producer < 0 else {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        batch = build_batch(records, compression=codec, transactional=transactional, **identity)
        append(stamped(batch, draw(st.integers(0, 200))) if draw(st.sampled_from([False, False, True])) else batch)
        if producer > 0:
            last_data[producer] = offset - 1
    for producer in list(open_since):
        end_transaction(producer)
    segments, bases = cut(draw, batches)
    return TestLog(segments, bases, offset, aborted, last_data)


def cut(draw, batches):
    segments, bases = [[]], [0]
    for batch in batches:
        if segments[-1] and draw(st.booleans()):
            segments.append([])
            bases.append(read_header(batch).base_offset)
        segments[-1].append(batch)
    return segments, bases


def all_records(batches):
    """Return all records but markers, aborted or not."""
    return [record for header, batch in parsed(batches) if not header.is_control for record in iterate_records(batch)]


def committed_records(batches, aborted):
    """Return the records that a read_committed consumer receives, by the algorithm of Kafka's own client."""
    waiting = sorted(aborted, key=lambda it: it.first_offset)
    aborting, records = set(), []
    for header, batch in parsed(batches):
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborting.add(waiting.pop(0).producer_id)
        if header.is_control:
            for record in iterate_records(batch):
                if record.key[3] == ABORT:
                    aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            records += iterate_records(batch)
    return records


def final_values(records):
    """Key -> last value, as a table that is built from the log."""
    values = {}
    for record in records:
        if record.key is None:
            continue
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
    return values


def assert_sound(batches):
    """Checksums match, offsets rise, and every record is readable."""
    previous = -1
    for header, batch in parsed(batches):
        assert crc32c(batch[21:]) == header.crc
        assert header.base_offset > previous
        for record in iterate_records(batch):
            assert previous < record.offset <= header.last_offset
            previous = record.offset
        previous = header.last_offset
