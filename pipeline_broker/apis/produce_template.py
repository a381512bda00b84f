"""The fast path of Produce for requests with one batch for one partition, the shape of nearly all of them.

A producer repeats itself. For one partition, requests share all bytes between the correlation id and the length of the
records. Responses share all bytes except the correlation id and three offsets. The first request takes the general path
and leaves a template; later requests with the same bytes skip decoding and encoding. Every other request, and every
error, takes the general path, which alone decides about validity. Any change of topics or ACLs drops all templates.
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

# API key, version and correlation id, before the repeated bytes.
FIXED_BYTES: Final = 8
ZSTD_FROM: Final = 7
LOG_START_FROM: Final = 5
FLEXIBLE_FROM: Final = API_KEYS[ApiKey.PRODUCE].flexible_from
# The empty tag sections of the partition, the topic and the request, after the records.
FLEXIBLE_TAIL: Final = bytes(3)
UVARINT_BYTES_MAX: Final = 5
# Templates of one connection. Requests for further partitions take the general path.
TEMPLATES_MAX = 4096
"""Templates of Produce requests of a connection."""
# Memory of a template without the bytes of the client: the prefix, and the client id of up to 32 KB.
TEMPLATE_BYTES = 1000
# Base offset, append time and log start of a response that is encoded once, to find their positions.
SENTINEL: Final = (0x0102030405060708, 0x1112131415161718, 0x2122232425262728)

_length: Final = struct.Struct(">i")


class _Template:
    __slots__ = ("acks", "after_offsets", "before_offsets", "client_id", "kept", "log", "pack", "version", "with_start")

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
        self.before_offsets, self.after_offsets = encoded[_length.size :].split(offsets)
        middle = "3q" if self.with_start else "2q"
        self.pack: Callable[..., bytes] = struct.Struct(
            f">i{len(self.before_offsets)}s{middle}{len(self.after_offsets)}s"
        ).pack

    def after_offsets_throttled(self, throttle_ms: int) -> bytes:
        # The throttle time is the last field of the response, before the tag section of flexible versions.
        end = len(self.after_offsets) - (1 if self.version >= FLEXIBLE_FROM else 0)
        return self.after_offsets[: end - _length.size] + _length.pack(throttle_ms) + self.after_offsets[end:]


class ProduceTemplates:
    """The templates of one connection, by the bytes that its requests repeat.

    Args:
        broker: its budget for clients' state (`Broker.edges`) is charged for the templates.
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
        """Handle a request that matches a template; return None if it must take the general path.

        Args:
            request: receives `acks`, for traces.
            frame: header and body.
            now_ms: wall clock, milliseconds since the epoch.
            quota: the client's quota; None while no quotas are set.
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
        # The general path checks the batch again and builds the error response.
        except (RecordError, LogError, LongBatchError):
            return None
        try:
            return _answer(template, request, correlation_id, appended, quota)
        except Exception:
            # An appended batch must reach the journal whatever fails later, as in `produce.handle`; only its response
            # may be lost.
            if appended.entry is None:
                raise
            logger.exception("a produce request failed after its batch was appended")
            return Pending((appended.entry,), Close("a produce request failed after its batch was appended"))

    def remember(
        self, frame: bytes, version: int, request: ProduceRequest, log: PartitionLog, client_id: str | None
    ) -> None:
        """Make a template of a request that appended one batch to one partition on the general path.

        No template is made if the request has tagged fields or trailing bytes, or if a limit on number or memory is
        reached.
        """
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
            return  # producers do not repeat tagged fields or trailing bytes
        # A connection looks for prefixes of one length only, so templates of another length would never match again.
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
        return [template.log for template in islice(self._by_prefix.values(), most)]

    def forget(self) -> None:
        for template in self._by_prefix.values():
            template.kept.release()
        self._by_prefix.clear()


def _answer(
    template: _Template, request: Request, correlation_id: int, appended: Appended, quota: RequestQuota | None
) -> Pending | Send:
    request.acks = template.acks
    entry, base_offset, _, append_time_ms, _, in_flight = appended
    after_offsets = template.after_offsets if quota is None else _after_offsets_of(template, quota, request)
    if template.with_start:
        send = Send(
            template.pack(
                correlation_id,
                template.before_offsets,
                base_offset,
                append_time_ms,
                template.log.log_start_offset,
                after_offsets,
            )
        )
    else:
        send = Send(template.pack(correlation_id, template.before_offsets, base_offset, append_time_ms, after_offsets))
    if entry is not None:
        return Pending((entry,), send)
    return Pending((), send) if in_flight else send


def _after_offsets_of(template: _Template, quota: RequestQuota, request: Request) -> bytes:
    quota.client_id = template.client_id
    quota.produced(request.size_bytes)
    throttle_ms = quota.settle()
    if not throttle_ms:
        return template.after_offsets
    throttle(request, throttle_ms)
    return template.after_offsets_throttled(throttle_ms)


def _records(frame: bytes, position: int, version: int) -> bytes | None:
    """Return the records whose length is at `position`; None if anything but empty tag sections follows them."""
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
    return (value.bit_length() + 6) // 7
