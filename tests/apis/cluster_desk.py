"""The brokers of a cluster without a network: a controller, and a member that applies its records."""

from typing import ClassVar

from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import ListenerAddress, NodeRecord, node_record
from pipeline_broker.state.outcome import Write
from tests.apis.desk import Desk

BROKERS = (1, 2, 3)


class LoneController:
    """The connections of a controller whose members apply its metadata at once."""

    controller_id = 1
    replication = None
    listeners: ClassVar = {"PLAINTEXT": ListenerAddress("broker.test", 9092)}

    def when_applied(self, go_on):
        go_on()

    def metadata_durable(self): ...

    def connection_closed(self, session): ...


class ClusterDesk(Desk):
    """The controller; all members have joined."""

    cluster = LoneController()

    def __init__(self, *settings, files=None):
        super().__init__(*settings, files=files)
        for node_id in BROKERS[1:]:
            record = node_record(NodeRecord(node_id, 1, NodeState.JOINED, self.cluster.listeners))
            write = Write("", (record,))
            self.submit(
                [self.broker.append_metadata(write, self.now_ms)], lambda write=write: self.broker.node_durable(write)
            )

    @property
    def image(self):
        return self.broker.members.image

    def records_since(self, offset):
        """Return the records of the metadata from an offset on, and the next offset."""
        log = self.broker.metadata_log
        batches = b"".join(log.read(offset, 1 << 24, at_least_one=True).parts) if offset < log.high_watermark else b""
        found = [record for header, batch in iterate_batches(batches) for record in iterate_records(batch, header)]
        return [(record.key, record.value) for record in found], log.high_watermark


class MemberDesk(Desk):
    """Broker 2, which has joined a cluster with the given records."""

    cluster = LoneController()

    def __init__(self, metadata):
        self.metadata = metadata
        super().__init__("node.id=2")
