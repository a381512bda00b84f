"""A client's measurements survive their file unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.traces.client_rows import CLIENT, ClientRow, read_client, write_client
from pipeline_broker.traces.ring_file import RingFileError, Table, write

stamps = st.integers(0, 2**40)
client_rows = st.lists(
    st.builds(
        ClientRow,
        connection=st.integers(0, 3),
        sequence=st.integers(0, 2**40),
        correlation_id=st.none() | st.integers(0, 2**31 - 1),
        intended_ns=st.none() | stamps,
        sent_ns=stamps,
        answered_ns=st.none() | stamps,
        error=st.integers(-1, 133),
        measured=st.booleans(),
    ),
    max_size=30,
)


@given(client_rows)
def test_rows_survive_their_ring_file(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("ring") / "client-0.ring"
    write_client(path, rows)
    found = read_client(path)
    assert found == rows
    assert all(type(row.measured) is bool for row in found)


def test_a_file_of_another_table_is_refused_with_its_name(tmp_path):
    path = tmp_path / "client-0.ring"
    write(path, Table("client", CLIENT.columns[1:]), [])
    with pytest.raises(RingFileError, match=r"client-0\.ring does not have the columns of the client table"):
        read_client(path)
