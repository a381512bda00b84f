"""Consumer groups (KIP-848): server-side assignment, driven by ConsumerGroupHeartbeat.

* All values in records are frozen. `ConsumerGroup.apply` is the only method that changes a group. It does so in the
  same way for a decision, a durable record and a replayed one.
* A request is checked completely before the first update is emitted.
* Error codes, their order and error messages are Kafka's.
"""
