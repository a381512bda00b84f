"""Everything that a broker holds, read back and held against a History and KeptPartitions.

Rules of this file: a partition of a topic whose creation was not acknowledged, or that was never acknowledged itself,
is passed over.
"""

from tests.crashes.history import violations
from tests.crashes.kept_client import read_held
from tests.crashes.read_back import read_contents
from tests.crashes.scene import Violated
from tests.crashes.wire_client import WireClient

TOLD_MAX = 20


def verify(address, history, topic_ids, kept):
    """Raises Violated; gives the number of records that were compared."""
    known = history.snapshot()
    contents = read_contents(address, set(), tuple(history.commits))
    found = violations(history, known, contents)
    count = 0
    with WireClient(address) as client:
        for one in kept:
            if one.topic in topic_ids and one.index < contents.topics.get(one.topic, (None, 0))[1]:
                held = read_held(client, topic_ids[one.topic], one)
                count += len(held.records)
                found += one.violations(held)
    if found:
        raise Violated("\n".join(found[:TOLD_MAX]))
    return count
