"""The layout of the metadata that the controller sends to the members.

controller:  uint32 size, int64 offset after the batches, record batches of the metadata log
member:      int64 offset, below which it has applied all records
"""

from __future__ import annotations

import struct

__all__ = ["APPLIED", "BATCHES", "BATCHES_BYTES_MAX"]

BATCHES = struct.Struct(">Iq")
APPLIED = struct.Struct(">q")
BATCHES_BYTES_MAX = 256 << 20
"""Largest size that a member accepts. The controller sends less, unless one batch is larger."""
