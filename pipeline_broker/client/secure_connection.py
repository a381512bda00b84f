"""Connections with TLS and SASL.

TLS works on buffers in memory (`ssl.MemoryBIO`), so sending never waits and uses the same socket code as plaintext.
"""

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import trio

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.client.connection import Connection, connect
from pipeline_broker.client.dialogue import Dialogue, refuse
from pipeline_broker.client.errors import ClientError, ConnectionLost
from pipeline_broker.client.security import ClientSecurity, Conversation
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

DECRYPT_SIZE = 1 << 16
_HANDSHAKE_VERSION = _AUTHENTICATE_VERSION = 1  # since Kafka 2.2


class TlsConnection(Connection):
    """A connection with TLS. Call `shake_hands` before anything else."""

    def __init__(self, raw_socket: socket.socket, context: ssl.SSLContext, host: str) -> None:
        super().__init__(raw_socket)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        # The host serves for SNI and for the verification of the certificate.
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._broken = ""  # the first TLS error; OpenSSL reports it only once

    async def shake_hands(self) -> None:
        """Perform the TLS handshake.

        Raises:
            ConnectionLost: the connection broke.
            ClientError: the handshake failed, or the certificate is not valid for the broker.
        """
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
            self._send_encrypted()  # reading may produce TLS records of its own, such as a key update or an alert
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
        # Bytes before an error or the end are valid; the next call raises.
        if not parts:
            raise ConnectionLost(self._broken or "the broker closed the connection")
        return b"".join(parts)


@contextlib.asynccontextmanager
async def connect_securely(host: str, port: int, security: ClientSecurity) -> AsyncIterator[Connection]:
    """Connect to a broker, authenticate, and close the connection at the end of the block.

    Raises:
        ConnectionLost: the broker cannot be reached, or the connection broke.
        ClientError: TLS fails, or authentication fails.
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
    # Before the exchange starts: otherwise any server could receive a password or its proof.
    refuse(handshake.error_code, f"SASL {security.mechanism}", f"it offers {offered or 'no mechanism'}")
    remedy = (
        "check sasl.username and sasl.password"
        if security.bearer is None
        else "check that the token is valid, and issued for this broker"
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
    # A cancelled caller abandons the thread, which ends soon: requests to identity providers have a timeout.
    return await trio.to_thread.run_sync(next, conversation, abandon_on_cancel=True)
