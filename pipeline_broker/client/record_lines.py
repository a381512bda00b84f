"""Input as records: bytes are cut at a delimiter, and what is between becomes a key and a value.

Rules of this file: no I/O. What is between two delimiters has a largest size, whatever the input says; the last piece
needs no delimiter behind it. Bytes stay bytes: no encoding is assumed.
"""

from __future__ import annotations

import re

import attrs

from pipeline_broker.client.record_json import Given, RecordFormError, read_record
from pipeline_broker.records.batch import Buffer

__all__ = ["LINE_BYTES_MAX", "LineForm", "LineSplitter", "unescaped"]

LINE_BYTES_MAX = 64 << 20
"""Of one record of the input; brokers take a megabyte by default."""
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}

_TWO_DIGITS = re.compile("[0-9A-Fa-f]{2}")


def unescaped(text: str) -> bytes:
    r"""What a delimiter on the command line means: \n, \t, \r, \0, \\ and \xNN are single bytes.

    Raises:
        ValueError: a backslash is followed by something else.
    """
    found = bytearray()
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            found += character.encode()
            continue
        escape = text[position : position + 1]
        if escape == "x":
            digits = text[position + 1 : position + 3]
            if not _TWO_DIGITS.fullmatch(digits):
                raise ValueError(f"unknown escape \\x{digits}")
            found.append(int(digits, 16))
            position += 3
        elif escape in _ESCAPES:
            found += _ESCAPES[escape]
            position += 1
        else:
            raise ValueError(f"unknown escape \\{escape}")
    return bytes(found)


class LineSplitter:
    """Cuts a stream of bytes.

    Args:
        delimiter: between two records; None: all of the input is one.
    """

    def __init__(self, delimiter: bytes | None) -> None:
        self._delimiter = delimiter
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The pieces that end in what is given.

        Raises:
            RecordFormError: there is no delimiter within LINE_BYTES_MAX.
        """
        pieces: list[bytes] = []
        if self._delimiter is None:
            self._rest += data
        elif self._rest and len(self._delimiter) == 1 and self._delimiter not in data:
            self._rest += data  # a long line is not searched again and again
        else:
            pieces = (bytes(self._rest) + data).split(self._delimiter)
            self._rest = bytearray(pieces.pop())
        if len(self._rest) > LINE_BYTES_MAX:
            raise RecordFormError(f"longer than {LINE_BYTES_MAX} bytes: is --delimiter right?")
        return pieces

    def finish(self) -> list[bytes]:
        """What stands behind the last delimiter; nothing is no record."""
        piece, self._rest = bytes(self._rest), bytearray()
        return [piece] if piece or self._delimiter is None else []


@attrs.frozen(slots=True)
class LineForm:
    """How a piece of the input is a record.

    Attributes:
        is_json: an object of JSON (see `record_json`).
        key_delimiter: between key and value; None: there are no keys in it.
        key: of all records without one of their own.
        headers: of all records, before their own.
        has_tombstones: an empty value is none at all.
    """

    is_json: bool = False
    key_delimiter: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, Buffer | None], ...] = ()
    has_tombstones: bool = False

    def read(self, piece: bytes) -> Given | None:
        """The record; None for an empty line between objects of JSON.

        Raises:
            RecordFormError: it is none.
        """
        if self.is_json:
            if not piece.strip():
                return None
            given = read_record(piece)
            key = self.key if given.key is None else given.key
            return attrs.evolve(given, key=key, headers=self.headers + given.headers)
        key, value = self.key, piece
        if self.key_delimiter is not None:
            key, found, value = piece.partition(self.key_delimiter)
            if not found:
                raise RecordFormError(
                    f"no key delimiter {self.key_delimiter.decode(errors='backslashreplace')!r} in it"
                )
        return Given(key, None if self.has_tombstones and not value else value, self.headers)
