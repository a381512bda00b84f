"""Share partitions (KIP-932): delivery states of records, acquisition, acknowledgement, share sessions.

Words of this package:

* complete: acknowledged or archived, so that the record is never delivered again.
* returned: available again after a release, an expired lock or the end of a session.
* run: neighbouring records with equal attributes. Span: neighbouring records that were first acquired together.
* window: the offsets in flight. Records before it are complete, records after it were never acquired.

Counterpart in Kafka: `SharePartitionManager`, `SharePartition`.
"""
