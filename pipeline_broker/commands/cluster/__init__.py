"""Commands that work with any Kafka cluster, through the package `client`.

Modules that are named after a command have its options and output. Options have the names that Kafka's own tools use.
"""
