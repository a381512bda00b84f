"""One connection alone commits: noticed after a while, over with the first commit that is not its own or not fast."""

import pytest

from stages.committer import Commit, Submission
from stages.lone_connection import COMMITS_MIN, FAST_COMMIT_NS, LoneConnection
from stages.request import Request


class Connection:
    def __init__(self, connection_id):
        self.id = connection_id


def commit_of(*connection_ids, duration_ns=1, error=None):
    commit = Commit(0)
    commit.submissions += [
        Submission([], request=connection_id and Request(Connection(connection_id), 0, b"", 0))
        for connection_id in connection_ids
    ]
    commit.durable_ns, commit.error = duration_ns, error
    return commit


def noticed(*commits):
    lone = LoneConnection()
    for commit in commits:
        lone.commit_ended(commit)
    return lone.is_there


ALONE = [commit_of("a")] * (COMMITS_MIN + 1)


def test_it_is_noticed_after_as_many_commits_in_a_row():
    assert noticed(*ALONE)
    assert not noticed(*ALONE[1:])


@pytest.mark.parametrize(
    "other",
    [
        commit_of("b"),
        commit_of("a", "a"),
        commit_of(None),
        commit_of("a", duration_ns=FAST_COMMIT_NS),
        commit_of("a", error=OSError()),
    ],
    ids=["another connection", "two requests", "no request", "slow", "failed"],
)
def test_it_is_over_with_the_first_other_commit(other):
    assert not noticed(*ALONE, other)
    assert not noticed(*ALONE, other, commit_of("a"))
    assert noticed(*ALONE, other, *ALONE)
