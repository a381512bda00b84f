"""Copiers over a broker that keeps everything in a store: killed with its directory, or taken over while it is stopped.

Rules of this file: as for `exactly_once/run.py`. Clients know two addresses, of which one serves.
"""

import shutil
import time

from tests.crashes.exactly_once.run import Run
from tests.crashes.on_objects.takeover import another, stop, wait_until_ready, wake_up
from tests.free_ports import free_port

TAKEOVER_SHARE = 0.6
HELD_SECONDS = (0.0, 1.0)


class ObjectRun(Run):
    """See the module; `store` is a StoreUnderTest."""

    def __init__(self, seed, directory, java, store, **options):
        super().__init__(seed, directory, java, **options)
        self._store = store
        self.takeovers = 0
        self._ports = (self.broker.port, free_port())
        self.broker.variant = (None, "rolling-objects")[seed // 2 % 2]
        self.broker.arguments = store.arguments
        self.broker.environment = store.environment

    @property
    def bootstrap(self):
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def _kill_broker(self, _):
        self.counts.kills_of_the_broker += 1
        if self.random.random() < TAKEOVER_SHARE:
            self._take_over()
            return
        self.broker.kill()
        shutil.rmtree(self.broker.data)
        self._start_broker()

    def _take_over(self):
        zombie = self.broker
        stop(zombie)
        self.takeovers += 1
        (port,) = set(self._ports) - {zombie.port}
        self.broker = another(zombie, port, self.directory / f"broker-{self.takeovers}", self._store.arguments)
        try:
            self._mode_index += 1
            self.broker.launch(self.mode, "always")
            wait_until_ready(self.broker)
            time.sleep(self.random.uniform(*HELD_SECONDS))
        except BaseException:
            zombie.kill()
            raise
        wake_up(zombie)
