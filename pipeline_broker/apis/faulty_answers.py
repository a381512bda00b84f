"""Fault rules for responses, which change, truncate, delay, hold or drop them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pipeline_broker.apis.throttling import throttle
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.faults.effects import (
    RESPONSE_ORDER,
    CorruptCrc,
    Delay,
    Disconnect,
    Drop,
    Effect,
    Error,
    PartialWrite,
    Pause,
    Throttle,
)
from pipeline_broker.faults.subject import partition_number
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import read_response_header, response_header
from pipeline_broker.wire.registry import message_classes
from stages.request import Close, Final, Request, Send

if TYPE_CHECKING:
    from pipeline_broker.apis.dispatch import Dispatcher
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.faults.faults import Faults
    from pipeline_broker.faults.rule import Rule

__all__ = ["FaultyAnswer"]

# The length before every response.
LENGTH = struct.Struct(">i")
# Position of the checksum in a batch: after base offset, length, leader epoch and magic.
CRC_POSITION = 17


class FaultyAnswer:
    """The effects of fault rules on the response to one request; see `stages.request.Request.before_answer`.

    Args:
        dispatcher: builds error responses.
        faults: holds responses back.
        broker: provides the clock and the names of topic ids.
        answering: rules with their effects, in the order of the rules.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        faults: Faults,
        broker: Broker,
        answering: list[tuple[Rule, Effect]],
    ) -> None:
        self._dispatcher = dispatcher
        self._faults = faults
        self._broker = broker
        self._answering = answering

    def __call__(self, request: Request, result: Final) -> Final | None:
        """Return the result that ends the slot; None if a rule holds it back. A `Close` passes unchanged."""
        if isinstance(result, Close):
            return result
        delay_ms = 0
        delays, pauses = [], []
        for rule, effect in self._answering:
            if rule.is_removed:
                continue
            if isinstance(effect, Delay):
                delay_ms += max(1, round(effect.seconds * 1000))
                delays.append(rule.number)
            elif isinstance(effect, Pause) and effect.stage == RESPONSE_ORDER:
                pauses.append(rule.number)
            elif isinstance(effect, Drop):
                result = Close(f"fault rule {rule.number} dropped the answer")
                pauses.append(rule.number)
            elif not isinstance(result, Close):
                result = self._changed(request, result, rule, effect)
        if not delays and not pauses:
            return result
        self._faults.held.hold_answer(request, result, self._broker.ports.clock_ms() + delay_ms, delays, pauses)
        return None

    def _changed(self, request: Request, result: Final, rule: Rule, effect: Effect) -> Final:
        if isinstance(effect, Error):
            return self._dispatcher.refuse(request, ErrorCode[effect.code], is_handled=True)
        if isinstance(effect, Disconnect):
            return Close(f"fault rule {rule.number}")
        if isinstance(effect, PartialWrite):
            frame = b"".join(map(bytes, result.parts)) if isinstance(result, Send) else b""
            sent = LENGTH.pack(len(frame)) + frame if frame else b""
            return Close(f"fault rule {rule.number}", sent[: effect.size_bytes])
        if isinstance(effect, Throttle):
            # Throttles the connection even if no response can carry the throttle time, as with acks=0.
            throttle(request, effect.throttle_ms)
        if not isinstance(result, Send):
            return result
        if isinstance(effect, Throttle):
            return _rewritten(request, result, lambda answer: _set_throttle(answer, effect.throttle_ms))
        if isinstance(effect, CorruptCrc):
            return _rewritten(request, result, lambda answer: self._corrupt(answer, rule))
        return result

    def _corrupt(self, answer: Any, rule: Rule) -> bool:
        """Flip a bit of the first batch's checksum in each matching partition; return whether the answer changed.

        A change counts as a strike of the rule, except for a `Call` rule.
        """
        condition: Any = rule.condition
        wanted = [
            partition
            for name, partition in _partitions_with_records(answer, self._broker.topic_name)
            if condition.topic in (None, name) and condition.partition in (None, partition_number(partition))
        ]
        is_counted = not isinstance(rule.effect, CorruptCrc)  # a `Call` rule was counted when its function was called
        if not wanted or not (is_counted or rule.strikes()):
            return False
        for partition in wanted:
            records = bytearray(partition.records)
            records[CRC_POSITION] ^= 1
            partition.records = bytes(records)
        return True


def _partitions_with_records(answer: Any, topic_name: Callable[[bytes], str | None]) -> Iterable[tuple[str, Any]]:
    for topic in answer.responses:
        name = getattr(topic, "topic", "") or topic_name(topic.topic_id) or ""
        for partition in topic.partitions:
            if partition.records is not None and len(partition.records) > CRC_POSITION:
                yield name, partition


def _set_throttle(answer: Any, throttle_ms: int) -> bool:
    """Raise the throttle time of an answer; return whether it changed. Answers without the field stay as they are."""
    if throttle_ms <= getattr(answer, "throttle_time_ms", throttle_ms):
        return False
    answer.throttle_time_ms = throttle_ms
    return True


def _rewritten(request: Request, result: Send, change: Callable[[Any], bool]) -> Send:
    # Decoding and encoding again makes the change independent of the path that built the answer, such as produce
    # templates.
    frame = b"".join(map(bytes, result.parts))
    correlation_id, position = read_response_header(request.api, request.version, frame)
    answer, _ = decode(message_classes(request.api)[1], request.version, frame, position)
    if not change(answer):
        return result
    return Send(response_header(request.api, request.version, correlation_id), *encode(answer, request.version))
