"""A connection that is encrypted where it is asked for, and whose client has said who it is.

Rules of this file: TLS works on buffers in memory, so that sending never waits and the plaintext connection stays as
it is; what fails in a handshake is one line. Every wait is bounded by the caller.
"""

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import trio

from pipeline_broker.client.connection import Buffer, Connection, connect
from pipeline_broker.client.dialogue import Dialogue, refuse
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.security import ClientSecurity, Conversation
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

DECRYPT_SIZE = 1 << 16
_HANDSHAKE_VERSION = _AUTHENTICATE_VERSION = 1
"""Every broker since Kafka 2.2 has them."""


class TlsConnection(Connection):
    """A connection whose bytes are encrypted."""

    def __init__(self, raw_socket: socket.socket, context: ssl.SSLContext, host: str) -> None:
        super().__init__(raw_socket)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._broken = ""  # by what, once something was no TLS: OpenSSL says it once

    async def shake_hands(self) -> None:
        """Agree on keys, and see whether the broker is whom it should be."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_encrypted()
                self._incoming.write(await super().receive())
            except ssl.SSLError as error:
                reason = getattr(error, "verify_message", None) or error.reason or error
                raise ClientError(f"the TLS handshake with the broker failed: {reason}") from None
            else:
                self._send_encrypted()
                return

    def send_nowait(self, data: Buffer) -> None:
        self._tls.write(data)
        self._send_encrypted()

    def _send_encrypted(self) -> None:
        data = self._outgoing.read()
        if data:
            super().send_nowait(data)

    async def receive(self) -> bytes:
        while True:
            data = self._decrypted()
            self._send_encrypted()  # TLS may have something to say itself
            if data:
                return data
            self._incoming.write(await super().receive())

    def _decrypted(self) -> bytes:
        parts: list[bytes] = []
        try:
            while part := self._tls.read(DECRYPT_SIZE):
                parts.append(part)
        except ssl.SSLWantReadError:
            return b"".join(parts)
        except ssl.SSLError as error:
            if not self._broken and not isinstance(error, ssl.SSLZeroReturnError):
                self._broken = f"TLS with the broker broke: {error.reason or error}"
        if not parts:
            raise ClientError(self._broken or "the broker closed the connection")
        return b"".join(parts)


@contextlib.asynccontextmanager
async def connect_securely(host: str, port: int, security: ClientSecurity) -> AsyncIterator[Connection]:
    """A connection to a broker on which requests may be sent, closed at the end of the block.

    Raises:
        ClientError: the broker cannot be reached, or one of both refuses the other.
    """
    async with connect(host, port) as connection:
        if security.context is not None:
            connection = TlsConnection(connection.raw_socket, security.context, host)
            await connection.shake_hands()
        if security.mechanism is not None:
            await _authenticate(Dialogue(connection), security)
        yield connection


async def _authenticate(dialogue: Dialogue, security: ClientSecurity) -> None:
    assert security.mechanism is not None
    handshake = await dialogue.ask(SaslHandshakeRequest(security.mechanism), SaslHandshakeResponse, _HANDSHAKE_VERSION)
    offered = ", ".join(handshake.mechanisms)
    refuse(handshake.error_code, f"SASL {security.mechanism} (it offers {offered or 'nothing'})")
    remedy = (
        "are sasl.username and sasl.password right?" if security.bearer is None else "is it for this broker, and valid?"
    )
    conversation = security.converse()
    token = await _first_token(conversation, may_block=security.bearer is not None)
    while True:
        request = SaslAuthenticateRequest(token)
        answer = await dialogue.ask(request, SaslAuthenticateResponse, _AUTHENTICATE_VERSION)
        refuse(answer.error_code, f"{security.name} by {security.mechanism}", remedy)
        try:
            token = conversation.send(bytes(answer.auth_bytes))
        except StopIteration:
            return


async def _first_token(conversation: Conversation, *, may_block: bool) -> bytes:
    if not may_block:
        return next(conversation)
    # Whoever is cancelled leaves the thread alone with its answer: it has bounds of its own.
    return await trio.to_thread.run_sync(next, conversation, abandon_on_cancel=True)
