"""Server-side task assignors, named as in Kafka's `group.streams.assignors`.

An assignor is a pure function. Equal input gives an equal assignment, whatever the order of the members.
"""
