"""The sink for Spark: `df.write.format("pipeline-broker")` and `df.writeStream` write to topics of any Kafka cluster.

Executors write with the project's own client. With `transactional.id` a stream is exactly once: `commit_plan.py` has
the protocol. Readers of the data source import nothing of this package.
"""
