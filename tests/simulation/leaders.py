"""The leaders of partitions, as brokers act and as clients learn of them.

Checks: At most one broker appends to a partition at each epoch. Clients learn of no other leader, and of no falling
epoch.

Rules of this file: it does no I/O.
"""

NO_BROKER = -1


class Leaders:
    def __init__(self):
        self._known = {}  # (topic, partition, epoch) -> node
        self._epochs = {}  # (topic, partition) -> the latest that a client was told

    def appends(self, node, topic, partition, epoch):
        """A broker writes to a partition; what is wrong with that, as texts."""
        yield from self._check(f"broker {node} appends to", node, topic, partition, epoch)

    def told(self, node, topic, partition, epoch):
        """A client learns of a leader, likewise."""
        if epoch < self._epochs.get((topic, partition), 0):
            yield f"leader: the epoch of {topic}-{partition} became {epoch}, and was {self._epochs[topic, partition]}"
        self._epochs[topic, partition] = max(epoch, self._epochs.get((topic, partition), 0))
        if node != NO_BROKER:
            yield from self._check(f"a client is sent to broker {node} for", node, topic, partition, epoch)

    def _check(self, what, node, topic, partition, epoch):
        known = self._known.setdefault((topic, partition, epoch), node)
        if known != node:
            yield f"leader: {what} {topic}-{partition}, which broker {known} leads at epoch {epoch}"
