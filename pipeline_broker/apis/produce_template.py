"""Produce of one batch to one partition, remembered: the shape of nearly every request on the hot path.

Rules of this room: a producer repeats itself. All bytes of its request between the correlation id and the length of the
records are the same from one request to the next for a partition, and so are all bytes of the response but the
correlation id and three offsets. So the first such request is decoded and its response encoded in the general way, and
what that came to is kept per connection; a later one with the same bytes skips both. Anything else, and any error,
takes the general way, which is the only place that knows what is right. A topic that changes drops all templates.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from itertools import islice
from typing import Final

from pipeline_broker.apis.throttling import throttle
from pipeline_broker.base.byte_budget import Kept, OverBudgetError
from pipeline_broker.broker.broker import Broker
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.journal.entry import Appended
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.quotas.quotas import RequestQuota
from pipeline_broker.records.check import LongBatchError
from pipeline_broker.records.errors import RecordError
from pipeline_broker.wire.codec import encoder
from pipeline_broker.wire.header import response_header
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.registry import API_KEYS, ApiKey
from stages.request import Close, Pending, Request, Send

__all__ = ["ProduceTemplates"]

logger = logging.getLogger(__name__)

FIXED_BYTES: Final = 8
"""API key, version and correlation id, in front of what repeats."""
ZSTD_FROM: Final = 7
LOG_START_FROM: Final = 5
FLEXIBLE_FROM: Final = API_KEYS[ApiKey.PRODUCE].flexible_from
FLEXIBLE_TAIL: Final = bytes(3)
"""Behind the records: the empty tag sections of the partition, the topic and the request."""
UVARINT_BYTES_MAX: Final = 5
TEMPLATES_MAX = 4096
"""Templates of one connection; a client that writes to more partitions goes the general way for the rest."""
TEMPLATE_BYTES = 1000
"""Of one beside what the client sent: the bytes that repeat, and its id, of up to 32 KB."""
SENTINEL: Final = (0x0102030405060708, 0x1112131415161718, 0x2122232425262728)
"""Base offset, append time and log start that are encoded once, to find where they stand."""

_length: Final = struct.Struct(">i")


class _Template:
    """What requests with one prefix have in common."""

    __slots__ = ("acks", "before", "behind", "client_id", "kept", "log", "pack", "version", "with_start")

    kept: Kept

    def __init__(
        self, log: PartitionLog, acks: int, version: int, response: ProduceResponse, client_id: str | None
    ) -> None:
        self.client_id = client_id or ""
        self.log = log
        self.acks = acks
        self.version = version
        self.with_start = version >= LOG_START_FROM
        offsets = struct.pack(">3q" if self.with_start else ">2q", *SENTINEL[: 2 + self.with_start])
        encoded = response_header(ApiKey.PRODUCE, version, 0) + b"".join(encoder(ProduceResponse, version)(response))
        self.before, self.behind = encoded[_length.size :].split(offsets)
        middle = "3q" if self.with_start else "2q"
        self.pack: Callable[..., bytes] = struct.Struct(f">i{len(self.before)}s{middle}{len(self.behind)}s").pack

    def behind_throttled(self, throttle_ms: int) -> bytes:
        """What stands behind the offsets, with a throttle time: the last field of the response."""
        end = len(self.behind) - (1 if self.version >= FLEXIBLE_FROM else 0)  # the response's empty tag section
        return self.behind[: end - _length.size] + _length.pack(throttle_ms) + self.behind[end:]


class ProduceTemplates:
    """The templates of one connection, by the bytes that requests repeat.

    Args:
        broker: its budget of the edges is charged for them, each connection by itself.
    """

    __slots__ = ("_broker", "_by_prefix", "_generation", "_prefix_end")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._by_prefix: dict[bytes, _Template] = {}
        self._prefix_end = FIXED_BYTES
        self._generation = broker.topics_generation

    def handle(
        self,
        request: Request,
        frame: bytes,
        version: int,
        correlation_id: int,
        now_ms: int,
        quota: RequestQuota | None,
    ) -> Pending | Send | None:
        """The result of a request whose like was seen before; None to have it handled in the general way.

        Args:
            request: its `acks` are set for traces.
            frame: header and body.
            version: API version, from the header.
            correlation_id: from the header.
            now_ms: wall clock.
            quota: what the request counts for, if anything.
        """
        position = self._prefix_end
        template = self._by_prefix.get(frame[FIXED_BYTES:position])
        if template is None or template.version != version or self._generation != self._broker.topics_generation:
            return None
        records = _records(frame, position, version)
        if records is None:
            return None
        log = template.log
        try:
            appended = log.produce(records, now_ms, zstd_allowed=version >= ZSTD_FROM)
        except (RecordError, LogError, LongBatchError):
            return None
        try:
            return _answer(template, request, correlation_id, appended, quota)
        except Exception:
            if appended.entry is None:
                raise
            logger.exception("a produce request failed after it was appended")  # see `produce.handle`
            return Pending((appended.entry,), Close("produce failed after it was appended"))

    def remember(
        self, frame: bytes, version: int, request: ProduceRequest, log: PartitionLog, client_id: str | None
    ) -> None:
        """Keep the shape of a request with one batch for one partition that was appended in the general way."""
        if self._generation != self._broker.topics_generation:
            self.forget()
            self._generation = self._broker.topics_generation
        data = request.topic_data[0].partition_data[0]
        assert data.records is not None
        size = len(data.records)
        if version < FLEXIBLE_FROM:
            prefix_end = len(frame) - size - _length.size
        else:
            prefix_end = len(frame) - len(FLEXIBLE_TAIL) - size - _uvarint_size(size + 1)
        if _records(frame, prefix_end, version) != data.records:
            return  # tagged fields or trailing bytes: not what producers repeat
        if prefix_end != self._prefix_end:
            self.forget()
            self._prefix_end = prefix_end
        prefix = frame[FIXED_BYTES:prefix_end]
        known = self._by_prefix.get(prefix)
        if known is None and len(self._by_prefix) >= TEMPLATES_MAX:
            return
        topic = request.topic_data[0]
        partition = ProduceResponse.PartitionProduceResponse(data.index, 0, *SENTINEL)
        response = ProduceResponse([ProduceResponse.TopicProduceResponse(topic.name, topic.topic_id, [partition])])
        template = _Template(log, request.acks, version, response, client_id)
        if known is not None:
            template.kept = known.kept
        else:
            size_bytes = TEMPLATE_BYTES + len(prefix) + len(template.client_id)
            try:
                template.kept = self._broker.edges.keep(self, size_bytes, lambda: self._drop(prefix))
            except OverBudgetError:
                return
        self._by_prefix[prefix] = template

    def _drop(self, prefix: bytes) -> None:
        del self._by_prefix[prefix]

    def logs(self, most: int) -> list[PartitionLog]:
        """The logs that requests were remembered for, so many at most."""
        return [template.log for template in islice(self._by_prefix.values(), most)]

    def forget(self) -> None:
        """Let go of all of them; what comes next is seen for the first time."""
        for template in self._by_prefix.values():
            template.kept.release()
        self._by_prefix.clear()


def _answer(
    template: _Template, request: Request, correlation_id: int, appended: Appended, quota: RequestQuota | None
) -> Pending | Send:
    """The result of a request whose batch was appended, or is a duplicate."""
    request.acks = template.acks
    entry, base_offset, _, append_time_ms, _, in_flight = appended
    behind = template.behind if quota is None else _behind_of(template, quota, request)
    if template.with_start:
        send = Send(
            template.pack(
                correlation_id, template.before, base_offset, append_time_ms, template.log.log_start_offset, behind
            )
        )
    else:
        send = Send(template.pack(correlation_id, template.before, base_offset, append_time_ms, behind))
    if entry is not None:
        return Pending((entry,), send)
    return Pending((), send) if in_flight else send


def _behind_of(template: _Template, quota: RequestQuota, request: Request) -> bytes:
    """What stands behind the offsets, once the request has counted for its quota."""
    quota.client_id = template.client_id
    quota.produced(request.size_bytes)
    throttle_ms = quota.settle()
    if not throttle_ms:
        return template.behind
    throttle(request, throttle_ms)
    return template.behind_throttled(throttle_ms)


def _records(frame: bytes, position: int, version: int) -> bytes | None:
    """The records whose length stands at `position`, if nothing but empty tag sections follows them."""
    end = len(frame)
    if version < FLEXIBLE_FROM:
        start = position + _length.size
        return frame[start:] if frame[position:start] == _length.pack(end - start) else None
    end -= len(FLEXIBLE_TAIL)
    if frame[end:] != FLEXIBLE_TAIL:
        return None
    size = shift = 0
    for byte in frame[position : position + UVARINT_BYTES_MAX]:
        position += 1
        size |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            break
        shift += 7
    return frame[position:end] if size - 1 == end - position else None


def _uvarint_size(value: int) -> int:
    """Bytes of an unsigned varint."""
    return (value.bit_length() + 6) // 7
