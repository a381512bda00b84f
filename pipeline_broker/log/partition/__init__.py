"""Partition logs: appending, visibility, reading, search by time, and retention and compaction of whole logs.

Rules:

* A log's state belongs to the event loop. Work in threads gets immutable views or a ColdRead.
* Visible means durable: reads end at the high watermark, which moves only when a commit completes.
* Offsets are assigned on append and never taken back.
* Batches are read from the tail cache, then the journal, then the archive.
"""
