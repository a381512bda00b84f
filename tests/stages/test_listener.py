"""The address of a listener, and the options of its sockets."""

import socket
import sys

import pytest

from stages.acceptor import SocketSource
from stages.listener import Listener, open_listener


def test_a_listener_knows_its_address_after_its_socket_is_closed():
    """A change of settings that is applied during shutdown still needs it."""
    listener = open_listener("PLAINTEXT", "127.0.0.1", 0)
    host, port = listener.sock.getsockname()
    listener.sock.close()
    assert (listener.host, listener.port) == (host, port)
    assert (Listener("MEMORY").host, Listener("MEMORY").port) == ("", 0)


def test_sockets_have_the_requested_options_and_buffers():
    """TCP_NODELAY sends a response at once, SO_KEEPALIVE detects dead clients, SO_REUSEADDR frees the port after a
    restart.
    """
    listener = open_listener("PLAINTEXT", "127.0.0.1", 0, send_buffer_bytes=20_000, receive_buffer_bytes=30_000)
    with listener.sock, socket.create_connection((listener.host, listener.port)) as client:
        accepted = SocketSource(listener.sock).accept()
        _, name = accepted.configure(listener.send_buffer_bytes)
        of_connection = accepted._sock.getsockopt
        assert of_connection(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert of_connection(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert listener.sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        buffers = [of_connection(socket.SOL_SOCKET, buffer) for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
        assert buffers == [2 * 20_000, 2 * 30_000]  # Linux doubles them for its own overhead
        assert not listener.sock.getblocking()
        assert name == "{}:{}-{}:{}".format(*listener.sock.getsockname(), *client.getsockname())
        accepted.close()


def test_all_interfaces_are_those_of_both_protocols_where_the_system_can_listen_to_both(monkeypatch):
    with open_listener("ALL", "", 0).sock as sock:
        assert sock.family is socket.AF_INET6
        assert not sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with open_listener("ALL", "", 0).sock as sock:
        assert sock.family is socket.AF_INET


def test_a_listener_without_a_backlog_has_that_of_the_system():
    """A burst of connects fits; Kafka's backlog of 50 would drop some, whose clients try again a second later."""
    clients = [socket.socket() for _ in range(200)]
    listener = open_listener("PLAINTEXT", "127.0.0.1", 0)
    for client in clients:
        client.settimeout(0.9)
        client.connect((listener.host, listener.port))
    assert SocketSource(listener.sock).overflows == 0
    for one in (*clients, listener.sock):
        one.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts them")
def test_attempts_to_connect_beyond_the_backlog_are_counted():
    listener = open_listener("PLAINTEXT", "127.0.0.1", 0, backlog=2)
    source = SocketSource(listener.sock)
    clients = [socket.socket() for _ in range(10)]
    for client in clients:
        client.setblocking(False)
        client.connect_ex((listener.host, listener.port))
    overflows = source.overflows
    assert overflows >= len(clients) - 3  # a backlog of 2 holds three
    listener.sock.close()
    assert source.overflows >= overflows  # it remains after the end
    for client in clients:
        client.close()
