"""The stamps of one request.

Rules of this room: it imports nothing of ours; a stamp is an int64 of nanoseconds of the machine's monotonic clock, so
that the stamps of a broker and of a client on the same machine can be compared.

    received -> enqueued -> dequeued -> handled -> decided -> submitted -> durable -> completed -> released
    -> send started -> sent

Stages are differences of two stamps; what they are called and which two they lie between is said by those who observe.
"""

import time
from typing import Final

__all__ = ["NO_STAMP", "STAMPS", "Stamps", "now_ns"]

now_ns: Final = time.monotonic_ns
NO_STAMP: Final = -(2**63)
"""The null of a number of 64 bits, as traces have it: the lowest value."""


class Stamps:
    """The stamps of a request, in the order in which they are taken.

    Attributes:
        received_ns: the whole frame was read.
        enqueued_ns: it was put on a request queue; 0 where nobody observes the request.
        dequeued_ns: a handler took it.
        handled_ns: the handler was done with it for the first time.
        decided_ns: no clock's reading, but `handled_ns` and the time that callbacks and later steps took: the handler
            would have been done with all of it by then, had no other request had a turn in between.
        submitted_ns, durable_ns: its entries were given to the committer, and are durable; NO_STAMP without any.
        completed_ns: its result is known.
        released_ns: every earlier response of the connection was released.
        send_started_ns, sent_ns: its bytes began to leave, and have left.
    """

    # 0 stands for a stage that was not passed. Requests have these values in common until they get their own.
    received_ns: int = 0
    enqueued_ns: int = 0
    dequeued_ns: int = 0
    handled_ns: int = 0
    decided_ns: int = 0
    submitted_ns: int = NO_STAMP
    durable_ns: int = NO_STAMP
    completed_ns: int = 0
    released_ns: int = 0
    send_started_ns: int = 0
    sent_ns: int = 0


STAMPS: Final = tuple(name for name in vars(Stamps) if name.endswith("_ns"))
"""Their names, in order."""
