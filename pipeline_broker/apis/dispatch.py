"""The dispatcher: decodes request frames, calls the handler of their API, and turns failures into responses.

Input that cannot be decoded closes the connection, as in Apache Kafka. This covers malformed headers and bodies, and
APIs and versions that are not served. Only ApiVersions answers unsupported versions. Text that is not UTF-8 is
accepted, and logged once for each connection.

An exception in a handler becomes an UNKNOWN_SERVER_ERROR in the API's own response. While the journal cannot be
written, requests that would write are refused, as in Kafka with an offline log directory. After the lease of the
journal has run out, connections are closed.

Counterpart in Kafka: `KafkaApis`, `ElasticKafkaApis`, `ControllerApis`; the broker is its own controller.
"""

from __future__ import annotations

import functools
import logging
import struct
from collections.abc import Callable, Generator
from typing import Any, Final

from pipeline_broker.apis.call import Call, Session
from pipeline_broker.apis.loading import Handler, load, response_with_error
from pipeline_broker.apis.registry import SERVED, Place, Served
from pipeline_broker.apis.steps import Stepwise, paced
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import Broker
from pipeline_broker.wire.codec import (
    LARGE_BYTES,
    DecodeError,
    NotUtf8Error,
    ResponseTooLargeError,
    decoder,
    stepwise_decoder,
)
from pipeline_broker.wire.header import read_request_header
from pipeline_broker.wire.primitives import ELEMENTS_MAX
from pipeline_broker.wire.registry import ApiKey, message_classes
from pipeline_broker.wire.text import REPLACEMENT
from stages.request import PARKED, Close, Parked, Pending, Request, Result, Send, Waiting, go_on

__all__ = ["Dispatcher", "refusal_by_api"]

# API key, version and correlation id: the first fields of every request.
FIXED: Final = struct.Struct(">hhi")
PRODUCE: Final = int(ApiKey.PRODUCE)
LEASE_RUN_OUT: Final = Close("the lease of the journal has run out, so another broker may have taken over")

logger = logging.getLogger(__name__)


