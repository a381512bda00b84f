"""Stage percentiles of a broker that runs, from the topic to which it publishes the timelines of its requests.

Rules of this room: it knows the records of that topic (docs/trace-format.md) and no broker: any reader of Kafka's
protocol may bring them, files too. A window's figures are those that the jobs on trace files give for the same
requests, to the last digit. What is read is counted once, whatever is killed and started again.
"""
