"""Validation of produced batches that take longer than a turn, without blocking other requests.

Compression and decompression run in a thread, the iteration over records in turns. `Broker.long_batches` limits the
long batches checked at a time over all connections, because each may hold 32 MiB of records.
"""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise, wait_for_place
from pipeline_broker.base.buffer import Buffer
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.check import BatchCheck, LongBatchError, Rules, as_stored, check_batch, takes_long_to_store
from stages.request import Parked

__all__ = ["check_in_steps"]


def check_in_steps(
    call: Call, batch: Buffer, rules: Rules, *, zstd_allowed: bool, transactions_allowed: bool
) -> Stepwise[tuple[BatchHeader, Buffer]]:
    """Validate a batch; return its header and the batch, both in their stored form.

    The arguments are those of `records.check.check_batch`.

    Raises:
        RecordError: the batch must be refused.
    """
    try:
        header = check_batch(
            batch, call.now_ms, rules, zstd_allowed=zstd_allowed, transactions_allowed=transactions_allowed
        )
    except LongBatchError as error:
        check = BatchCheck(error, call.now_ms, rules)
    else:
        if call.is_turn_over(header.record_count):
            yield None
        if takes_long_to_store(header, rules):
            stored: tuple[BatchHeader, Buffer] = yield Parked(lambda: as_stored(header, batch, rules))
            return stored
        return as_stored(header, batch, rules)
    line = call.broker.long_batches
    try:
        yield from wait_for_place(call, line)
        yield Parked(check.open)
        yield from check.steps()
        stored = yield Parked(check.stored)
    finally:
        line.leave(call)
    return stored
