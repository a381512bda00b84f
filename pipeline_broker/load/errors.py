"""How the load client fails.

Rules of this file: one error for all that a person must be told in one line.
"""

Buffer = bytes | bytearray | memoryview


class LoadError(Exception):
    """The load cannot be run or was broken off; the message is one line for a person."""
