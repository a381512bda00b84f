"""The write-ahead journal of a data directory, shared by all partitions.

Commits of all partitions are appended to one sequence of segment files, so one sync makes all of them durable. The
module `journal_port` is the interface; `object_journal` implements it over an object store.

Rules:

* One commit is one frame. A frame counts as a whole or not at all, and only together with all frames before it.
* LSNs and positions are assigned in write order, under the write lock. Each commit waits for its own sync.
* A failed sync is never retried: after it, nothing is written or acknowledged until the broker restarts.
* Recovery keeps the longest prefix of intact frames. It cuts the rest durably before anything new is written.
* Damage below a durable LSN is never cut. Recovery refuses it and changes nothing.
* A segment is recycled only after the archive holds its records durably.

Counterpart in AutoMQ: `WriteAheadLog`, `BlockWALService`; one journal for all partitions; with `--flush always` it is
synced before a response.
"""
