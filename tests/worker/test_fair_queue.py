"""Property: a client's entries keep their order, and no client waits for more than one entry of each other client."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.worker.fair_queue import FairQueue

CLIENTS = "abc"
ADD, TAKE, DISCARD = "add", "take", "discard"


@given(st.lists(st.tuples(st.sampled_from((ADD, ADD, TAKE, DISCARD)), st.sampled_from(CLIENTS)), max_size=60))
def test_clients_take_turns(steps):
    queue, model, number = FairQueue(), {client: [] for client in CLIENTS}, 0
    taken_since_added = {client: [] for client in CLIENTS}  # by others, since a client's first entry waits
    for step, client in steps:
        if step == ADD:
            if not model[client]:
                taken_since_added[client] = []
            queue.add(client, (client, number))
            model[client].append((client, number))
            number += 1
        elif step == DISCARD and model[client]:
            entry = model[client].pop()
            queue.discard(client, entry)
        elif step == TAKE and queue:
            entry = queue.take()
            assert entry == model[entry[0]].pop(0), "the order of a client"
            taken_since_added[entry[0]] = []
            for other in CLIENTS:
                if other != entry[0] and model[other]:
                    taken_since_added[other].append(entry[0])
                    assert taken_since_added[other].count(entry[0]) == 1, "one turn each"
        assert len(queue) == sum(map(len, model.values()))


def test_discarding_a_missing_entry_has_no_effect():
    queue = FairQueue()
    queue.discard("a", 1)
    queue.add("a", 2)
    queue.discard("a", 1)
    assert (len(queue), queue.take()) == (1, 2)
