"""Checks of produced batches in steps: a batch that takes longer than a turn stops nobody else.

Rules of this file: what is slow in C (decompression, compression) runs in a thread, the walk over the records in turns.
Few long batches are checked at a time, of however many connections, because each may hold 32 MiB of records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.records.check import BatchCheck, LongBatchError, as_stored, check_batch, takes_long_to_store
from stages.request import Parked

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.apis.steps import Stepwise
    from pipeline_broker.log.entry import Buffer
    from pipeline_broker.records.batch import BatchHeader
    from pipeline_broker.records.check import Rules

__all__ = ["LONG_BATCHES_MAX", "check_in_steps"]

LONG_BATCHES_MAX = 2
"""Long batches that are checked at a time; others wait for their turn."""


def check_in_steps(
    call: Call, batch: Buffer, rules: Rules, *, zstd_allowed: bool, transactions_allowed: bool
) -> Stepwise[tuple[BatchHeader, Buffer]]:
    """The header and the batch as they are stored; for the arguments see `records.check.check_batch`.

    Raises:
        RecordError: the batch must be refused.
    """
    try:
        header = check_batch(
            batch, call.now_ms, rules, zstd_allowed=zstd_allowed, transactions_allowed=transactions_allowed
        )
    except LongBatchError:
        pass
    else:
        if call.is_turn_over(header.record_count):
            yield None
        if takes_long_to_store(header, rules):
            stored: tuple[BatchHeader, Buffer] = yield Parked(lambda: as_stored(header, batch, rules))
            return stored
        return as_stored(header, batch, rules)
    while call.broker.long_batches >= LONG_BATCHES_MAX:
        yield None
    call.broker.long_batches += 1
    try:
        check = BatchCheck(
            batch, call.now_ms, rules, zstd_allowed=zstd_allowed, transactions_allowed=transactions_allowed
        )
        yield Parked(check.open)
        for records in check.steps():
            if call.is_turn_over(records):
                yield None
        stored = yield Parked(check.stored)
    finally:
        call.broker.long_batches -= 1
    return stored
