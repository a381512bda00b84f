"""Seeded bugs: what the simulation must catch, at least one for each invariant; a simulation that never failed proves
nothing.

Rules of this file: a bug is a replacement for a part of the broker, in force while its block runs; it exists here and
nowhere in the product. `finds` is what the complaint says that is about the very invariant: another complaint, or a
crash of the broker, does not count.

Longer than most files: it is one list of all bugs.
"""

import struct
from contextlib import contextmanager, nullcontext, suppress

import attrs

from pipeline_broker.apis.call import Call
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.journal.recovery import Recovery
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.producers.producer_state import ProducerStates
from pipeline_broker.state.groups.consumer import assigning
from pipeline_broker.state.groups.consumer.coordinator import ConsumerGroups
from pipeline_broker.state.groups.consumer.updates import Subject
from pipeline_broker.state.transactions import coordinator as transaction_coordinator
from pipeline_broker.state.transactions.transaction import Transaction
from pipeline_broker.state.waiting_line import WaitingLine
from stages.connection import Connection
from stages.request import NoOp, Send
from stages.request_channel import RequestQueue
from stages.response_order import ResponseOrder
from stages.socket_server import SocketServer
from stages.testing.scripted_commits import ScriptedCommits
from tests.simulation import cluster_bugs, store_bugs
from tests.simulation.cluster_scenario import draw_cluster
from tests.simulation.scenario import draw
from tests.simulation.store_scenario import draw_on_store
from tests.simulation.world import Parts
from tests.stages import sabotage
from tests.stages.broken import BrokenResponseOrder
from tests.stages.sabotage import replaced

CORRELATION = struct.Struct(">i")
CORRELATION_AT = 4


@attrs.frozen
class Bug:
    """One seeded bug.

    Attributes:
        invariant: the number in docs/evidence/invariants.md.
        finds: a part of the complaint that is due.
        active: called for what is in force during the simulation.
        parts: see World.
        kinds: of scenarios that may show it; others are passed over to save time.
        draw: the scenario of a seed.
        faults: one of which a scenario must have to show it; empty for any.
        clients: kinds of clients, likewise; the other scenarios count as tried.
    """

    invariant: int
    finds: str
    active: object = nullcontext
    parts: Parts = attrs.field(factory=Parts)
    kinds: frozenset = frozenset({"traffic"})
    draw: object = draw
    faults: frozenset = frozenset()
    clients: frozenset = frozenset()

    def may_show_in(self, scenario):
        """Whether it is worth while to simulate a scenario."""
        kinds = {fault.kind for fault in scenario.faults}
        return scenario.kind in self.kinds and (not self.faults or bool(kinds & self.faults))

    def has_clients_in(self, scenario):
        """Whether somebody is there whom it hits."""
        return not self.clients or any(client.kind in self.clients for client in scenario.clients)


class CorrelationOrder(ResponseOrder):
    """Finds the place of a response by the id that the client chose."""

    __slots__ = ()

    def complete(self, slot, result):
        (wanted,) = CORRELATION.unpack_from(slot.frame, CORRELATION_AT)
        for place, other in enumerate(self._slots):
            if other.result is None and CORRELATION.unpack_from(other.frame, CORRELATION_AT) == (wanted,):
                self._slots[place], index = slot, self._slots.index(slot)
                self._slots[index] = other
                break
        return super().complete(slot, result)


@contextmanager
def kept_places():
    """Who was checked never gives its place to the next."""
    with replaced(WaitingLine, "leave", lambda line, token: None):
        yield


@contextmanager
def newest_first():
    """A request is put in front of those that wait."""

    def put_nowait(queue, request):
        original(queue, request)
        queue.requests.rotate(1)

    with replaced(RequestQueue, "put_nowait", put_nowait) as original:
        yield


@contextmanager
def route_by_request():
    """Each request goes to the queue whose turn it is."""

    def put_nowait(queue, request):
        queues = request.connection.admission._channel.queues
        other = queues[request.sequence % len(queues)]
        original(other if other.has_room else queue, request)

    with replaced(RequestQueue, "put_nowait", put_nowait) as original:
        yield


