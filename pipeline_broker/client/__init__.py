"""A client of any Kafka cluster: what the commands of the command line ask, write and read."""
