"""Loads what the first request of an API needs, up to 50 ms of Python: in a thread, so that the event loop goes on.

Rules of this file: it may run in any thread, and changes nothing but what is loaded. Who loads modules leaves Python's
lock to others at each file that is read, so the event loop never waits for all of them.
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
    """One API in one version, ready to be called."""

    message: type[Any]
    decode: Callable[[Any, int], tuple[Any, int]]
    handle: Callable[[Call, Any], Result | Stepwise[Result]]
    elements_max: int


def load(served: Served, version: int) -> Handler | Close:
    """Load an API's handler, the codec of a version, and what the handler would load itself.

    Returns:
        Close where something cannot be loaded: the next request tries again.
    """
    try:
        module = import_module(f"pipeline_broker.apis.{served.module}")
        for name in served.needs:
            import_module(f"pipeline_broker.{name}")
        request, response = message_classes(served.key)
        encoder(response, version)
        return Handler(request, decoder(request, version, utf8_only=True), module.handle, served.elements_max)
    except (ImportError, OSError) as error:  # no descriptors: the connection that ends is one of them
        logger.error("API %d cannot be loaded, its connections are closed: %s", served.key, error)  # noqa: TRY400 - one line
        return Close(f"API {served.key} cannot be loaded: {error}")
