"""From a frame to its handler, and from whatever goes wrong to an answer.

Rules of this room: input that cannot be understood closes the connection, as in Apache Kafka (malformed header, unknown
or unserved API, unsupported version, body that does not decode); text that is not UTF-8 is understood, and logged
once for each connection; a handler that raises is answered with the error in its API's own response; while the journal
cannot be written to, what would have to write is refused, as that of a log directory of Kafka's that is offline.
Nothing here waits.
"""

from __future__ import annotations

import functools
import logging
import struct
from collections.abc import Callable, Generator
from importlib import import_module
from typing import Any, Final

from pipeline_broker.apis.call import Call, Session
from pipeline_broker.apis.loading import Handler, load
from pipeline_broker.apis.refusals import refusal
from pipeline_broker.apis.registry import SERVED, Served
from pipeline_broker.apis.steps import Stepwise, paced
from pipeline_broker.broker.broker import Broker
from pipeline_broker.wire.codec import (
    LARGE_BYTES,
    DecodeError,
    NotUtf8Error,
    ResponseTooLargeError,
    decoder,
    stepwise_decoder,
)
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.header import read_request_header
from pipeline_broker.wire.primitives import ELEMENTS_MAX
from pipeline_broker.wire.registry import ApiKey, message_classes
from pipeline_broker.wire.text import REPLACEMENT
from stages.request import Close, Parked, Request, Result, Send, go_on

__all__ = ["Dispatcher", "refusal_by_api"]

FIXED: Final = struct.Struct(">hhi")
"""API key, version and correlation id, with which every request begins."""
PRODUCE: Final = int(ApiKey.PRODUCE)
LEASE_RUN_OUT: Final = Close("the lease of the journal has run out, so another broker may have taken over")

logger = logging.getLogger(__name__)


