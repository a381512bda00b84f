"""Client quotas: limits of produced and fetched bytes, handler time, metadata changes and connections (Kafka's quotas).

Rules of this package:

* It is synchronous and sans-IO. Callers pass in the time: milliseconds of a clock that never runs backwards.
* A quota applies once its record is durable.
* A broker without quotas loads only `quotas.py`.
* Texts and error codes are Kafka's.

Counterpart in Kafka: `ClientQuotaManager`, `SampledStat`, `Rate`.
"""
