"""Epochs and generations that count up in 32 bits.

Rules of this file: a record may hold any number, so the highest has a successor too. Clients compare epochs for
equality, and 0 and below mean something else to them: the count goes on with 1.
"""

__all__ = ["EPOCH_MAX", "next_epoch"]

EPOCH_MAX = 2**31 - 1


def next_epoch(epoch: int, steps: int = 1) -> int:
    """The epoch after `epoch`, or after so many steps."""
    return epoch + steps if epoch <= EPOCH_MAX - steps else 1
