"""A run of kills of a broker that keeps everything in a store: each takes its data directory with it.

Rules of this file: as for a run of kills; what the store is, and what happens to it meanwhile, is for others to say.
"""

import shutil

from tests.crashes.kill_run import KillRun

SETTINGS = ("log.retention.ms=-1",)
"""Records have timestamps of 1970, and brokers live long enough here for retention to look at them."""


class ObjectKillRun(KillRun):
    """See the module; `store` is a StoreUnderTest."""

    flushes = ("always",)

    def __init__(self, seed, directory, store, variant=None, settings=(), **options):
        self.store = store
        if variant is None:
            variant = (None, "rolling-objects")[seed // 2 % 2]
        options = {"arguments": store.arguments, "environment": store.environment, **options}
        super().__init__(seed, directory, variant=variant, settings=(*SETTINGS, *settings), **options)

    def end_under_load(self, seconds):
        """See KillRun; the machine goes with it."""
        super().end_under_load(seconds)
        self._empty()

    def end_in_recovery(self, seconds):
        """The same."""
        super().end_in_recovery(seconds)
        self._empty()

    def _empty(self):
        shutil.rmtree(self.broker.data, ignore_errors=True)  # a start may have been killed before it made one

    def verify(self):
        """As Scene.verify; while the store does not answer, clients may be refused."""
        self.forgive_storage_errors()
        return super().verify()
