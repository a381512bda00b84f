"""The load generator: a native Kafka client with closed loops, open loops and the replay of recorded events.

Rules of the package:

* A request costs the client as little as possible, so that the client does not limit the measurement. Requests are
  built before a run. While it runs, only the fields that differ are patched into them.
* Only `client`, `conversation`, `processes`, `recorded`, `replay`, `timer` and `worker` wait during a run or read the
  monotonic clock. All other modules receive its time in ns as arguments.
* Latency in an open loop counts from the intended time of a request. So a stall is charged to all requests that were
  scheduled during it (no coordinated omission).
* Correlation ids of a connection count from 0 in the order of sending.
* Each run has a time limit. A dead broker causes a ClientError, never a hang.
"""