class Dispatcher:
    """The application of a broker's socket server; see `stages.request_handler.Application`.

    Args:
        loads_in_threads: whether the handler of an API is imported in a thread on its first request, which waits.
            Otherwise the import blocks the event loop.
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
            # The fast path does not refuse writes; without this check it would append while the journal cannot be
            # written.
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
        # After the lease ran out, memory may be stale because another broker owns the journal. Produce is exempt here,
        # because its commit fails then; `_finish` checks responses that need no commit.
        if key != PRODUCE and not self._is_owner():
            return LEASE_RUN_OUT
        call = Call(self._broker, request, session, key, version, correlation_id, header.client_id, now_ms)
        if header.client_id is not None and REPLACEMENT in header.client_id and not session.has_warned_of_text:
            _warn_of_text(call)
        handler = self._handlers.get((key, version))
        if handler is None:
            return self._handle_first(call, key, version, position)
        return self._handle_body(call, handler, frame, position)

    def _handle_first(self, call: Call, key: int, version: int, position: int) -> Result:
        served = SERVED.get(key)
        if served is None or version not in served.versions:
            return self._refuse(call, key, version)
        if self._loads_in_threads:
            return go_on(self._load_and_handle(call, served, position))
        return self._handle_loaded(call, served, load(served, version), position)

    def _load_and_handle(self, call: Call, served: Served, position: int) -> Stepwise[Result]:
        loaded = yield Parked(functools.partial(load, served, call.version))
        # The lease may have run out while the module was loaded.
        if served.key != PRODUCE and not self._is_owner():
            return LEASE_RUN_OUT
        return self._handle_loaded(call, served, loaded, position)

    def _handle_loaded(self, call: Call, served: Served, loaded: Handler | Close, position: int) -> Result:
        # Only loaded handlers are kept, so that a failed import is tried again.
        if isinstance(loaded, Close):
            return loaded
        if served.writes:
            loaded = loaded._replace(handle=self._while_writable(loaded.handle, served.refused_with))
        in_cluster = self._in_cluster(served, loaded.handle)
        if in_cluster is not None:
            loaded = loaded._replace(handle=in_cluster)
        if served.feature is not None:
            loaded = loaded._replace(handle=self._while_enabled(loaded.handle, served.feature))
        self._handlers[served.key, call.version] = loaded
        return self._handle_body(call, loaded, call.request.frame, position)

    def _handle_body(self, call: Call, handler: Handler, frame: Any, position: int) -> Result:
        if self._quotas.is_active:
            call.quota = self._quotas.begin(call.session.principal.name, call.client_id)
        if len(frame) > LARGE_BYTES:
            return self._begin(call, self._handle_large(call, handler, frame, position))
        try:
            try:
                message, _ = handler.decode(frame, position)
            except NotUtf8Error:
                _warn_of_text(call)
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
        message_class, version = handler.message, call.version
        try:
            try:
                message, _, left = yield from stepwise_decoder(message_class, version, utf8_only=True)(frame, position)
            except NotUtf8Error:
                _warn_of_text(call)
                message, _, left = yield from stepwise_decoder(message_class, version)(frame, position)
        except DecodeError as error:
            return Close(f"malformed request: {error}")
        if ELEMENTS_MAX - left > handler.elements_max:
            return (yield from self._answer_in_steps(ErrorCode.POLICY_VIOLATION, call, message, is_handled=False))
        # The handler decides about all elements in one turn, so it gets a turn that decoding has not used up.
        if handler.elements_max < ELEMENTS_MAX:
            yield None
        return (yield from self._finish(call, message, handler.handle(call, message)))

    def _finish(self, call: Call, message: Any, result: Result | Stepwise[Result]) -> Stepwise[Result]:
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
        # A response that waits for no commit comes from memory, even a refused write (a sequence number, for example).
        # So the lease is checked again after the last step. While the store does not answer, produce refusals are sent
        # without this check.
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

    def _while_enabled(
        self, handle: Callable[[Call, Any], Result | Stepwise[Result]], feature: str
    ) -> Callable[[Call, Any], Result | Stepwise[Result]]:
        def handle_or_refuse(call: Call, message: Any) -> Result | Stepwise[Result]:
            if self._broker.features.level(feature) < 1:
                return self._answer_with(ErrorCode.UNSUPPORTED_VERSION, call, message)
            return handle(call, message)

        return handle_or_refuse

    def _in_cluster(
        self, served: Served, handle: Callable[[Call, Any], Result | Stepwise[Result]]
    ) -> Callable[[Call, Any], Result | Stepwise[Result]] | None:
        controller = self._broker.controller
        if served.place is Place.ALONE and self._broker.members is not None:
            return lambda call, message: self._answer_with(ErrorCode.COORDINATOR_NOT_AVAILABLE, call, message)
        if served.place is not Place.CONTROLLER or self._broker.members is None:
            return None
        if controller is not None:
            from pipeline_broker.apis.configs.local_resources import (  # noqa: PLC0415 - only in a cluster
                is_of_this_broker,
            )

            return lambda call, message: (
                handle(call, message) if is_of_this_broker(message) else controller.forward(call.request)
            )
        return lambda call, message: self._when_applied(call, handle(call, message))

    def _when_applied(self, call: Call, result: Result | Stepwise[Result]) -> Stepwise[Result]:
        """Answer once all members of the cluster have applied a change, so that any of them shows it."""
        cluster = self._broker.ports.cluster
        assert cluster is not None, "the broker is the controller of a cluster"
        answer = (yield from result) if isinstance(result, Generator) else result
        if not isinstance(answer, Pending):
            yield Waiting(cluster.when_applied)
            return answer
        last, on_durable = answer.result, answer.on_durable

        def durable() -> None:
            if on_durable is not None:
                on_durable()
            cluster.when_applied(lambda: call.request.complete(last))

        # Parked, because each further step would block the event loop for LOCK_RELEASE_SECONDS.
        self._broker.ports.submit(answer.entries, durable)
        return PARKED

    @staticmethod
    def _refuse(call: Call, key: int, version: int) -> Result:
        if key != ApiKey.API_VERSIONS:
            return Close(f"API {key} version {version} is not served")
        from pipeline_broker.apis.cluster import api_versions  # noqa: PLC0415 - handlers load on first use

        return api_versions.unsupported_version(call)

    def failed(self, request: Request, error: Exception) -> Result:
        """Log the exception of a handler, and return the result that reports it as UNKNOWN_SERVER_ERROR.

        The result closes the connection if the API is not served, or if the client can get no response.
        """
        served = SERVED.get(request.api)
        name = f"API key {request.api}" if served is None else served.name
        logger.error("a request of %s version %d failed", name, request.version, exc_info=error)
        if served is None:
            return Close(f"handler failed: {error!r}")
        return go_on(self._answer_failed(request, error))

    def _answer_failed(self, request: Request, error: Exception) -> Stepwise[Result]:
        try:
            call, message = yield from self._read(request)
            answer = yield from self._answer_in_steps(ErrorCode.UNKNOWN_SERVER_ERROR, call, message, is_handled=False)
        except Exception as problem:  # noqa: BLE001 - a second failure must not call `failed` again
            return Close(f"handler failed: {error!r}; its error response failed: {problem!r}")
        return answer

    def read(self, request: Request) -> tuple[Call, Any]:
        """Decode a request again, and return its call and message. The API and version must be served.

        Raises:
            DecodeError: the request is malformed.
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
        """Return an error in the API's own response, for a served API, or `Close` if the client requested no response.

        A Produce request that is not handled leaves a gap in the sequences of its producers; see
        `produce.refuse_batches`.

        Args:
            request: with its API, version and correlation id set.
            is_handled: whether the request was handled, so that only its response is replaced.

        Raises:
            DecodeError: the request is malformed.
        """
        call, message = self.read(request)
        return self._answer_with(code, call, message, is_handled=is_handled)

    def drop(self, request: Request) -> None:
        """Discard a request of a served API without handling or answering it.

        The batches of a Produce request leave a gap in the sequences of their producers; see `produce.refuse_batches`.

        Raises:
            DecodeError: a Produce request is malformed.
        """
        if request.api == PRODUCE:
            call, message = self.read(request)
            _refuse_batches(call, message)

    def _answer_with(self, code: ErrorCode, call: Call, message: Any, *, is_handled: bool = False) -> Send | Close:
        response = refusal_by_api(code, call, message, is_handled=is_handled)
        return _without_response(code) if response is None else call.send(response)

    def _answer_in_steps(
        self, code: ErrorCode, call: Call, message: Any, *, is_handled: bool
    ) -> Stepwise[Send | Close]:
        response = refusal_by_api(code, call, message, is_handled=is_handled)
        if response is None:
            return _without_response(code)
        return (yield from call.send_in_steps(response))

    def connection_closed(self, session: object) -> None:
        assert isinstance(session, Session)
        self._broker.fetches.connection_closed(session)
        self._broker.share.connection_closed(session)
        if self._broker.ports.cluster is not None:
            self._broker.ports.cluster.connection_closed(session)
        if session.produce_templates is not None:
            session.produce_templates.forget()


