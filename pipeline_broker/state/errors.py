"""What a record of state can be wrong with.

Rules of this file: it imports nothing, so that whoever only catches these need not load the machines that raise them.
"""

__all__ = ["CorruptStateRecordError"]


class CorruptStateRecordError(Exception):
    """A record of an internal partition that cannot be read."""
