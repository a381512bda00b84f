"""Each anomaly is found in a history that has it, and none in one that has not."""

import pytest

from tests.simulation.history import History, Read, anomalies


class Story:
    """A history of two batches that were sent and acknowledged, and a partition that holds them."""

    def __init__(self):
        self.history = History()
        self.first = self.history.send("c", 0, 2)
        self.second = self.history.send("c", 0, 1)
        self.first.acknowledge(0)
        self.second.acknowledge(2)
        self.final = {0: list(enumerate([*self.first.values, *self.second.values]))}

    def read(self, position, *records):
        self.history.reads.append(Read("reader", 0, position, records))

    @property
    def found(self):
        return {text.split(":")[0] for text in anomalies(self.history, self.final)}


def gap(story):
    story.final[0][2] = (3, story.second.values[0])
    story.second.acknowledge(3)


def lost(story):
    story.final[0].pop()


def seen_and_lost(story):
    story.second.offset, story.second.fate = None, story.history.send("d", 0, 1).fate
    story.read(2, (2, story.second.values[0]))
    story.final[0].pop()


def two_values(story):
    story.read(0, (0, story.first.values[1]))


def twice(story):
    story.final[0].append((3, story.second.values[0]))


def refused(story):
    bad = story.history.send("d", 0, 1)
    bad.refuse()
    story.final[0].append((3, bad.values[0]))


def foreign(story):
    story.final[0].append((3, b"x/0/0/0:"))


def skipped(story):
    story.read(0, story.final[0][0], story.final[0][2])


def late(story):
    story.read(0, story.final[0][1])


def reordered(story):
    one, other = story.history.send("d", 0, 1), story.history.send("d", 0, 1)
    story.final[0] += [(3, other.values[0]), (4, one.values[0])]


def hole(story):
    story.history.send("d", 0, 1)
    story.final[0].append((3, story.history.send("d", 0, 1).values[0]))


def same_id(story):
    story.history.producer_ids += [5, 5]


FOUND = {
    gap: "gap",
    lost: "lost-write",
    seen_and_lost: "lost-write",
    two_values: "inconsistent-offsets",
    twice: "duplicate",
    refused: "aborted-read",
    foreign: "aborted-read",
    skipped: "int-poll-skip",
    late: "int-poll-skip",
    reordered: "nonmonotonic-send",
    hole: "nonmonotonic-send",
    same_id: "an id of a producer was given out twice",
}


def test_a_good_history_has_no_anomaly():
    story = Story()
    story.read(0, *story.final[0])
    story.read(1, *story.final[0])
    story.history.send("d", 0, 1)
    assert story.found == set()


@pytest.mark.parametrize("spoil", FOUND, ids=lambda spoil: spoil.__name__)
def test_an_anomaly_is_found(spoil):
    story = Story()
    spoil(story)
    assert FOUND[spoil] in story.found