@contextmanager
def move_in_flight():
    """A resize moves connections that have requests in flight."""

    def put_nowait(queue, request):
        admission = request.connection.admission
        if admission._generation != admission._channel.generation:
            admission.change_queue()
        original(admission.queue if admission.queue.has_room else queue, request)

    with replaced(RequestQueue, "put_nowait", put_nowait) as original:
        yield


@contextmanager
def forgotten_silence():
    """The slot of a request without an answer is never completed."""

    def complete(connection, request, result):
        if type(result) is not NoOp:
            original(connection, request, result)

    with replaced(Connection, "complete", complete) as original:
        yield


@contextmanager
def double_answers():
    """Now and then a response is written twice."""

    def release(connection, released, released_ns):
        original(connection, released, released_ns)
        for request in released:
            if type(request.result) is Send and request.sequence % 7 == 3:
                connection._output.add_frame(request.result)

    with replaced(Connection, "_release", release) as original:
        yield


class EarlyVisible(ScriptedCommits):
    """Entries are shown when they are written, before they are synced."""

    def start(self, committer):
        super().start(committer)
        show, committer._on_commit = committer._on_commit, lambda commit: None
        begin = committer.begin_commit

        def begin_commit():
            commit = begin()
            if commit is not None and commit.error is None:
                show(commit)
            return commit

        committer.begin_commit = begin_commit


@contextmanager
def retried_sync():
    """A sync that failed is tried again, and trusted."""

    def sync(journal, ticket):
        with suppress(OSError):
            ticket.file.sync_data()
        original(journal, ticket)

    with replaced(Journal, "sync", sync) as original:
        yield


@contextmanager
def no_sync():
    """A commit is called durable when it is written."""

    def write(journal, entries):
        ticket = original(journal, entries)
        if ticket.file is not None:
            ticket.file = _Unsynced(ticket.file)
        return ticket

    with replaced(Journal, "write", write) as original:
        yield


class _Unsynced:
    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def sync_data(self):
        pass


@contextmanager
def trusted_page_cache():
    """A start takes what it can read for durable once it is synced, whatever happened before."""

    def make_durable(recovery, numbers):
        for number in numbers:
            recovery._files.open(recovery._directory / f"{number:020}.segment").sync_data()

    with replaced(Recovery, "_make_durable", make_durable):
        yield


@contextmanager
def accepted_gap():
    """Sequence numbers that come later than expected are taken."""

    def check(states, producer_id, epoch, first_sequence, last_sequence):
        producer = states._producers.get(producer_id)
        if producer is not None and epoch == producer.epoch and first_sequence > producer.expected_sequence:
            return None
        return original(states, producer_id, epoch, first_sequence, last_sequence)

    with replaced(ProducerStates, "check", check) as original:
        yield


@contextmanager
def forgotten_refusal():
    """That the first batch of a producer was refused is not kept in mind."""
    with replaced(ProducerStates, "refused", lambda *_: None):
        yield


@contextmanager
def repeated_batches():
    """A batch that is sent again is appended again."""

    def check(states, producer_id, epoch, first_sequence, last_sequence):
        return None

    with replaced(ProducerStates, "check", check):
        yield


@contextmanager
def mode_dependent_answers():
    """A request that has others in flight before it is answered differently."""

    def send(call, response):
        if call.request.depth > 1 and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = 1
        return original(call, response)

    with replaced(Call, "send", send) as original:
        yield


@contextmanager
def no_drain():
    """A stop does not wait for what is in flight."""

    async def drain(server):
        pass

    with replaced(SocketServer, "_drain", drain):
        yield


@contextmanager
def shrinking_prefix():
    """Now and then what readers may see ends further in front than it did."""
    on_durable = PartitionLog.on_durable

    def shrink(log, entry):
        on_durable(log, entry)
        if entry.last_offset % 5 == 4:
            log.high_watermark -= 2

    with replaced(PartitionLog, "on_durable", shrink):
        yield


