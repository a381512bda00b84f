"""The commands that ask, write to and read from any Kafka cluster."""
