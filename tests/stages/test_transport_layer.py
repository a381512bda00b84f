"""The sends and receives of a plaintext socket."""

import socket
import struct
from contextlib import suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from stages import transport_layer
from stages.file_range import FileRange
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


class Scripted:
    """The source of a range that answers each `send_to` with a number or an error."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def send_to(self, descriptor, position, size_bytes):
        self.asked.append((descriptor, position, size_bytes))
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer


def test_a_range_is_sent_by_its_source():
    ours, theirs = socket.socketpair()
    with theirs:
        layer, source = PlaintextTransportLayer(ours), Scripted(5, 0, BlockingIOError(), BrokenPipeError(32, "gone"))
        part = FileRange(source, 3, 10)
        assert layer.send_range(part) == 5
        assert layer.send_range(part.after(5)) == 0
        with pytest.raises(BlockingIOError):
            layer.send_range(part)
        with pytest.raises(BrokenTransportError, match="gone"):
            layer.send_range(part)
        assert source.asked[:2] == [(ours.fileno(), 3, 10), (ours.fileno(), 8, 5)]
        ours.close()


def test_bytes_that_continue_are_held_back_until_the_last_ones():
    ours = socket.create_server(("127.0.0.1", 0))
    with ours, socket.create_connection(ours.getsockname()) as client:
        accepted, _ = ours.accept()
        with accepted:
            layer = PlaintextTransportLayer(accepted)
            assert layer.send((b"head",), is_continued=True) == 4
            assert layer.send((b"tail",)) == 4
            client.settimeout(10)
            assert client.recv(100) == b"headtail"
