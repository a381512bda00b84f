"""The protocol of one load connection, without I/O: numbers requests, and cuts received bytes into answers."""

import struct

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.client.dialogue import RESPONSE_SIZE_MAX
from pipeline_broker.client.errors import ClientError
from pipeline_broker.measure.load.pace import Pace
from pipeline_broker.measure.load.recorders import Recorder
from pipeline_broker.measure.load.requests import ReadAnswer, Requests

READ_RESPONSE_SIZE_MAX = 128 << 20
HEAD = struct.Struct(">ii")  # length, correlation id


class Exchange:
    """The requests sent and the answers received on one connection.

    Args:
        is_answered: False with acks=0, which the broker never answers.

    Attributes:
        in_flight: requests that still await an answer; always 0 with acks=0.
        sent_bytes, received_bytes: bytes of whole frames.
    """

    def __init__(self, requests: Requests, pace: Pace, recorder: Recorder, *, is_answered: bool = True) -> None:
        self._requests = requests
        self._is_answered = is_answered
        self.pace = pace
        self.recorder = recorder
        self._sent = 0
        self.in_flight = 0
        self.sent_bytes = self.received_bytes = 0
        self._rest: list[Buffer] = []  # the beginning of an answer that is not yet complete
        self._rest_bytes = 0
        self._wanted = 0  # bytes that the rest needs before it is parsed again
        self._read = requests.read
        self._fields = struct.Struct(f">ii{max(0, requests.error_position - HEAD.size)}xh")

    def send(self, now_ns: int) -> bytes:
        intended_ns = self.pace.take(now_ns, self.in_flight)
        if not intended_ns:
            return b""
        count = len(intended_ns)
        data = self._requests.frames(self._sent, count)
        self.recorder.sent(intended_ns, now_ns)
        self._sent += count
        if self._is_answered:
            self.in_flight += count
        self.sent_bytes += len(data)
        return data

    def receive(self, data: Buffer, now_ns: int) -> int:
        """Process the bytes of one read, and return the number of answers that they complete.

        Raises:
            ClientError: an answer is invalid, or no request belongs to it.
        """
        if self._rest:
            self._rest.append(data)
            self._rest_bytes += len(data)
            # Joining at every read would copy a large answer once per read.
            if self._rest_bytes < self._wanted:
                return 0
            data = b"".join(self._rest)
        ids, errors = self._cut(data) if self._read is None else self._cut_and_read(data, self._read)
        count = len(ids)
        if count:
            self.in_flight -= count
            if self.in_flight < 0:
                raise ClientError("the broker sent more answers than it got requests")
            latency_ns = self.recorder.answered(ids, errors, now_ns)
            self.pace.answered(count, now_ns, latency_ns)
        return count

    def is_done(self, now_ns: int) -> bool:
        return self.in_flight == 0 and self.pace.is_over(now_ns)

    def _cut(self, data: Buffer) -> tuple[list[int], list[int]]:
        ids: list[int] = []
        errors: list[int] = []
        position, size = 0, len(data)
        # The fast path: one `unpack_from` per answer, since the error code is at a fixed position.
        unpack, head_size, sent = self._fields.unpack_from, self._fields.size, self._sent
        self._wanted = head_size
        while size - position >= head_size:
            length, correlation_id, error = unpack(data, position)
            if not head_size - 4 <= length <= RESPONSE_SIZE_MAX:
                raise ClientError(f"the broker sent a response of {length} bytes, which is not a produce response")
            end = position + 4 + length
            if end > size:
                self._wanted = end - position
                break
            # Recorders index their lists by this id.
            if not 0 <= correlation_id < sent:
                raise ClientError(f"the broker answered correlation id {correlation_id}, which was never sent")
            ids.append(correlation_id)
            errors.append(error)
            position = end
        self._keep(data, position)
        return ids, errors

    def _cut_and_read(self, data: Buffer, read: ReadAnswer) -> tuple[list[int], list[int]]:
        ids: list[int] = []
        errors: list[int] = []
        # Fetch and EndTxn responses vary in length before their error codes, so each is decoded.
        view = memoryview(data)
        position, size = 0, len(data)
        self._wanted = HEAD.size
        while size - position >= HEAD.size:
            length, correlation_id = HEAD.unpack_from(data, position)
            if not HEAD.size - 4 <= length <= READ_RESPONSE_SIZE_MAX:
                raise ClientError(f"the broker sent a response of {length} bytes")
            end = position + 4 + length
            if end > size:
                self._wanted = end - position
                break
            if not 0 <= correlation_id < self._sent:
                raise ClientError(f"the broker answered correlation id {correlation_id}, which was never sent")
            ids.append(correlation_id)
            errors.append(read(correlation_id, view[position:end]))
            position = end
        self._keep(data, position)
        return ids, errors

    def _keep(self, data: Buffer, position: int) -> None:
        self._rest = [data[position:]] if position < len(data) else []
        self._rest_bytes = len(data) - position
        self.received_bytes += position
