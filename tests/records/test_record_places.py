"""Places of records match the decoded records, and damage is a RecordError."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.errors import InvalidRecord
from pipeline_broker.records.record import iterate_records, record_bytes
from pipeline_broker.records.record_places import append_shifted, record_places
from tests.drawn import drawn, measured
from tests.records.strategies import new_records

records_of_clients = new_records(st.integers(-1, 2**62), count_max=200)


@given(records_of_clients)
def test_places_match_the_decoded_records(records):
    batch = build_batch(records, 7)
    header = read_header(batch)
    data = record_bytes(batch, header)
    places = list(record_places(data, 0, len(data)))
    read = list(iterate_records(batch))
    assert [
        (header.base_offset + delta, header.base_timestamp + timestamp, key, None if is_tombstone else b"")
        for _, _, _, timestamp, delta, key, is_tombstone in places
    ] == [(it.offset, it.timestamp, it.key, None if it.value is None else b"") for it in read]
    starts, ends = [place[0] for place in places], [place[2] for place in places]
    assert starts == [0, *ends[:-1]]
    assert ends[-1] == len(data)


@given(records_of_clients, st.data())
def test_a_cut_within_a_record_is_an_invalid_record(records, data):
    batch = build_batch(records)
    whole = batch[61:]
    ends = {0, *(place[2] for place in record_places(whole, 0, len(whole)))}
    cut = data.draw(st.integers(0, len(whole)).filter(lambda it: it not in ends))
    with pytest.raises(InvalidRecord):
        list(record_places(whole[:cut], 0, cut))
    with pytest.raises(InvalidRecord):
        list(record_places(whole, 0, cut))


@measured(filled=0.05, invalid=0.1)
@given(
    st.binary(max_size=300)
    | st.builds(lambda found, end: build_batch(found)[61:] + end, records_of_clients, st.binary(max_size=3))
)
def test_any_bytes_are_records_or_invalid(data):
    try:
        places = list(record_places(data, 0, len(data)))
    except InvalidRecord:
        drawn("invalid")
        return
    drawn("filled", data)
    assert [place[0] for place in places] == [0, *(place[2] for place in places)][:-1]
    assert not places or places[-1][2] == len(data)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_a_base_and_a_shifted_delta_add_up_to_the_same_time_in_64_bits(time, old_base, new_base):
    """Like in Java, where the delta of distant times wraps around."""

    def in_64_bits(value):
        return (value + 2**63) % 2**64 - 2**63

    data, target = bytearray(), bytearray()
    delta = in_64_bits(time - old_base)
    data += build_batch([NewRecord(b"v", b"k", 0), NewRecord(b"w", b"l", delta)])[61:]
    append_shifted(target, bytes(data), 0, len(data), old_base - new_base)
    *_, (_, _, _, shifted, *_) = record_places(bytes(target), 0, len(target))
    assert -(2**63) <= shifted < 2**63
    assert in_64_bits(new_base + shifted) == time
