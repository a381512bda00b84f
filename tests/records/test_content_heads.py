"""The first bytes of keys and values are those of the decoded records."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.content_heads import content_heads
from pipeline_broker.records.record import iterate_records, record_bytes

contents = st.none() | st.binary(max_size=9) | st.integers(60, 70).map(bytes) | st.just(bytes(20_000))
records = st.builds(
    NewRecord,
    contents,
    contents,
    st.sampled_from([0, 1, 2**40]),
    headers=st.lists(st.tuples(st.text(max_size=3), contents), max_size=2).map(tuple),
)


@given(st.lists(records, min_size=1, max_size=5), st.integers(1, 8))
def test_the_heads_are_those_of_the_records(written, size_bytes):
    batch = build_batch(written)
    header = read_header(batch)
    expected = [
        tuple(None if content is None else content[:size_bytes] for content in (record.key, record.value))
        for record in iterate_records(batch, header)
    ]
    assert list(content_heads(record_bytes(batch, header), size_bytes)) == expected
