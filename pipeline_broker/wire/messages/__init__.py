"""Declarations of Kafka's requests, responses and coordinator records, with Kafka's field names in snake case.

Counterpart in Kafka: message JSON and its generator; declarations in Python; readers and writers are generated on
first use.
"""
