"""The errors that end a broker process, each with one line."""

from __future__ import annotations

from pipeline_broker.base.unavailable import UnavailableError

__all__ = ["MaintenanceFailedError", "StartBlockedError", "StartError", "TakenOverError"]


class StartError(UnavailableError):
    pass


class StartBlockedError(StartError):
    """Another process or an object store prevents the startup. A standby tries again."""


class MaintenanceFailedError(Exception):
    """The logs cannot be maintained, as on a failed disk, so the broker must end. The text is one line."""


class TakenOverError(MaintenanceFailedError):
    """Another process has taken over the archive, so the broker must end. The text is one line."""
