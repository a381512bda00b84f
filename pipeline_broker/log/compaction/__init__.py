"""Compaction of logs by key: scheduling, the offset map, and rebuilt batches and segments, like Kafka's LogCleaner.

Rules:

* No record changes its offset, and the kept records are those that Apache Kafka keeps.
* A batch that loses no record is copied byte for byte. Its checksum is verified first, because a new checksum would
  hide damage.
* A round reads the segments of one manifest and writes new files. It changes nothing that counts until the archive
  commits its result.
* Decisions (`schedule`, `cleaner`) do no I/O, and time is passed in.

Counterpart in Kafka: `LogCleaner`, `Cleaner`.
"""
