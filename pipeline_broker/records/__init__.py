"""Kafka's record batches, format v2: headers, records, compression, and the checks of produced batches.

Rules of this package:

* It knows nothing about requests or responses. Errors carry the name of the Kafka error code (`errors`).
* Damaged bytes raise a `RecordError` and nothing else. Every length is compared with the remaining bytes.
* Records are not copied or decoded unless that is necessary. Base offset and leader epoch lie outside the checksum, so
  assigning offsets changes only the header.
* Loops that run for every record inline the short cases of variable-length integers.
"""
