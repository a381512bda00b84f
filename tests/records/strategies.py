"""Records like those of clients."""

from hypothesis import strategies as st

from pipeline_broker.records.batch import NewRecord


def new_records(timestamps, *, count_max, bytes_max=200):
    optional_bytes = st.none() | st.binary(max_size=bytes_max)
    return st.lists(
        st.builds(
            NewRecord,
            value=optional_bytes,
            key=optional_bytes,
            timestamp=timestamps,
            headers=st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3).map(tuple),
        ),
        min_size=1,
        max_size=count_max,
    )
