"""A `JournalPort` over an object store: each commit is one object in the next slot of a fenced log.

Rules:

* A commit is acknowledged once its object and those of all commits before it are stored.
* Ownership is decided in `objects/fenced_log`. When another broker has taken over, the journal fails permanently.
* The package starts no threads. `write` reserves a slot, and `sync` stores the object in the caller's thread.
* Commits under way wait for an unavailable store without limit. After about two seconds new writes are refused.
"""
