"""State machines of the broker: topics, features, groups and offsets, transactions, share partitions, fetch sessions.

Rules of this package:

* A machine is synchronous and sans-IO. It reads no clock, does no I/O and calls nothing outside. Callers pass in
  `now_ms`, milliseconds since 1970, which never runs backwards.
* A method returns the answers to give and the records to append (`outcome.py`).
* A change becomes visible once its records are durable. The caller appends `Write.records`, then passes the same
  `Write` to `durable` or `failed`. A failed commit fails all later ones, so the caller settles writes in the order of
  their creation.
* At startup `replay` applies the durable records in the order of the log. If a record cannot be read or applied,
  `replay` raises a `StateRecordError` before it changes anything, and the startup sets the record aside
  (`set_aside.py`).
* Records of unknown types are skipped: another version of the broker wrote them.
* Error codes and texts for clients are those of Apache Kafka.
"""
