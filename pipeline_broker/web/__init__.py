"""A small HTTP server on h11 for the broker's ports: the dashboard, the metrics and the schema registry.

Rules of the package:

* It knows HTTP and nothing of the broker. Handlers decide which requests are allowed, and answer them.
* Clients are untrusted. Every wait, size and number of connections has a bound. The bytes that a connection keeps are
  charged to the budget of the edges (`base/byte_budget.py`).
* Whatever a client sends or a handler raises affects one connection only.
* Answers that take long are built in steps, in the shared turn of `turns`, so that requests of Kafka's protocol are not
  delayed.
* h11 comes with the extra `dashboard` and is imported on first use.
"""
