"""The sink for Spark: `df.write.format("pipeline-broker")` and `df.writeStream` write to topics of any Kafka cluster.

Executors write with this project's client. A stream with `transactional.id` is exactly once; `commit_plan` describes
the protocol. Readers of the data source import nothing of this package.
"""
