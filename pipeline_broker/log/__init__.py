"""The durable log: one journal shared by all partitions, the archive, and the partition logs that index both.

A produce request appends batches to `PartitionLog`s, which assign offsets. The journal writes them and syncs them once
per commit, and only then is the request acknowledged. Complete journal segments are copied to the archive, and their
space is used again.

Rules:

* An acknowledged record is always in the journal or in the archive. Journal space is recycled only after the archive's
  manifest durably names the copy.
* Only durable records are visible: the high watermark moves when a commit completes, never when it is written. With a
  weaker flush policy, a commit counts as durable once the operating system has its bytes.
* The state of partition logs changes on the event loop only. Work that waits for a disk runs in a thread and touches no
  such state.
* The package knows records and batches, and nothing of requests, versions or connections.
* Its parts depend on each other in one direction: partition, compaction, archive, journal, producers, segments.
"""
