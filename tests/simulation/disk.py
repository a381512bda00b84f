"""The disk of a simulated broker, and the errors that it makes.

Rules of this file: an error is set before it happens, as the n-th write or sync from then on, and happens once. What a
power cut leaves is decided by the seed.
"""

import copy
import errno
import random

from tests.files.memory_file_system import MemoryFileSystem


class SimulatedDisk:
    """Memory that loses power, with an error to come.

    Attributes:
        files: the MemoryFileSystem.
    """

    def __init__(self, seed, *, is_cold):
        self.files = MemoryFileSystem()
        self.files.is_cold = is_cold
        self.files.before = self._before
        self._dice = random.Random(f"disk {seed}")
        self._operation = None
        self._countdown = 0

    def fail_later(self, operation, count):
        """Let the count-th write or sync from now on fail."""
        self._operation, self._countdown = operation, count

    def new_life(self):
        """Another process: an error that did not come yet was another's."""
        self._operation = None

    def power_cut(self):
        # What a process does in the time until it has ended does not reach the disk of the next one.
        self.files = copy.copy(self.files)
        self.files.power_cut(lambda count: self._dice.randint(0, count))

    def _before(self, operation, _path):
        if operation != self._operation:
            return
        self._countdown -= 1
        if self._countdown <= 0:
            self._operation = None
            raise OSError(errno.EIO, f"simulated {operation} error")
