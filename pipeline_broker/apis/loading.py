"""Loads what the first request of an API needs, up to 50 ms of Python: in a thread, so that the event loop goes on.

Rules of this file: it may run in any thread, and changes nothing but what is loaded. Who loads modules leaves Python's
lock to others at each file that is read, so the event loop never waits for all of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pipeline_broker.wire.codec import decoder, encoder
from pipeline_broker.wire.registry import message_classes

if TYPE_CHECKING:
    from pipeline_broker.apis.registry import Served

__all__ = ["load"]


def load(served: Served, version: int) -> None:
    """Load an API's handler, the codec of a version, and what the handler would load itself.

    Raises:
        ImportError, OSError: something cannot be loaded.
    """
    import_module(f"pipeline_broker.apis.{served.module}")
    for name in served.needs:
        import_module(f"pipeline_broker.{name}")
    request, response = message_classes(served.key)
    decoder(request, version)
    encoder(response, version)
