"""Transactional producers of a load: a fixed number of produce requests and the end of their transaction, repeatedly.

Like any transactional producer, they end a transaction once all its requests are answered, and begin the next one once
the end is answered. Transactions have version 2 (KIP-890): the broker adds partitions by itself. The answer to an end
assigns the producer's next epoch, in which sequences restart at 0.
"""

import struct
from collections.abc import Sequence

from pipeline_broker.client.dialogue import CLIENT_ID, framed
from pipeline_broker.client.errors import ClientError
from pipeline_broker.measure.load.requests import CORRELATION, CORRELATION_POSITION, END, PRODUCE, IdempotentProduce
from pipeline_broker.wire.codec import DecodeError, decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse

END_KEY = 26
END_VERSION = 5
PRODUCE_VERSION = 12
"""The first version of Produce, like `END_VERSION` of EndTxn, with transactions of version 2 (KIP-890)."""
_PRODUCER = struct.Struct(">qh")  # id, epoch
_MARK_ID, _MARK_EPOCH = 0x0123456789ABCDEF, 0x1357


class Transactions:
    """The requests of one transactional producer.

    Args:
        each: produce requests per transaction.
    """

    error_position = 0

    def __init__(self, produce: IdempotentProduce, transactional_id: str, each: int) -> None:
        self._produce = produce
        self._error = struct.Struct(f">{produce.error_position}xh")
        self.kinds: Sequence[int] = (*[PRODUCE] * each, END)
        header = encode_request_header(RequestHeader(END_KEY, END_VERSION, 0, CLIENT_ID))
        request = EndTxnRequest(transactional_id, _MARK_ID, _MARK_EPOCH, committed=True)
        self._end = bytearray(framed(b"".join((header, *encode(request, END_VERSION)))))
        mark = _PRODUCER.pack(_MARK_ID, _MARK_EPOCH)
        self._producer_position = self._end.index(mark)

    def become(self, producer_id: int, epoch: int) -> None:
        self._produce.become(producer_id, epoch)
        _PRODUCER.pack_into(self._end, self._producer_position, producer_id, epoch)

    def frames(self, first_id: int, count: int) -> bytes:
        kinds, period = self.kinds, len(self.kinds)
        return b"".join(
            self._produce.frames(correlation_id, 1)
            if kinds[correlation_id % period] == PRODUCE
            else self._end_of(correlation_id)
            for correlation_id in range(first_id, first_id + count)
        )

    def _end_of(self, correlation_id: int) -> bytes:
        CORRELATION.pack_into(self._end, CORRELATION_POSITION, correlation_id)
        return bytes(self._end)

    def read(self, correlation_id: int, response: memoryview) -> int:
        if self.kinds[correlation_id % len(self.kinds)] == PRODUCE:
            if len(response) < self._error.size:
                raise ClientError(f"the broker sent {len(response)} bytes, which are not a produce response")
            (error,) = self._error.unpack_from(response)
            return int(error)
        try:
            _, position = read_response_header(END_KEY, END_VERSION, response[4:])
            answer, _ = decode(EndTxnResponse, END_VERSION, response[4:], position)
        except DecodeError as error:
            raise ClientError(f"the broker's answer to EndTxn cannot be decoded: {error}") from None
        if not answer.error_code:
            self.become(answer.producer_id, answer.producer_epoch)
        return answer.error_code


class TransactionPace:
    """A pace that keeps a window of a transaction's produce requests in flight, and sends its end alone.

    It stops between two transactions, so that none stays open.

    Args:
        window: produce requests in flight.
        stop_ns: no transaction begins at or after this time.
        each: produce requests per transaction.
    """

    def __init__(self, window: int, stop_ns: int, each: int) -> None:
        self._window = window
        self._stop_ns = stop_ns
        self._each = each
        self._index = 0  # index of the next request in its transaction; the end has index `each`

    def take(self, now_ns: int, in_flight: int) -> list[int]:
        if self.is_over(now_ns):
            return []
        # The first request of a transaction and its end each need an idle connection.
        if self._index in {0, self._each}:
            if in_flight:
                return []
            count = 1 if self._index else min(self._window, self._each)
        else:
            count = min(self._window - in_flight, self._each - self._index)
        self._index = (self._index + count) % (self._each + 1)
        return [now_ns] * count

    def answered(self, count: int, now_ns: int, latency_ns: int) -> None:
        pass

    def next_ns(self, _: int) -> int | None:
        return None  # every request needs an answer first

    def is_over(self, now_ns: int) -> bool:
        # Only between two transactions, so that the stop leaves none open.
        return self._index == 0 and now_ns >= self._stop_ns
