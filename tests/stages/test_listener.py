"""What a listener tells of itself."""

from stages.listener import Listener, open_listener


def test_a_listener_knows_its_address_also_when_its_socket_is_closed():
    """A change that is applied while the server ends still asks for it."""
    listener = open_listener("PLAINTEXT", "127.0.0.1", 0)
    host, port = listener.sock.getsockname()
    listener.sock.close()
    assert (listener.host, listener.port) == (host, port)
    assert (Listener("MEMORY").host, Listener("MEMORY").port) == ("", 0)
