"""Each anomaly of transactions, and of who owns what, is found in a story that has it, and none in one that has not."""

import pytest

from tests.simulation.ownership import Ownership
from tests.simulation.transfers import CommittedRead, Transfers, transfer_anomalies

SESSION_SECONDS = 1.0
P, Q = (b"topic", 0), (b"topic", 1)


class Story:
    """A transaction that was committed, one that was aborted behind it, and one whose commit nobody answered."""

    def __init__(self):
        self.transfers = Transfers()
        self.committed, self.aborted, self.unknown = (self.transfers.begin("p") for _ in range(3))
        for offset, transaction in ((0, self.committed), (2, self.aborted), (4, self.unknown)):
            transaction.send(0, 1).offset = offset
            transaction.send(1, 1).offset = offset
        self.committed.is_committed, self.aborted.is_committed = True, False
        self.committed.may_be_committed = self.unknown.may_be_committed = True
        self.final = {partition: [(0, self.values(self.committed)[partition])] for partition in range(2)}

    @staticmethod
    def values(transaction):
        return [value for batch in transaction.batches for value in batch.values]

    def commit(self, transaction, partition):
        batch = transaction.batches[partition]
        self.final[partition].append((batch.offset, *batch.values))

    def read(self, end, *records):
        self.transfers.reads.append(CommittedRead("r", 0, 0, end, records))

    @property
    def found(self):
        return {text.split(":")[0] for text in transfer_anomalies(self.transfers, self.final)}


def lost(story):
    story.final[1].clear()


def moved(story):
    story.final[1] = [(1, story.final[1][0][1])]


def aborted(story):
    story.commit(story.aborted, 0)


def never_ended(story):
    story.unknown.may_be_committed = False
    story.commit(story.unknown, 0)
    story.commit(story.unknown, 1)


def torn(story):
    story.commit(story.unknown, 1)


def foreign(story):
    story.final[0].append((9, b"x"))


def twice(story):
    story.final[0].append((3, story.final[0][0][1]))


def skipped(story):
    story.read(2)


def too_early(story):
    story.read(5, *story.final[0], (4, *story.unknown.batches[0].values))


FOUND = {
    lost: "committed-lost",
    moved: "committed-lost",
    aborted: "aborted-seen",
    never_ended: "aborted-seen",
    torn: "torn-transaction",
    foreign: "aborted-seen",
    twice: "committed-twice",
    skipped: "undecided-read",
    too_early: "undecided-read",
}


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_good_story_has_no_anomaly(is_committed):
    """Also when a commit that nobody answered was one."""
    story = Story()
    story.read(4, *story.final[0])
    if is_committed:
        story.commit(story.unknown, 0)
        story.commit(story.unknown, 1)
    assert story.found == set()


@pytest.mark.parametrize("spoil", FOUND, ids=lambda spoil: spoil.__name__)
def test_an_anomaly_is_found(spoil):
    story = Story()
    spoil(story)
    assert FOUND[spoil] in story.found


@pytest.mark.parametrize(("producer", "is_wrong"), [((7, 3), False), ((7, 2), True), ((8, 3), True)])
def test_a_new_instance_has_the_same_id_and_a_higher_epoch(producer, is_wrong):
    assert bool(list(Transfers().taken_over("t", producer, (7, 2)))) is is_wrong


class Group:
    """Two members, and the time."""

    def __init__(self):
        self.ownership = Ownership(SESSION_SECONDS)
        self.first, self.second = self.ownership.member("first"), self.ownership.member("second")
        self.now = 0.0

    def tell(self, member, epoch, *assigned, not_before=0):
        told = self.ownership.told(member, epoch, assigned, sent_at=self.now, now=self.now, not_before=not_before)
        return [text.split(" ")[0] for text in told]


def test_a_partition_is_owned_until_it_is_given_back():
    """Not only until its owner has heard that it shall give it back."""
    group = Group()
    assert group.tell(group.first, 1, P, Q) == []
    assert group.tell(group.first, 1, P) == []
    assert group.tell(group.second, 2, Q) == ["partitions"]
    group.ownership.says(group.first)
    assert group.tell(group.second, 2, Q) == []


@pytest.mark.parametrize("is_out", [False, True])
def test_who_is_out_or_silent_for_a_session_owns_nothing(is_out):
    group = Group()
    group.tell(group.first, 1, P)
    if is_out:
        group.ownership.is_out(group.first)
    else:
        group.now += SESSION_SECONDS
    assert group.tell(group.second, 2, P) == []


def test_epochs_never_fall():
    """Neither a member's, nor those with which members join."""
    group = Group()
    assert group.tell(group.first, 3) == []
    assert group.tell(group.first, 2) == ["the"]
    assert group.tell(group.second, 2, not_before=3) == ["the"]
    assert group.ownership.epoch == 3
