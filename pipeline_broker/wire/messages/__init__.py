"""Declarations of Kafka's requests, responses and coordinator records, with Kafka's field names in snake case."""
