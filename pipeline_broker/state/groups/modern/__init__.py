"""The common parts of consumer groups (KIP-848) and streams groups (KIP-1071): the broker assigns, members reconcile.

* Updates are frozen values, one for each record. `ModernGroup.apply` is the only method that changes a group. It does
  so in the same way for a decision, a durable record and a replayed one.
* A request is checked completely before the first update is emitted.

Counterpart in Kafka: the package `group.modern`.
"""