def _without_response(code: ErrorCode) -> Close:
    return Close(f"the request failed with {code.name}, and the client requested no response")


def _warn_of_text(call: Call) -> None:
    if call.session.has_warned_of_text:
        return
    call.session.has_warned_of_text = True
    logger.warning(
        "%s (client id %r) sent text that is not UTF-8 in a request of %s. The broker reads malformed bytes as "
        "U+FFFD. Correct the encoding of names in the client.",
        call.session.host,
        call.client_id,
        SERVED[call.request.api].name,
    )


def refusal_by_api(code: ErrorCode, call: Call, message: Any, *, is_handled: bool = False) -> Any:
    """Build the response that carries an error in the API's own form; None if the client requested no response.

    A Produce request that is not handled leaves a gap in the sequences of its producers; see `produce.refuse_batches`.

    Args:
        message: the decoded request.
        is_handled: whether the request was handled, so that only its response is replaced.
    """
    api = call.request.api
    # Batches that are not appended leave a gap in the sequences of their producers, which later batches must not fill.
    if api == PRODUCE and not is_handled:
        _refuse_batches(call, message)
    return response_with_error(SERVED[api], message, call, code)


def _refuse_batches(call: Call, message: Any) -> None:
    from pipeline_broker.apis.data import produce  # noqa: PLC0415 - handlers load on first use

    produce.refuse_batches(message, call)
