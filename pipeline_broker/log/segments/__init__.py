"""Rules about the segments of one partition log: rolling, retention and the topic settings for them.

Rules:

* Pure decisions over plain values: the caller passes segments, settings and the current time. No I/O.
* Segments are listed from oldest to newest, without overlap. Only the last one (the active segment) may be unsealed.
* Offsets, sizes and times have the meaning of Kafka's `LogSegment`.
"""
