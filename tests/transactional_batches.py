"""Transactional batches, appended to a log like by a produce request."""

from pipeline_broker.records.check import as_stored, check_batch
from pipeline_broker.records.errors import RecordError

__all__ = ["produce"]


def produce(log, batch, now_ms, *, starts_at_zero=False):
    """`PartitionLog.produce` for a batch that may be part of a transaction; see `PartitionLog.append_checked`."""
    try:
        header = check_batch(batch, now_ms, log.rules, transactions_allowed=True)
        stored = as_stored(header, batch, log.rules)
    except RecordError:
        log.refuse(batch)
        raise
    return log.append_checked(*stored, now_ms, starts_at_zero=starts_at_zero)
