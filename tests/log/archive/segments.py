"""Segments for the tests of the archive, and naive scans over them."""

import attrs
from hypothesis import strategies as st

from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.segment_file import SegmentInfo, file_names
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.record import iterate_records

FOLDER = "topic-0"


def make_batch(base_offset, timestamps=(1000,), value_size=100, compression=0):
    records = [NewRecord(bytes([65 + n % 26]) * value_size, timestamp=time) for n, time in enumerate(timestamps)]
    return build_batch(records, base_offset, compression, leader_epoch=0)


def add(builder, batch):
    header = read_header(batch)
    builder.add(header.base_offset, header.last_offset, len(batch), header.max_timestamp)


def append_batches(store, folder, builder, batches, before=None, *, is_sealed=False, generation=0):
    """Append batches as an archiver does; return the segment's metadata for the manifest."""
    log, *indexes = file_names(folder, builder.base_offset)
    store.write(log, list(batches), builder.size_bytes)
    for batch in batches:
        add(builder, batch)
    if is_sealed:
        builder.seal()
    taken = builder.take()
    store.write(indexes[0], [taken.offset_entries], taken.offset_position)
    store.write(indexes[1], [taken.time_entries], taken.time_position)
    store.sync([log, *indexes])
    return SegmentInfo.written(builder, before, is_sealed=is_sealed, generation=generation)


def write_segment(store, batches, *, folder=FOLDER, base_offset=None, is_sealed=True, generation=0):
    base_offset = read_header(batches[0]).base_offset if base_offset is None else base_offset
    builder = IndexBuilder(base_offset)
    return append_batches(store, folder, builder, batches, is_sealed=is_sealed, generation=generation)


@st.composite
def segments(draw, *, gaps=True, count_max=30):
    """A base offset, and batches of many sizes, with times that jump about, with or without holes in the offsets."""
    base_offset = draw(st.sampled_from([0, 1, 7, 10**12]))
    shapes = draw(
        st.lists(
            st.tuples(
                st.sampled_from([0, 0, 0, 1, 5, 300]) if gaps else st.just(0),
                st.lists(st.integers(-1, 30), min_size=1, max_size=4),
                st.sampled_from([0, 10, 400, 2000, 4030, 6000]),
                st.sampled_from([0, 0, 0, 3]),
            ),
            min_size=1,
            max_size=count_max,
        )
    )
    offset, batches = base_offset, []
    for gap, timestamps, size, compression in shapes:
        batches.append(make_batch(offset + gap, timestamps, size, compression))
        offset += gap + len(timestamps)
    return base_offset, batches


@attrs.frozen
class Naive:
    """A scan over the batches from the first on, for every question."""

    batches: list

    def read(self, offset, bytes_max, *, at_least_one):
        found = []
        for batch in self.batches:
            if read_header(batch).last_offset < offset:
                continue
            if sum(map(len, found)) + len(batch) > bytes_max and (found or not at_least_one):
                break
            found.append(batch)
            if sum(map(len, found)) > bytes_max:
                break
        return b"".join(found)

    def offset_for_timestamp(self, timestamp):
        for header, batch in iterate_batches(b"".join(self.batches)):
            for record in iterate_records(batch, header):
                if record.timestamp >= timestamp:
                    return record.timestamp, record.offset, 0
        return None


def flipped(data, bit):
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def overwrite(store, name, data):
    store.write(name, [data], 0)
