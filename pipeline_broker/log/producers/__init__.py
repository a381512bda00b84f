"""Idempotent and transactional producers of one partition: sequence checks, open and aborted transactions.

Rules:

* Pure state: no files and no records, and time is passed in. Batches are applied in offset order, each exactly once.
* The order of checks is Kafka's: duplicate, epoch, sequence, transaction state.
* Recovery and archiving replay durable batches without checks. The same batches always give the same state.
"""