@contextmanager
def open_transactions_shown():
    """Readers of committed records are given what is not decided yet."""
    with replaced(PartitionLog, "last_stable_offset", property(lambda log: log.high_watermark)):
        yield


@contextmanager
def latest_transaction_counts():
    """Readers of committed records wait for the transaction that was opened last, not for the first one."""

    def first_unstable_offset(states):
        return next(reversed(states.open.values()), None)

    with replaced(ProducerStates, "first_unstable_offset", property(first_unstable_offset)):
        yield


@contextmanager
def aborts_that_commit():
    """The markers of an abort say that it was a commit."""

    def markers(prepared):
        return [attrs.evolve(marker, committed=True) for marker in original(prepared)]

    with replaced(transaction_coordinator, "_markers", markers) as original:
        yield


@contextmanager
def nobody_fenced():
    """A new instance of a producer gets the epoch of the one before."""

    def bumped(transaction, timeout_ms, expected_epoch, now_ms):
        taken = original(transaction, timeout_ms, expected_epoch, now_ms)
        return attrs.evolve(taken, producer_epoch=max(transaction.producer_epoch, 0))

    with replaced(Transaction, "bumped", bumped) as original:
        yield


@contextmanager
def partitions_given_twice():
    """Partitions are given to who shall have them before who has them gave them back."""
    with replaced(assigning, "_taken_by_others", lambda step, member_id: lambda topic_id, partition: False):
        yield


@contextmanager
def forgotten_epochs():
    """A start does not read in which epoch a group was."""

    def replay(groups, change):
        _, update = change
        if update.subject not in {Subject.GROUP_EPOCH, Subject.TARGET_EPOCH}:
            original(groups, change)

    with replaced(ConsumerGroups, "replay", replay) as original:
        yield


def on_store(finds, active, *faults):
    """A bug of invariant 16."""
    return Bug(16, finds, active, kinds=frozenset({"store"}), draw=draw_on_store, faults=frozenset(faults))


def in_cluster(finds, active, clients=(), faults=()):
    """A bug of invariant 17."""
    return Bug(
        17,
        finds,
        active,
        kinds=frozenset({"cluster"}),
        draw=draw_cluster,
        clients=frozenset(clients),
        faults=frozenset(faults),
    )


