"""Loading of an API's handler and codecs on its first request.

This takes up to 50 ms of Python, so a broker does it in a thread and keeps its event loop running.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from pipeline_broker.apis.refusals import refusal
from pipeline_broker.wire.codec import decoder, encoder
from pipeline_broker.wire.registry import message_classes
from stages.request import Close, Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.apis.registry import Served
    from pipeline_broker.apis.steps import Stepwise
    from pipeline_broker.base.error_code import ErrorCode

__all__ = ["Handler", "HandlerModule", "handler_module", "load", "response_with_error"]

logger = logging.getLogger(__name__)


class Handler(NamedTuple):
    message: type[Any]
    decode: Callable[[Any, int], tuple[Any, int]]
    handle: Callable[[Call, Any], Result | Stepwise[Result]]
    elements_max: int


class HandlerModule(Protocol):
    """The module of an API.

    It may have an `error_response(request, call, code)` that returns the response to a refused request, or None if the
    client requested no response. Without it the response carries only the error; see `refusals`.
    """

    def handle(self, call: Call, request: Any, /) -> Result | Stepwise[Result]: ...


def handler_module(served: Served) -> HandlerModule:
    return cast("HandlerModule", import_module(f"pipeline_broker.apis.{served.module}"))


def response_with_error(served: Served, request: Any, call: Call, code: ErrorCode) -> Any:
    """Build the response to a refused request; None if the client requested no response."""
    error_response = getattr(handler_module(served), "error_response", None)
    return refusal(served.key, code) if error_response is None else error_response(request, call, code)


def load(served: Served, version: int) -> Handler | Close:
    """Import an API's handler with its dependencies, and build the codecs of one version. Runs in any thread.

    Returns:
        the handler, or `Close` if an import fails. The failure is logged, and the next request tries again.
    """
    try:
        module = handler_module(served)
        for need in served.needs:
            need()
        request, response = message_classes(served.key)
        encoder(response, version)
        return Handler(request, decoder(request, version, utf8_only=True), module.handle, served.elements_max)
    except (ImportError, OSError) as error:
        logger.error("the API %s cannot be loaded, so its connections close: %s", served.name, error)  # noqa: TRY400 - one line
        # An OSError usually means that no file descriptors are left. Closing this connection frees one.
        return Close(f"the API {served.name} cannot be loaded: {error}")
