"""Places of records say the same as records that are read, and damage is a RecordError."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.compaction.record_places import record_places
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.errors import InvalidRecord
from pipeline_broker.records.record import iterate_records, record_bytes

optional_bytes = st.none() | st.binary(max_size=200)
new_records = st.lists(
    st.builds(
        NewRecord,
        value=optional_bytes,
        key=optional_bytes,
        timestamp=st.integers(-1, 2**62),
        headers=st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=200,
)


@given(new_records)
def test_places_say_what_reading_the_records_says(records):
    batch = build_batch(records, 7)
    header = read_header(batch)
    data = record_bytes(batch, header)
    places = list(record_places(data, header.record_count))
    read = list(iterate_records(batch))
    assert [
        (header.base_offset + delta, header.base_timestamp + timestamp, key, None if is_tombstone else b"")
        for _, _, _, timestamp, delta, key, is_tombstone in places
    ] == [(it.offset, it.timestamp, it.key, None if it.value is None else b"") for it in read]
    starts, ends = [place[0] for place in places], [place[2] for place in places]
    assert starts == [0, *ends[:-1]]
    assert ends[-1] == len(data)


@given(new_records, st.data())
def test_cut_off_records_are_an_invalid_record(records, data):
    batch = build_batch(records)
    whole = batch[61:]
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(InvalidRecord):
        list(record_places(whole[:cut], len(records)))
    with pytest.raises(InvalidRecord):
        list(record_places(whole + b"\0", len(records)))


@given(st.binary(max_size=300), st.integers(0, 5))
def test_any_bytes_give_places_or_an_invalid_record(data, count):
    try:
        places = list(record_places(data, count))
    except InvalidRecord:
        return
    assert len(places) == count