TRANSACTIONAL = ("transactional",)
LATE_MARKER = ("late marker",)
ANY = frozenset({"traffic", "crash", "shutdown", "agreement"})
CRASH = frozenset({"crash"})
BUGS = {
    "release on completion": Bug(1, "answer", parts=Parts(response_order=BrokenResponseOrder)),
    "put the newest first": Bug(2, "started behind", newest_first, kinds=frozenset({"pause"})),
    "route by request": Bug(2, "changed from queue", route_by_request),
    "start before the last turn of an earlier request": Bug(2, "had its last turn", sabotage.impatient_start),
    "order by correlation id": Bug(3, "answer", parts=Parts(response_order=CorrelationOrder)),
    "forget the slot of acks=0": Bug(4, "stuck", forgotten_silence),
    "leave the slot open when a handler raises": Bug(4, "stuck", sabotage.forgotten_slots),
    "answer twice": Bug(4, "an answer came and none was due", double_answers),
    "acknowledge before the sync": Bug(
        5, "is acknowledged", parts=Parts(commits=sabotage.AcknowledgingCommits), kinds=ANY
    ),
    "leave the sync out": Bug(5, "lost-write", no_sync, kinds=CRASH),
    "take back what was shown": Bug(5, "the durable prefix of", shrinking_prefix),
    "show before it is durable": Bug(5, "read: events", parts=Parts(commits=EarlyVisible)),
    "try a failed sync again": Bug(6, "durable and cannot be read", retried_sync, kinds=CRASH),
    "trust the page cache after a failed sync": Bug(6, "durable and cannot be read", trusted_page_cache, kinds=CRASH),
    "accept a gap": Bug(7, "in spite of the gap", accepted_gap),
    "forget a refused first batch": Bug(7, "in spite of the gap", forgotten_refusal),
    "append a batch again": Bug(7, "duplicate", repeated_batches),
    "keep the place of a long batch": Bug(4, "stuck", kept_places),
    "one bit for all mute reasons": Bug(8, "although it must not be", sabotage.single_bit_mute, kinds=ANY),
    "lose the end of a mute": Bug(8, "stuck", sabotage.lost_unmute, kinds=ANY),
    "block all connections at a full queue": Bug(
        9, "a queue that is not its own", sabotage.blocking_put, kinds=frozenset({"pause"})
    ),
    "move connections with requests in flight": Bug(10, "changed from queue", move_in_flight, kinds=ANY),
    "authenticate again without draining": Bug(11, "authenticates with", sabotage.eager_conversation, kinds=ANY),
    "answer differently by mode": Bug(12, "got other answers", mode_dependent_answers, kinds=frozenset({"agreement"})),
    "show open transactions": Bug(13, "undecided-read", open_transactions_shown),
    "wait for the latest transaction alone": Bug(
        13, "the last stable offset is", latest_transaction_counts, clients=frozenset({"transactional"})
    ),
    "commit what was aborted": Bug(13, "aborted-seen", aborts_that_commit, kinds=ANY),
    "fence nobody": Bug(13, "fencing: ", nobody_fenced),
    "give a partition away before it is given back": Bug(
        14, "belong to", partitions_given_twice, clients=frozenset({"modern member"})
    ),
    "forget the epoch of a group": Bug(14, "the epoch of", forgotten_epochs, kinds=CRASH),
    "stop without draining": Bug(4, "have no answer", no_drain, kinds=frozenset({"shutdown"})),
    "acknowledge a slot before the one in front of it": on_store("is confirmed, and slot", store_bugs.out_of_order),
    "take a stop for the fence": on_store("is missing", store_bugs.stop_for_fence, "takeover"),
    "take data for the own fence": on_store("neither in", store_bugs.data_for_own, "takeover", "kill"),
    "take what exists for another's": on_store("nobody has taken over", store_bugs.existing_for_foreign),
    "take what is unsure for stored": on_store("is not stored", store_bugs.lost_late_slots),
    "take what exists for stored": on_store("neither in", store_bugs.existing_for_stored, "takeover"),
    "acknowledge by the lease": on_store("is not stored", store_bugs.acknowledged_by_the_lease, "takeover"),
    "delete before the boundary is raised": on_store("ends at slot", store_bugs.deleted_before_the_boundary, "kill"),
    "read the archive before its fence": on_store("neither in", store_bugs.archive_read_before_its_fence, "takeover"),
    "skip the markers of other brokers": in_cluster("hanging", cluster_bugs.foreign_markers_skipped, TRANSACTIONAL),
    "complete a transaction before its markers": in_cluster(
        "hanging", cluster_bugs.complete_before_markers, TRANSACTIONAL
    ),
    "send a marker once": in_cluster("for ever", cluster_bugs.markers_sent_once, TRANSACTIONAL),
    "obey an earlier coordinator": in_cluster(
        "aborted-seen", cluster_bugs.earlier_coordinators_obeyed, TRANSACTIONAL, LATE_MARKER
    ),
    "serve before the join": in_cluster("aborted-seen", cluster_bugs.served_before_joined, TRANSACTIONAL, LATE_MARKER),
    "join late as the controller": in_cluster(
        "aborted-seen", cluster_bugs.controller_joined_late, TRANSACTIONAL, LATE_MARKER
    ),
    "give out the same producer ids": in_cluster("given out twice", cluster_bugs.same_producer_ids),
    "lead all partitions": in_cluster("leader: ", cluster_bugs.all_led),
    "miss records of the controller": in_cluster("the controller", cluster_bugs.records_missed),
    "never join again": in_cluster("stuck", cluster_bugs.never_joined_again, (), ("cut", "cut one way")),
}
assert {bug.invariant for bug in BUGS.values()} == {*range(1, 15), 16, 17}
