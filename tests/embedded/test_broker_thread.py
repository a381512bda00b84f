"""Interrupting a call to the thread of an embedded broker cancels the call."""

import signal
import sys
import threading
from concurrent.futures import Future

import pytest
import trio

from pipeline_broker.embedded.broker_thread import BrokerThread

PATIENCE = 30.0


@pytest.fixture
def thread():
    ending = trio.Event()

    async def main(*, task_status):
        task_status.started()
        await ending.wait()

    async def end():
        ending.set()

    started = BrokerThread("of-a-test", main)
    started.start()
    yield started
    started.call(end)
    started.join()


@pytest.fixture
def _interrupts():
    """Make Ctrl-C raise KeyboardInterrupt, also under a parent that ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def waits(thread_id):
    """Return whether a thread waits for a result."""
    frame = sys._current_frames()[thread_id]
    while frame is not None and frame.f_code is not Future.result.__code__:
        frame = frame.f_back
    return frame is not None


@pytest.mark.usefixtures("_interrupts")
def test_interrupting_a_call_cancels_it(thread):
    main_id, is_cancelled = threading.main_thread().ident, threading.Event()

    async def wait():
        try:
            while not waits(main_id):
                await trio.sleep(0.001)
            signal.pthread_kill(main_id, signal.SIGINT)
            await trio.sleep_forever()
        except trio.Cancelled:
            is_cancelled.set()
            raise

    with pytest.raises(KeyboardInterrupt):
        thread.call(wait)
    assert is_cancelled.wait(PATIENCE)
