"""The types of data that the broker reads, checks and sends without copying it."""

from typing import TypeAlias

__all__ = ["Buffer"]

Buffer: TypeAlias = bytes | bytearray | memoryview
