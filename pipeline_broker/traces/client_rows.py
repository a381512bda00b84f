"""The trace table `client`: requests as a load client measured them. Rows are packed after the run, never during it."""

from pathlib import Path
from typing import Annotated, NamedTuple

from pipeline_broker.traces.ring_file import I2, I4, I8, RingFileError, Table, columns_of, read, write

__all__ = ["CLIENT", "ClientRow", "read_client", "write_client"]


class ClientRow(NamedTuple):
    """One request, or one message of confluent-kafka. None means that a value does not apply or never arrived."""

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
    write(path, CLIENT, rows)


def read_client(path: Path) -> list[ClientRow]:
    """Return the rows of a file that `write_client` wrote.

    Raises:
        OSError: the file cannot be read.
        RingFileError: the file has another format, schema or table.
    """
    file = read(path)
    if file.table.columns != CLIENT.columns:
        raise RingFileError(f"{path} does not have the columns of the client table")
    return [ClientRow._make((*values, bool(measured))) for *values, measured in file.rows(*ClientRow._fields)]
