"""Waiting for the other end, whatever the number of the descriptor: `select` refuses those above 1023."""

import select


def wait_readable(file, seconds_max):
    """Whether there is something to read, or the end, before the time is over."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds_max) * 1000))
