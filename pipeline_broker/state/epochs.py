"""Arithmetic of 32-bit epochs and generations."""

__all__ = ["EPOCH_MAX", "next_epoch"]

EPOCH_MAX = 2**31 - 1


def next_epoch(epoch: int, steps: int = 1) -> int:
    # A replayed record may hold any number, so EPOCH_MAX needs a successor too. Clients compare epochs for equality
    # only, and 0 and negative epochs have special meanings, so the count restarts at 1.
    return epoch + steps if epoch <= EPOCH_MAX - steps else 1
