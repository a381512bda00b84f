import os
import resource
import socket

import pytest

from tests.waiting import wait_readable

ABOVE_SELECT = 1500


@pytest.fixture
def pair():
    """The ends of a connection; the first has a descriptor number that `select` rejects."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2 * ABOVE_SELECT), before[1]))
    low, other = socket.socketpair()
    with socket.socket(fileno=os.dup2(low.fileno(), ABOVE_SELECT)) as high, low, other:
        yield high, other
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_it_waits_for_data_and_for_the_end(pair):
    file, other = pair
    assert not wait_readable(file, 0.01)
    assert not wait_readable(file, -1)
    other.send(b"x")
    assert wait_readable(file, 10)
    file.recv(1)
    other.close()
    assert wait_readable(file, 10)
