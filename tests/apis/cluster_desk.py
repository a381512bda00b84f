"""The controller of a cluster without a network, whose members are only records."""

from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import ListenerAddress, NodeRecord, node_record
from pipeline_broker.state.outcome import Write
from tests.apis.desk import Desk

BROKERS = (1, 2, 3)


class LoneController:
    """The connections of a controller whose members apply its metadata at once."""

    controller_id = 1

    def when_applied(self, go_on):
        go_on()

    def metadata_durable(self): ...

    def connection_closed(self, session): ...


class ClusterDesk(Desk):
    """The controller; all members have joined."""

    cluster = LoneController()

    def __init__(self, *settings, files=None):
        super().__init__(*settings, files=files)
        listeners = {"PLAINTEXT": ListenerAddress("broker.test", 9092)}
        for node_id in BROKERS:
            record = node_record(NodeRecord(node_id, 1, NodeState.JOINED, listeners))
            write = Write("", (record,))
            self.submit(
                [self.broker.append_metadata(write, self.now_ms)], lambda write=write: self.broker.node_durable(write)
            )

    @property
    def image(self):
        return self.broker.members.image
