"""Waiting for a descriptor with any number; `select` rejects those above 1023."""

import select


def wait_readable(file, seconds_max):
    """Return whether data or the end arrives before the timeout."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds_max) * 1000))
