"""Renewal of certificates and users without a restart: their files are read again on SIGHUP, and after they changed.

The files are polled, because notifications of the system miss changes on network file systems and through the links of
mounted secrets.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import signal
from collections.abc import Callable, Collection, Mapping
from typing import Protocol, TypeAlias

import trio

from pipeline_broker.base.terminal import Terminal
from pipeline_broker.config.properties import ConfigError

__all__ = ["CHECK_SECONDS", "FileRenewal", "Renewed", "log_warning", "renew_on_hangup"]

logger = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
"""Interval of the checks whether files of certificates or users have changed."""


class Renewed(Protocol):
    """An object made from files, such as `TlsContexts`. Its methods run in a thread.

    If a file cannot be used, they raise ConfigError and change nothing.
    """

    def reload(self) -> None: ...

    def reload_changed(self) -> bool:
        """Reload if a file has changed since the last attempt, and return whether that was the case."""

    def warning(self, now: dt.datetime) -> str | None:
        """Return a warning about the files, such as the expiry of a certificate; None otherwise."""


Find: TypeAlias = Callable[[], Mapping[str, Renewed]]
"""Returns the objects in use, by their names in log lines."""


class FileRenewal:
    def __init__(self, find: Find, logged_elsewhere: Collection[str] = ()) -> None:
        self._find = find
        self._logged_elsewhere = logged_elsewhere  # names of objects that another process also renews, and logs
        self._is_requested = False
        self._requested = trio.lowlevel.ParkingLot()

    def request(self) -> None:
        self._is_requested = True
        self._requested.unpark_all()

    async def run(self) -> None:
        """Renew until cancelled. A file that cannot be used is logged and changes nothing."""
        while True:
            if not self._is_requested:
                with trio.move_on_after(CHECK_SECONDS):
                    await self._requested.park()
            is_requested, self._is_requested = self._is_requested, False
            if found := self._find():
                await trio.to_thread.run_sync(_renew, found, is_requested, self._logged_elsewhere)


async def renew_on_hangup(
    renewal: FileRenewal, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Request a renewal on each SIGHUP until cancelled. The end of the terminal ends the process like SIGTERM."""
    terminal = Terminal()
    with trio.open_signal_receiver(signal.SIGHUP) as hangups:
        task_status.started()
        async for _ in hangups:
            if terminal.is_closed:
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                renewal.request()


def _renew(found: Mapping[str, Renewed], is_requested: bool, logged_elsewhere: Collection[str]) -> None:
    for name, renewed in found.items():
        try:
            if is_requested:
                renewed.reload()
            elif not renewed.reload_changed():
                continue
        except ConfigError as error:
            if name in logged_elsewhere:
                continue
            logger.error("%s: the previous files stay in use: %s", name, error)  # noqa: TRY400 - one line says it
        else:
            if name in logged_elsewhere:
                continue
            logger.info("%s: the files were read again", name)
            log_warning(name, renewed)


def log_warning(name: str, renewed: Renewed) -> None:
    warning = renewed.warning(dt.datetime.now(dt.UTC))
    if warning is not None:
        logger.warning("%s: %s", name, warning)
