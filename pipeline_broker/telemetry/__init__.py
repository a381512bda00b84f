"""Measurements of a running broker: metrics, traces, the request log, recent requests, and bounded logging.

Rules of the package:

* The server reports events through `stages.timeline.Timeline`, on the event loop. There an event costs a count or one
  packed row. Histograms, JSON and files are made in batches or in threads.
* Most metrics are read from the state of other packages at a scrape, so they cost nothing before.
* Memory and the number of series are bounded, because clients choose many names. Whatever does not fit is counted.
* A full queue or a failing disk loses lines or rows, which are counted, and never a request.
* Metrics have Kafka's names and formulas where Kafka has the metric.
* Clocks are arguments, and types of other packages are protocols. The package does not import Trio.
"""
