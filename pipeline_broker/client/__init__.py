"""A client of any Kafka cluster, for the command line, the load generator and the Spark sink.

Rules of the package:

* Every wait has a bound: the cluster's timeout, or that of the caller.
* Every failure is a `ClientError` whose message is one line for a person. `is_retriable` says whether a retry may help.
* A nursery raises a `ClientError` inside an exception group, which `run_client` unwraps.
* Passwords and tokens appear neither in messages nor in a `repr`.
* Formatting, partitioning, batching and decoding are separate modules without I/O.
"""