class Dispatcher:
    """The application of a broker's socket server; see `stages.request_handler.Application`.

    Args:
        broker: what it serves.
        loads_in_threads: what the first request of an API needs is loaded in a thread, for which the request waits;
            else at once.
    """

    def __init__(self, broker: Broker, *, loads_in_threads: bool = False) -> None:
        self._broker = broker
        self._loads_in_threads = loads_in_threads
        self._quotas = broker.quotas
        self._room = broker.logs.journal.room
        self._is_owner = broker.logs.journal.is_owned
        self._clock_ms = broker.ports.clock_ms
        self._handlers: dict[tuple[int, int], Handler] = {}

    def handle(self, request: Request) -> Result:
        frame = request.frame
        connection = request.connection
        session: Session | None = connection.session
        now_ms = self._clock_ms()
        if session is None:
            session = connection.session = Session(host=connection.peer, listener=connection.listener)
        elif (
            session.produce_templates is not None
            and type(frame) is bytes
            and len(frame) > FIXED.size
            and self._room.obstacle is None
        ):
            key, version, correlation_id = FIXED.unpack_from(frame)
            if key == PRODUCE:
                request.api, request.version, request.correlation_id = key, version, correlation_id
                quota = self._quotas.begin(session.principal.name, None) if self._quotas.is_active else None
                short = session.produce_templates.handle(request, frame, version, correlation_id, now_ms, quota)
                if short is not None:
                    return short
        try:
            header, position = read_request_header(frame)
        except DecodeError as error:
            return Close(f"malformed header: {error}")
        key, version, correlation_id = header.api_key, header.api_version, header.correlation_id
        request.api, request.version, request.correlation_id = key, version, correlation_id
        if key != PRODUCE and not self._is_owner():  # what is in memory may be old; of a write, its end tells
            return LEASE_RUN_OUT
        call = Call(self._broker, request, session, key, version, correlation_id, header.client_id, now_ms)
        if header.client_id is not None and REPLACEMENT in header.client_id and not session.is_told_of_text:
            _tell_of_text(call)
        handler = self._handlers.get((key, version))
        if handler is None:
            return self._handle_first(call, key, version, position)
        return self._handle_body(call, handler, frame, position)

    def _handle_first(self, call: Call, key: int, version: int, position: int) -> Result:
        """Handle the first request of an API in a version, where it is served; `position` is that of its body."""
        served = SERVED.get(key)
        if served is None or version not in served.versions:
            return self._refuse(call, key, version)
        if self._loads_in_threads:
            return go_on(self._load_and_handle(call, served, position))
        return self._handle_loaded(call, served, load(served, version), position)

    def _load_and_handle(self, call: Call, served: Served, position: int) -> Stepwise[Result]:
        loaded = yield Parked(functools.partial(load, served, call.version))
        if served.key != PRODUCE and not self._is_owner():  # as in `handle`
            return LEASE_RUN_OUT
        return self._handle_loaded(call, served, loaded, position)

    def _handle_loaded(self, call: Call, served: Served, loaded: Handler | Close, position: int) -> Result:
        if isinstance(loaded, Close):
            return loaded
        if served.writes:
            loaded = loaded._replace(handle=self._while_writable(loaded.handle, served.refused_with))
        self._handlers[served.key, call.version] = loaded
        return self._handle_body(call, loaded, call.request.frame, position)

    def _handle_body(self, call: Call, handler: Handler, frame: Any, position: int) -> Result:
        """Read the body and handle the request; large ones in steps."""
        if self._quotas.is_active:
            call.quota = self._quotas.begin(call.session.principal.name, call.client_id)
        if len(frame) > LARGE_BYTES:
            return self._begin(call, self._handle_large(call, handler, frame, position))
        try:
            try:
                message, _ = handler.decode(frame, position)
            except NotUtf8Error:
                _tell_of_text(call)
                message, _ = decoder(handler.message, call.version)(frame, position)
        except DecodeError as error:
            return Close(f"malformed request: {error}")
        result = handler.handle(call, message)
        if isinstance(result, Generator):
            return self._begin(call, self._finish(call, message, result))
        if call.quota is not None:
            call.quota.handled()
        return result

    @staticmethod
    def _begin(call: Call, steps: Stepwise[Result]) -> Result:
        return go_on(paced(steps, call))

    def _handle_large(self, call: Call, handler: Handler, frame: Any, position: int) -> Stepwise[Result]:
        """Read a large request in steps, then handle it; what is decided at once has a turn of its own."""
        message_class, version = handler.message, call.version
        try:
            try:
                message, _, left = yield from stepwise_decoder(message_class, version, utf8_only=True)(frame, position)
            except NotUtf8Error:
                _tell_of_text(call)
                message, _, left = yield from stepwise_decoder(message_class, version)(frame, position)
        except DecodeError as error:
            return Close(f"malformed request: {error}")
        if ELEMENTS_MAX - left > handler.elements_max:
            return (yield from self._answer_in_steps(ErrorCode.POLICY_VIOLATION, call, message, is_handled=False))
        if handler.elements_max < ELEMENTS_MAX:
            yield None
        return (yield from self._finish(call, message, handler.handle(call, message)))

    def _finish(self, call: Call, message: Any, result: Result | Stepwise[Result]) -> Stepwise[Result]:
        """Run a handler that works in steps; answer a request that costs too much with the API's own error.

        An answer that waits for no commit is from memory, also the refusal of a write, for a sequence number, say. So
        the lease counts at the end, in however many steps that comes; not for what is refused until the store answers.
        """
        answer: Result
        if isinstance(result, Generator):
            try:
                answer = yield from result
            except ResponseTooLargeError:
                answer = yield from self._answer_in_steps(ErrorCode.POLICY_VIOLATION, call, message, is_handled=True)
        else:
            answer = result
        if call.quota is not None:
            call.quota.handled()
        if (
            type(answer) is Send
            and not self._is_owner()
            and (call.request.api != PRODUCE or self._room.obstacle is None)
        ):
            return LEASE_RUN_OUT
        return answer

    def _while_writable(
        self, handle: Callable[[Call, Any], Result | Stepwise[Result]], refused_with: ErrorCode
    ) -> Callable[[Call, Any], Result | Stepwise[Result]]:
        def handle_or_refuse(call: Call, message: Any) -> Result | Stepwise[Result]:
            if self._room.obstacle is not None:
                return self._answer_with(refused_with, call, message)
            return handle(call, message)

        return handle_or_refuse

    @staticmethod
    def _refuse(call: Call, key: int, version: int) -> Result:
        if key != ApiKey.API_VERSIONS:
            return Close(f"API {key} version {version} is not served")
        from pipeline_broker.apis.cluster import api_versions  # noqa: PLC0415 - as every handler, on first use

        return api_versions.unsupported_version(call)

    def failed(self, request: Request, error: Exception) -> Result:
        """Answer with the error in the API's own response, or close where no response is possible."""
        logger.error("request of API %d version %d failed", request.api, request.version, exc_info=error)
        if request.api not in SERVED:
            return Close(f"handler failed: {error!r}")
        return go_on(self._answer_failed(request, error))

    def _answer_failed(self, request: Request, error: Exception) -> Stepwise[Result]:
        try:
            call, message = yield from self._read(request)
            answer = yield from self._answer_in_steps(ErrorCode.UNKNOWN_SERVER_ERROR, call, message, is_handled=False)
        except Exception as problem:  # noqa: BLE001 - to fail again and again would never end
            return Close(f"handler failed: {error!r}, then {problem!r}")
        return answer

    def read(self, request: Request) -> tuple[Call, Any]:
        """A request whose API and version are served, decoded once more.

        Raises:
            DecodeError: it cannot be understood.
        """
        steps = self._read(request)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: tuple[Call, Any] = end.value
                return found

    def _read(self, request: Request) -> Stepwise[tuple[Call, Any]]:
        header, position = read_request_header(request.frame)
        message_class, _ = message_classes(header.api_key)
        message, *_ = yield from stepwise_decoder(message_class, header.api_version)(request.frame, position)
        connection = request.connection
        if connection.session is None:
            connection.session = Session(host=connection.peer, listener=connection.listener)
        call = Call(
            self._broker,
            request,
            connection.session,
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
            self._clock_ms(),
        )
        return call, message

    def refuse(self, request: Request, code: ErrorCode, *, is_handled: bool = False) -> Send | Close:
        """Answer with an error a request that is served, in its API's own response.

        Args:
            request: its API, version and correlation id are set.
            is_handled: it was handled, and only its answer is another one.
        """
        call, message = self.read(request)
        return self._answer_with(code, call, message, is_handled=is_handled)

    def drop(self, request: Request) -> None:
        """A request that is served is not handled, and not answered either: see `produce.refuse_batches`."""
        if request.api == PRODUCE:
            call, message = self.read(request)
            import_module(f"pipeline_broker.apis.{SERVED[PRODUCE].module}").refuse_batches(message, call)

    def _answer_with(self, code: ErrorCode, call: Call, message: Any, *, is_handled: bool = False) -> Send | Close:
        """The error in the API's own response, or a closed connection where no response is possible."""
        response = refusal_by_api(code, call, message, is_handled=is_handled)
        return Close(f"{code.name}, and no response was asked for") if response is None else call.send(response)

    def _answer_in_steps(
        self, code: ErrorCode, call: Call, message: Any, *, is_handled: bool
    ) -> Stepwise[Send | Close]:
        """`_answer_with` for a request that may be large."""
        response = refusal_by_api(code, call, message, is_handled=is_handled)
        if response is None:
            return Close(f"{code.name}, and no response was asked for")
        return (yield from call.send_in_steps(response))

    def connection_closed(self, session: object) -> None:
        assert isinstance(session, Session)
        self._broker.fetches.connection_closed(session)
        self._broker.share.connection_closed(session)
        if session.produce_templates is not None:
            session.produce_templates.forget()


def _tell_of_text(call: Call) -> None:
    """Log that a client sends text that is not UTF-8, once for each connection."""
    if call.session.is_told_of_text:
        return
    call.session.is_told_of_text = True
    logger.warning(
        "%s (client id %r) sends text that is not UTF-8, first in a request of API %d: malformed bytes are read as "
        "U+FFFD. Correct the encoding of names in the client.",
        call.session.host,
        call.client_id,
        call.request.api,
    )


def refusal_by_api(code: ErrorCode, call: Call, message: Any, *, is_handled: bool = False) -> Any:
    """The response that carries an error in its API's own way; None where the client wants no response.

    Args:
        call: its request knows its API.
        message: the request, decoded.
        is_handled: it was handled, and only its answer is another one.
    """
    api = call.request.api
    module = import_module(f"pipeline_broker.apis.{SERVED[api].module}")
    if api == PRODUCE and not is_handled:
        module.refuse_batches(message, call)
    error_response = getattr(module, "error_response", None)
    return refusal(api, code) if error_response is None else error_response(message, call, code)
