"""The sends and receives of a plaintext socket."""

import socket
import struct
from contextlib import suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from stages import transport_layer
from stages.transport_layer import JOIN_BYTES_MAX, BrokenTransportError, PlaintextTransportLayer
from tests.compiled import skip_if_compiled
from tests.waiting import wait_readable


def test_large_parts_are_sent_one_by_one_without_sendmsg(monkeypatch):
    """This avoids a copy. An empty part would send nothing, which looks like a blocked socket."""
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


@pytest.mark.parametrize("wait", [PlaintextTransportLayer.wait_readable, PlaintextTransportLayer.wait_writable])
def test_closing_the_transport_raises_in_waiting_tasks(wait):
    async def waiting(layer):
        with pytest.raises(trio.ClosedResourceError):
            await wait(layer)

    async def main():
        ours, theirs = socket.socketpair()
        with theirs, trio.fail_after(10):
            layer = PlaintextTransportLayer(ours)
            with suppress(BlockingIOError):
                while True:
                    layer.send((bytes(JOIN_BYTES_MAX),))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(waiting, layer)
                await wait_all_tasks_blocked()
                layer.close()

    trio.run(main)


def receive_into(layer):
    room = bytearray(10)
    return bytes(room[: layer.receive_into(memoryview(room))])


@pytest.mark.parametrize("receive", [PlaintextTransportLayer.receive, receive_into])
def test_available_bytes_are_received_before_the_end(receive):
    ours, theirs = socket.socketpair()
    with ours:
        layer = PlaintextTransportLayer(ours)
        with pytest.raises(BlockingIOError):
            receive(layer)
        theirs.sendall(b"bytes")
        assert receive(layer) == b"bytes"
        theirs.close()
        assert receive(layer) == b""


@pytest.mark.parametrize("receive", [PlaintextTransportLayer.receive, receive_into])
def test_a_peer_that_resets_breaks_the_transport(receive):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = socket.create_connection(listening.getsockname())
        ours, _ = listening.accept()
        with ours:
            layer = PlaintextTransportLayer(ours)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            theirs.close()
            assert wait_readable(ours.fileno(), 10)
            with pytest.raises(BrokenTransportError):
                receive(layer)
