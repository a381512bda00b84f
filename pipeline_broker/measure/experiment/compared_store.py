"""The store of objects that all brokers of an experiment have their journal and their archive in.

Rules of this file: each broker has a folder of its own below the address, in one that only this experiment has and that
is gone when it ends. Commits are as many as the mode makes: a pace of PUTs that keeps a bill small would be measured in
place of the mode.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import attrs

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.progress import say

__all__ = ["PROPERTIES", "ComparedStore"]

PROPERTIES: Mapping[str, str] = {"wal.puts.per.second": "0"}
"""Of the brokers, where the experiment does not vary them."""


def _folder() -> str:
    return f"compare-{os.urandom(6).hex()}"


@attrs.frozen(slots=True)
class ComparedStore:
    """See the rules of the file.

    Attributes:
        url: its address.
        delay_ms: injected into every request to it.
        folder: of this experiment.
    """

    url: str
    delay_ms: float = 0.0
    folder: str = attrs.field(factory=_folder, eq=False)

    @property
    def kind(self) -> str:
        """What it is, without where it is: `memory`, `file`, `s3`."""
        return urlsplit(self.url).scheme

    def address(self, broker: str) -> str:
        """Of one broker; what is in memory is each process's own."""
        return self.url if self.kind == "memory" else f"{self._place}/{broker}"

    @property
    def _place(self) -> str:
        return f"{self.url.rstrip('/')}/{self.folder}"

    def check(self) -> None:
        """See that there is such a store, before anything is run; raises ExperimentError."""
        from pipeline_broker.objects.check import check_store  # noqa: PLC0415 - for those who named a store
        from pipeline_broker.objects.opening import StoreRefused, open_store  # noqa: PLC0415 - see above

        try:
            check_store(open_store(self._place if self.kind != "memory" else self.url, SystemFileSystem()))
        except StoreRefused as error:
            raise ExperimentError(f"the store {self.url} cannot be used: {error}") from None

    def clear(self) -> None:
        """Delete what the brokers left; what cannot be deleted is said."""
        from pipeline_broker.objects.opening import StoreRefused, open_store  # noqa: PLC0415 - see above
        from pipeline_broker.objects.settled_store import SettledStore, pause_briefly  # noqa: PLC0415 - see above
        from pipeline_broker.objects.store import ObjectStoreError, delete_all, list_all  # noqa: PLC0415 - see above

        if self.kind == "memory":
            return
        if self.kind == "file":
            shutil.rmtree(Path(unquote(urlsplit(self.url).path)) / self.folder, ignore_errors=True)
            return
        try:
            store = SettledStore(open_store(self._place, SystemFileSystem()), pause_briefly)
            delete_all(store, [each.name for each in list_all(store, "")])
        except (StoreRefused, ObjectStoreError) as error:
            say(f"objects of this experiment are left below {self._place}: {error}")
