"""Object stores, and logs kept in them: conditional writes, fenced logs, slots, leases.

A store holds named objects in a bucket, a directory or memory (`store.ObjectStore`). A fenced log is a sequence of slot
objects that one owner at a time writes (`fenced_log`). A lease shows other brokers that the owner is alive (`lease`).

Rules of this package:

* It knows nothing about Kafka or Trio. Every method of a store blocks until the store has answered, so callers use
  threads. Any number of threads may call at the same time.
* Ownership of a log follows from one guarantee: of all `create` requests for a name, one succeeds. Clocks, leases and
  timeouts only decide when a takeover is tried.
* Code that writes slots, fences, boundaries or leases uses a settled store (`settled_store`), so the result of a write
  is always known. Values decide (`fenced_log`, `lease`), other modules do the I/O.
* Nothing here is imported by a broker without `--store`.
"""
