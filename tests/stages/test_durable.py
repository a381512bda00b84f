"""Whoever waits for entries learns whether they are durable."""

import pytest
import trio

from stages.durable import wait_durable


class Submitted:
    """Ends what is submitted with an error, or without one."""

    def __init__(self, error):
        self.error = error

    def submit(self, submission):
        if self.error is None:
            submission.on_durable()
        submission.on_ended(submission, self.error)


@pytest.mark.parametrize("error", [None, OSError("full")])
def test_the_error_is_returned_and_what_is_durable_is_told_before(error):
    told = []
    assert trio.run(wait_durable, Submitted(error), [b"entry"], lambda: told.append("durable")) is error
    assert told == ([] if error else ["durable"])
