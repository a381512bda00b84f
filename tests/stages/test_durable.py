"""A task that waits for entries learns whether they are durable."""

from types import SimpleNamespace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from stages.durable import wait_durable


class Submitted:
    """Ends each submission, with or without an error."""

    def __init__(self, error):
        self.error = error

    def submit(self, submission):
        if self.error is None:
            submission.on_durable()
        submission.on_ended(submission, self.error)


@pytest.mark.parametrize("error", [None, OSError("full")])
def test_the_error_is_returned_and_on_durable_is_called_first(error):
    told = []
    assert trio.run(wait_durable, Submitted(error), [b"entry"], lambda: told.append("durable")) is error
    assert told == ([] if error else ["durable"])


def test_wait_durable_waits_for_a_slow_commit():
    submitted = []

    async def main():
        async with trio.open_nursery() as nursery:
            server = SimpleNamespace(submit=submitted.append)
            errors = await nursery.start(waiting, server)
            assert not errors
            submitted[0].on_ended(submitted[0], None)
            await wait_all_tasks_blocked()
            assert errors == [None]

    async def waiting(server, task_status):
        errors = []
        task_status.started(errors)
        errors.append(await wait_durable(server, [b"entry"]))

    trio.run(main)
