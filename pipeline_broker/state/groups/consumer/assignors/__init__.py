"""Server-side assignors, named as in Kafka's `group.consumer.assignors`.

An assignor is a pure function. Equal input gives an equal assignment, whatever the order of the members. Racks are
ignored.
"""
