"""Stage percentiles of a running broker, from the topic in which it publishes its request timelines.

Rules of this package:
* It knows the records of that topic (docs/reference/trace-format.md), not the broker. Any source may deliver them, even
  files.
* The figures of a window equal those that the queries on trace files give for the same requests, to the last digit.
* Each record counts once, even if the job is killed and started again.
"""
