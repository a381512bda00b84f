"""Errors of records that a startup sets aside.

This module imports nothing, so that code that only catches these errors does not load the machines that raise them.
"""

__all__ = ["CorruptStateRecordError", "MisplacedRecordError", "StateRecordError"]


class StateRecordError(Exception):
    """A record of an internal topic that a startup sets aside.

    Machines raise it before they change anything, so all other state is as if the record did not exist.
    """


class CorruptStateRecordError(StateRecordError):
    """A record that cannot be decoded or contradicts itself.

    The broker rejects produce requests with such records.
    """


class MisplacedRecordError(StateRecordError):
    """A valid record that cannot be applied to the state that earlier records built."""
