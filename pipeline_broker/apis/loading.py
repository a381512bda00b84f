"""Loading of an API's handler and codecs on its first request.

This takes up to 50 ms of Python, so a broker does it in a thread and keeps its event loop running.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline_broker.wire.codec import decoder, encoder
from pipeline_broker.wire.registry import message_classes
from stages.request import Close, Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.apis.registry import Served
    from pipeline_broker.apis.steps import Stepwise

__all__ = ["Handler", "load"]

logger = logging.getLogger(__name__)


class Handler(NamedTuple):
    message: type[Any]
    decode: Callable[[Any, int], tuple[Any, int]]
    handle: Callable[[Call, Any], Result | Stepwise[Result]]
    elements_max: int


def load(served: Served, version: int) -> Handler | Close:
    """Import an API's handler with its dependencies, and build the codecs of one version. Runs in any thread.

    Returns:
        the handler, or `Close` if an import fails. The failure is logged, and the next request tries again.
    """
    try:
        module = import_module(f"pipeline_broker.apis.{served.module}")
        for name in served.needs:
            import_module(f"pipeline_broker.{name}")
        request, response = message_classes(served.key)
        encoder(response, version)
        return Handler(request, decoder(request, version, utf8_only=True), module.handle, served.elements_max)
    except (ImportError, OSError) as error:
        logger.error("API %d cannot be loaded, its connections are closed: %s", served.key, error)  # noqa: TRY400 - one line
        # An OSError usually means that no file descriptors are left. Closing this connection frees one.
        return Close(f"API {served.key} cannot be loaded: {error}")
