"""What a plain socket is handed at once."""

import socket

from stages import transport_layer
from stages.transport_layer import JOIN_BYTES_MAX, PlaintextTransportLayer
from tests.compiled import skip_if_compiled


def test_large_parts_leave_one_by_one_where_the_system_cannot_take_several(monkeypatch):
    """Not to copy them; one that is empty would leave nothing, which is the same as not being taken."""
    skip_if_compiled("stages.transport_layer", "HAS_SENDMSG")
    monkeypatch.setattr(transport_layer, "HAS_SENDMSG", False)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        layer = PlaintextTransportLayer(ours)
        large = bytes(JOIN_BYTES_MAX)
        assert layer.send((b"first", large)) == 5
        assert theirs.recv(100) == b"first"
        assert layer.send((b"", b"second", large)) > 6
        assert theirs.recv(6) == b"second"
