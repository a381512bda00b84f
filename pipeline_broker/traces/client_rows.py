"""What a client measured, as rows of the trace table `client`.

Rules of this file: rows are packed after a run, never in it.
"""

from pathlib import Path
from typing import Annotated, NamedTuple

from pipeline_broker.traces.ring_file import I2, I4, I8, RingFileError, Table, columns_of, read, write

__all__ = ["CLIENT", "ClientRow", "read_client", "write_client"]


class ClientRow(NamedTuple):
    """One request (of confluent-kafka: one message); None where something does not apply or never came."""

    connection: I4
    sequence: I8
    correlation_id: Annotated[int | None, "i4"]
    intended_ns: Annotated[int | None, "i8"]
    sent_ns: I8
    answered_ns: Annotated[int | None, "i8"]
    error: I2
    measured: Annotated[bool, "i1"]


CLIENT = Table("client", columns_of(ClientRow))


def write_client(path: Path, rows: list[ClientRow]) -> None:
    """A ring file with these rows."""
    write(path, CLIENT, rows)


def read_client(path: Path) -> list[ClientRow]:
    """The rows of a ring file that `write_client` has written."""
    file = read(path)
    if file.table.columns != CLIENT.columns:
        raise RingFileError(f"{path} has other columns than the client table")
    return [ClientRow._make((*values, bool(measured))) for *values, measured in file.rows(*ClientRow._fields)]
