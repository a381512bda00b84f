"""What a record of state can be wrong with.

Rules of this file: it imports nothing, so that a module that only catches these need not load the machines that raise
them. A machine raises before it changes anything: a start sets the record aside, and all other state is as if the
record did not exist.
"""

__all__ = ["CorruptStateRecordError", "MisplacedRecordError", "StateRecordError"]


class StateRecordError(Exception):
    """A record of an internal topic that a start sets aside."""


class CorruptStateRecordError(StateRecordError):
    """The record cannot be read, or contradicts itself; a client may not produce it."""


class MisplacedRecordError(StateRecordError):
    """The record can be read, but not applied to the state that the records before it made."""
