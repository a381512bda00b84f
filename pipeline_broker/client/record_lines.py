"""Input of `produce` as records: cut at a delimiter, then split into key and value or parsed as JSON.

Input is bytes without an assumed encoding. The last record needs no delimiter after it.
"""

from __future__ import annotations

import re

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.client.record_json import InputRecord, RecordFormError, read_record

__all__ = ["LINE_BYTES_MAX", "LineForm", "LineSplitter", "unescape"]

LINE_BYTES_MAX = 64 << 20
"""Most bytes without a delimiter. Brokers accept one megabyte by default."""
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}

_TWO_DIGITS = re.compile("[0-9A-Fa-f]{2}")


def unescape(text: str) -> bytes:
    r"""Return a text as bytes, where \n, \t, \r, \0, \\ and \xNN are single bytes.

    Raises:
        ValueError: an escape is unknown.
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
    """Incremental splitting of a stream of bytes.

    Args:
        delimiter: the bytes between two records; None: the whole input is one record.
    """

    def __init__(self, delimiter: bytes | None) -> None:
        self._delimiter = delimiter
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add input, and return the records that end in it.

        Raises:
            RecordFormError: more than LINE_BYTES_MAX bytes have no delimiter.
        """
        pieces: list[bytes] = []
        if self._delimiter is None:
            self._rest += data
        elif self._rest and len(self._delimiter) == 1 and self._delimiter not in data:
            self._rest += data  # searching `_rest` each time would be quadratic for a long line
        else:
            pieces = (bytes(self._rest) + data).split(self._delimiter)
            self._rest = bytearray(pieces.pop())
        if len(self._rest) > LINE_BYTES_MAX:
            raise RecordFormError(f"the record is longer than {LINE_BYTES_MAX} bytes. Check --delimiter")
        return pieces

    def finish(self) -> list[bytes]:
        """Return the input after the last delimiter as a list of one record.

        The list is empty if that input is, unless the splitter has no delimiter.
        """
        piece, self._rest = bytes(self._rest), bytearray()
        return [piece] if piece or self._delimiter is None else []


@attrs.frozen(slots=True)
class LineForm:
    """The form of a record in the input.

    Attributes:
        is_json: a JSON object; see `record_json`.
        key_delimiter: the bytes between key and value; None: the input has no keys.
        key: the key of records without their own.
        headers: headers of all records, before their own.
        has_tombstones: an empty value becomes a null value, except in JSON.
    """

    is_json: bool = False
    key_delimiter: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, Buffer | None], ...] = ()
    has_tombstones: bool = False

    def read(self, piece: bytes) -> InputRecord | None:
        """Parse a record. Return None for an empty line of JSON input.

        Raises:
            RecordFormError: the input is not a record.
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
                    f"the line has no key delimiter {self.key_delimiter.decode(errors='backslashreplace')!r}."
                    " Write KEY, the delimiter and VALUE"
                )
        return InputRecord(key, None if self.has_tombstones and not value else value, self.headers)
