"""Streams groups (KIP-1071): the coordinator assigns tasks of a Kafka Streams topology to the members of a group.

* Topologies, assignments and assignors are values and pure functions. They know no group, records or requests.
* Error codes, their order and error messages are Kafka's.
"""
