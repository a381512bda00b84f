"""The object store with the journals and archives of all brokers of an experiment."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import attrs

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.progress import say
from pipeline_broker.objects.check import check_store
from pipeline_broker.objects.opening import StoreRefused, open_store
from pipeline_broker.objects.settled_store import SettledStore, pause_briefly
from pipeline_broker.objects.store import ObjectStoreError, delete_all, list_all

__all__ = ["PROPERTIES", "ComparedStore"]

# The default limits PUTs to keep the bill small. With that limit, the experiment would measure it and not the mode.
PROPERTIES: Mapping[str, str] = {"wal.puts.per.second": "0"}
"""Broker properties of experiments on a store; those of a cell override them."""


def _folder() -> str:
    return f"compare-{os.urandom(6).hex()}"


@attrs.frozen(slots=True)
class ComparedStore:
    """An object store in which each broker has its own folder, below one of this experiment that is deleted at its end.

    Attributes:
        url: address of the store.
        delay_ms: delay added to each request to the store.
        folder: name of the experiment's folder.
    """

    url: str
    delay_ms: float = 0.0
    folder: str = attrs.field(factory=_folder, eq=False)

    @property
    def kind(self) -> str:
        return urlsplit(self.url).scheme

    def address(self, broker: str) -> str:
        """Return the address of one broker's folder. In memory it is `url` itself: each process has its own store."""
        return self.url if self.kind == "memory" else f"{self._folder_url}/{broker}"

    @property
    def _folder_url(self) -> str:
        return f"{self.url.rstrip('/')}/{self.folder}"

    def check(self) -> None:
        """Check that the store is usable, before the first run.

        Raises:
            ExperimentError: the store cannot be used.
        """
        try:
            check_store(open_store(self._folder_url if self.kind != "memory" else self.url, SystemFileSystem()))
        except StoreRefused as error:
            raise ExperimentError(f"the store {self.url} cannot be used: {error}") from None

    def clear(self) -> None:
        if self.kind == "memory":
            return
        if self.kind == "file":
            shutil.rmtree(Path(unquote(urlsplit(self.url).path)) / self.folder, ignore_errors=True)
            return
        try:
            store = SettledStore(open_store(self._folder_url, SystemFileSystem()), pause_briefly)
            delete_all(store, [each.name for each in list_all(store, "")])
        except (StoreRefused, ObjectStoreError) as error:
            say(f"objects of this experiment remain in {self._folder_url}: {error}. Delete them by hand.")
