"""Changes of settings that a broker of a cluster makes itself, instead of the controller."""

from __future__ import annotations

from pipeline_broker.apis.configs.described_resources import BROKER_LOGGER

__all__ = ["is_of_this_broker"]


def is_of_this_broker(message: object) -> bool:
    """Return whether a request only sets levels of loggers, which are in the memory of one process."""
    resources = getattr(message, "resources", ())
    return bool(resources) and all(getattr(it, "resource_type", None) == BROKER_LOGGER for it in resources)
