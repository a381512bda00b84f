"""The listeners of a simulated broker, one of each kind, and what is checked where clients prove who they are.

Rules of this file: the authenticators are real; only the clock in which proofs expire is another: a second passes with
every look at it, so that clients may begin again at once, as often as they like.
"""

import itertools

from pipeline_broker.apis.call import Session
from pipeline_broker.apis.security.authentication import SaslAuthenticator
from pipeline_broker.security.offer import SaslOffer
from pipeline_broker.security.plain import PlainServer, PlainUsers
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from stages.listener import Listener
from tests.simulation.environment import wall_clock_ms
from tests.simulation.wire_client import Ask

PLAINTEXT, SASL, CONTROL = "PLAINTEXT", "SASL", "CONTROL"
LISTENERS = (PLAINTEXT, SASL, CONTROL)
MECHANISM = "PLAIN"
USER = "user"
TOKEN = b"\0user\0secret"
SECOND_NS = 1_000_000_000
LIFETIME_MS = 10**12


def listeners(complain):
    """What the broker serves; it begins all of them before its first client."""
    users = PlainUsers({USER: "secret"})
    offer = SaslOffer(servers={MECHANISM: lambda: PlainServer(users)}, lifetimes_ms_max={MECHANISM: LIFETIME_MS})
    seconds = itertools.count()

    def open_session(connection, transport):
        session = connection.session = Session(connection.peer, SASL, security_protocol="SASL_PLAINTEXT")
        real = SaslAuthenticator(session, lambda: offer, wall_clock_ms, lambda: next(seconds) * SECOND_NS)
        return WatchedAuthenticator(real, connection, complain)

    return [Listener(PLAINTEXT), Listener(SASL, open_session=open_session), Listener(CONTROL, is_control_plane=True)]


class WatchedAuthenticator:
    """Is asked only when nothing of the connection is in flight, and nothing unsent."""

    def __init__(self, authenticator, connection, complain):
        self.frame_bytes_max = authenticator.frame_bytes_max
        self.begins = authenticator.begins
        self.has_expired = authenticator.has_expired
        self._receive = authenticator.receive
        self._connection = connection
        self._complain = complain

    def receive(self, frame):
        """See Authenticator."""
        connection = self._connection
        if not connection.closed and (connection.order or connection.unsent_bytes):
            self._complain(f"{connection.id} authenticates with {len(connection.order)} requests in flight")
        return self._receive(frame)


def proof(client, complain):
    """The two frames with which a client proves who it is, at first or again."""

    def on_answer(exchange):
        if exchange.answer.error_code:
            complain(f"{client!r}: the proof was answered {exchange.answer}")

    return (
        Ask(SaslHandshakeRequest(mechanism=MECHANISM), 1, on_answer, is_request=False),
        Ask(SaslAuthenticateRequest(auth_bytes=TOKEN), 2, on_answer, is_request=False),
    )
