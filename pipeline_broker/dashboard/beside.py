"""The request path of a second broker, relayed from its dashboard.

The address comes from the command line and never from a browser, which could otherwise send requests through this
broker to any host. Events are relayed unparsed, up to a maximum size.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import attrs
import trio

from pipeline_broker.web.http_server import require_h11
from pipeline_broker.web.messages import event

if TYPE_CHECKING:
    import h11

__all__ = ["BadAddressError", "Beside", "pass_on"]

CONNECT_SECONDS = 3.0
# The other dashboard sends an event per second.
EVENT_SECONDS = 10.0
RETRY_SECONDS = 2.0
RECEIVE_BYTES = 16 * 1024
EVENT_BYTES_MAX = 512 * 1024
END = b"\n\n"
WHAT = "a second dashboard"


class BadAddressError(ValueError):
    pass


@attrs.frozen
class Beside:
    host: str
    port: int
    token: str | None = None

    @classmethod
    def parse(cls, text: str) -> Beside:
        """Parse `HOST:PORT`, or the link that the other broker printed.

        Raises:
            BadAddressError: the text is neither.
        """
        link = text if "://" in text else f"http://{text}"
        try:
            parts = urlsplit(link)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or not port or parts.scheme != "http":
            raise BadAddressError(
                f"{text!r} is not the address of a dashboard: give HOST:PORT, or the link that its broker printed"
            )
        tokens = parse_qs(parts.query).get("token", [None])
        return cls(host, port, tokens[0])

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


async def pass_on(beside: Beside, send: Callable[[bytes], Awaitable[None]]) -> None:
    """Relay the `pipeline` events of the other dashboard until cancelled.

    After a failure, send an `absent` event with the reason and connect again after RETRY_SECONDS.
    """
    while True:
        reason = "its stream ended"
        try:
            async with contextlib.aclosing(_events(beside)) as events:
                async for each in events:
                    await send(each)
        except OSError as error:
            reason = error.strerror or str(error)
        except trio.TooSlowError:
            reason = "it did not answer in time"
        except _RefusedError as error:
            reason = str(error)
        await send(event({"address": beside.authority, "reason": reason}, "absent"))
        await trio.sleep(RETRY_SECONDS)


class _RefusedError(Exception):
    pass


async def _events(beside: Beside) -> AsyncGenerator[bytes, None]:
    """Yield complete events of the other dashboard until its stream ends.

    Raises:
        OSError: the connection cannot be opened.
        trio.TooSlowError: the other dashboard does not answer in time.
        _RefusedError: the answer is not a stream of events, an event is too large, or the connection breaks.
    """
    h11 = require_h11(WHAT)
    with trio.fail_after(CONNECT_SECONDS):
        stream = await trio.open_tcp_stream(beside.host, beside.port)
    async with stream:
        connection = h11.Connection(h11.CLIENT)
        headers = [("Host", beside.authority), ("Accept", "text/event-stream"), ("Connection", "close")]
        if beside.token is not None:
            headers.append(("Authorization", f"Bearer {beside.token}"))
        request = h11.Request(method="GET", target="/events/pipeline", headers=headers)
        try:
            with trio.fail_after(CONNECT_SECONDS):
                await stream.send_all(connection.send(request) + connection.send(h11.EndOfMessage()))
            response = await _next(stream, connection)
            if not isinstance(response, h11.Response) or response.status_code != 200:
                raise _RefusedError(f"it answered {getattr(response, 'status_code', 'nothing')}")
            waiting = b""
            while isinstance(data := await _next(stream, connection), h11.Data):
                *whole, waiting = (waiting + bytes(data.data)).split(END)
                if len(waiting) > EVENT_BYTES_MAX:
                    raise _RefusedError("one of its events is too large")
                for each in whole:
                    yield each + END
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise _RefusedError("its connection broke") from None
        except h11.RemoteProtocolError as error:
            raise _RefusedError(f"its answer is not HTTP: {error}") from None


async def _next(stream: trio.SocketStream, connection: h11.Connection) -> Any:
    h11 = require_h11(WHAT)
    while (found := connection.next_event()) is h11.NEED_DATA:
        with trio.fail_after(EVENT_SECONDS):
            connection.receive_data(bytes(await stream.receive_some(RECEIVE_BYTES)))
    return found
