"""The threads of simulated processes, and what threads wait with: in virtual time, in an order that dice draw.

Rules of this file: while `drawn` runs, the rooms below find these classes in place of those of `threading`, `queue`,
`concurrent.futures` and `time`, and no others, so that none waits or looks at a clock behind the back of the dice;
nothing of what they do with them changes. A thread is a `DrawnThread`: one runs at a time, from one wait to the next,
so a seed of the dice gives the same run. It belongs to a `Process`, which may stand still, or be killed: then its
threads end where they are. The event loop must not wait for a thread that waits for time or for the loop: in the
product it would stand still, so here that is an error.

Longer than most files: all that threads wait with shares how they wait.
"""

import contextvars
import math
import queue
import random
import sys
import threading
import time
from collections import deque
from concurrent import futures
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pkgutil import walk_packages
from types import SimpleNamespace

import trio
import trio._core._run as scheduler  # a thread that the loop waits for may do what the loop may
from outcome import Error, Value, capture

from stages.testing.drawn_thread import DrawnThread, StoppedError
from tests.stages.sabotage import replaced

ROOMS = (
    "pipeline_broker.objects",
    "pipeline_broker.log",
    "pipeline_broker.faults",
    "pipeline_broker.node.archive_store",
)
"""Whose names are replaced; and the committer's, in `stages`."""
TURNS_MAX = 2
"""Turns of the loop between two steps of a thread, at most."""
LOCK_PAUSES = 12
"""One of so many takings of a lock lets others run first."""

current_process = contextvars.ContextVar("current process")


class StuckLoopError(Exception):
    """The event loop waits for a thread that waits itself: for the store, for time, or for the loop."""


class _State:
    """Which thread runs; None while the loop does."""

    running = None


def running():
    """The thread that runs; None on the event loop."""
    return _State.running


class Process:
    """Threads that live, stand still and end together.

    Args:
        dice: draw when they go on.
    """

    def __init__(self, dice):
        self.dice = dice
        self.is_dead = self.is_frozen = False
        self._awake = trio.lowlevel.ParkingLot()
        self._threads = {}
        self._context = contextvars.copy_context()
        self._context.run(current_process.set, self)

    def run_here(self, function, *arguments):
        """Call a function as this process does, so that the threads which it starts are of it."""
        return self._context.copy().run(function, *arguments)

    def spawn(self, function, *arguments):
        """Run a task of this process."""
        trio.lowlevel.spawn_system_task(function, *arguments, context=self._context.copy())

    def start(self, work):
        """Run work in a thread."""
        if self.is_dead:
            raise StoppedError
        thread = SimulatedThread(self, work)
        self._threads[thread] = None
        self.spawn(self._drive, thread)
        return thread

    async def run_sync(self, function, *arguments, abandon_on_cancel=False):
        """As `trio.to_thread.run_sync`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.is_dead:
            return None
        task = trio.lowlevel.current_task()
        is_waiting = True

        def end(result):
            nonlocal is_waiting
            if is_waiting:
                is_waiting = False
                trio.lowlevel.reschedule(task, result)

        def work():
            result = capture(function, *arguments)
            if isinstance(result, Error) and isinstance(result.error, StoppedError):
                raise result.error
            end(result)

        thread = self.start(work)
        thread.on_killed = lambda: end(Value(None) if thread.raise_cancel is None else capture(thread.raise_cancel))

        def abort(raise_cancel):
            nonlocal is_waiting
            thread.raise_cancel = raise_cancel
            if not (abandon_on_cancel or self.is_dead):
                return trio.lowlevel.Abort.FAILED
            is_waiting = False
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(abort)

    async def _drive(self, thread):
        """Step a thread whenever what it waits for is there, with others in between."""
        while not thread.is_over:
            wake, deadline = thread.wake, thread.deadline
            if wake is not None and not wake.is_set() and trio.current_time() < deadline:
                with trio.move_on_at(deadline):
                    await wake.wait()
                continue
            for _ in range(self.dice.randrange(TURNS_MAX + 1)):
                await trio.lowlevel.checkpoint()
            while self.is_frozen:
                await self._awake.park()
            if self.is_dead:
                return
            if thread.wake is wake and not thread.is_over:  # else the loop has stepped it meanwhile
                self.step(thread)

    def step(self, thread):
        before, _State.running = _State.running, thread
        try:
            thread.step()
        finally:
            _State.running = before
            if thread.is_over:
                self._threads.pop(thread, None)

    def run_until(self, condition):
        """The loop waits: its threads run until that is over."""
        while not condition():
            ready = [thread for thread in self._threads if thread.is_ready]
            if not ready or self.is_frozen:
                raise StuckLoopError("the event loop waits for a thread that waits itself")
            self.step(ready[self.dice.randrange(len(ready))])

    def freeze(self):
        """Stand still."""
        self.is_frozen = True

    def thaw(self):
        self.is_frozen = False
        self._awake.unpark_all()

    def kill(self):
        """End all threads where they are; whoever waits for one that cannot be cancelled goes on with nothing."""
        if self.is_dead:
            return
        self.is_dead = True
        self.thaw()
        killed = tuple(self._threads)
        while self._threads:
            thread = next(iter(self._threads))
            before, _State.running = _State.running, thread
            try:
                thread.stop()
            finally:
                _State.running = before
                self._threads.pop(thread, None)
                if thread.wake is not None:
                    thread.wake.set()
        trio.lowlevel.spawn_system_task(self._let_go, killed)

    @staticmethod
    async def _let_go(threads):
        for thread in threads:
            thread.on_killed()


class SimulatedThread(DrawnThread):
    """A thread of a process.

    Attributes:
        wake: set when what it waits for is there; None while it waits for nothing.
        deadline: when it goes on all the same, in virtual time.
        raise_cancel: raises the cancellation of the task that waits for it; None while there is none.
        on_killed: called when it was ended with its process.
    """

    def __init__(self, process, work):
        self.process = process
        self.wake, self.deadline = None, math.inf
        self.raise_cancel = None
        self.on_killed = lambda: None
        self._runner = scheduler.GLOBAL_RUN_CONTEXT.runner
        self._call_work = work
        super().__init__(SimulatedThread._begin)

    def _begin(self):
        """In the thread: it may do what the loop may, which waits meanwhile."""
        scheduler.GLOBAL_RUN_CONTEXT.runner = self._runner
        self._call_work()

    @property
    def is_ready(self):
        return self.wake is None or self.wake.is_set() or trio.current_time() >= self.deadline

    def wait(self, wake, seconds=None):
        """Wait until that event of Trio's is set, or for so long; whether it is set."""
        if self.process.is_dead:
            raise StoppedError
        self.wake, self.deadline = wake, math.inf if seconds is None else trio.current_time() + seconds
        self.pause()
        self.wake = None
        return wake.is_set()

    def let_others_run(self):
        self.pause()


def _here():
    """The process whose code runs; None for what belongs to none."""
    thread = running()
    return current_process.get(None) if thread is None else thread.process


class _Waiting:
    """Threads that wait for a lock, an event or a condition, in the order in which they came."""

    def __init__(self):
        self._process = _here()
        self._wakes = deque()

    def wait(self, seconds=None):
        """Whether it was woken in time."""
        thread, wake = running(), trio.Event()
        self._wakes.append(wake)
        if thread is not None:
            is_woken = thread.wait(wake, seconds)
        else:
            if seconds is not None:
                raise StuckLoopError("the event loop waits for time")
            self._process.run_until(wake.is_set)
            is_woken = True
        if not is_woken:
            self._wakes.remove(wake)
        return is_woken

    def wake(self, count=1):
        for _ in range(min(count, len(self._wakes))):
            self._wakes.popleft().set()

    def wake_all(self):
        self.wake(len(self._wakes))


class Lock:
    """See `threading.Lock`."""

    def __init__(self):
        self._holder = None
        self._is_held = False
        self._waiting = _Waiting()

    def acquire(self, blocking=True, timeout=-1):
        assert timeout == -1, "nothing simulated waits for a lock for a time"
        thread = running()
        if thread is not None and blocking and not thread.process.dice.randrange(LOCK_PAUSES):
            thread.let_others_run()
        while self._is_held:
            if not blocking:
                return False
            self._waiting.wait()
        self._holder, self._is_held = thread, True
        return True

    def release(self):
        assert self._is_held, "only what was taken is released"
        self._holder, self._is_held = None, False
        self._waiting.wake()

    def locked(self):
        return self._is_held

    def is_mine(self):
        return self._is_held and self._holder is running()

    def release_wholly(self):
        """Release it however often it was taken; how often that was."""
        self.release()
        return 1

    def acquire_again(self, count):
        self.acquire()

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()


class RLock(Lock):
    """See `threading.RLock`."""

    def __init__(self):
        super().__init__()
        self._count = 0

    def acquire(self, blocking=True, timeout=-1):
        if not self.is_mine() and not super().acquire(blocking, timeout):
            return False
        self._count += 1
        return True

    def release(self):
        thread = running()
        if thread is not None and thread.process.is_dead and not self.is_mine():
            return  # a thread that was ended where it waited for a condition has not taken it again
        assert self.is_mine(), "only the holder releases it"
        self._count -= 1
        if not self._count:
            super().release()

    def release_wholly(self):
        count, self._count = self._count, 1
        self.release()
        return count

    def acquire_again(self, count):
        self.acquire()
        self._count = count


class Condition:
    """See `threading.Condition`."""

    def __init__(self, lock=None):
        self._lock = RLock() if lock is None else lock
        self._waiting = _Waiting()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self):
        return self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()

    def wait(self, timeout=None):
        assert self._lock.is_mine()
        count = self._lock.release_wholly()
        try:
            return self._waiting.wait(timeout)
        finally:
            self._lock.acquire_again(count)

    def wait_for(self, predicate, timeout=None):
        deadline = None if timeout is None else trio.current_time() + timeout
        while not (result := predicate()):
            if not self.wait(None if deadline is None else deadline - trio.current_time()):
                return predicate()
        return result

    def notify(self, n=1):
        self._waiting.wake(n)

    def notify_all(self):
        self._waiting.wake_all()


class Event:
    """See `threading.Event`."""

    def __init__(self):
        self._is_set = False
        self._waiting = _Waiting()

    def is_set(self):
        return self._is_set

    def set(self):
        self._is_set = True
        self._waiting.wake_all()

    def clear(self):
        self._is_set = False

    def wait(self, timeout=None):
        return self._is_set or self._waiting.wait(timeout) or self._is_set


class Thread:
    """See `threading.Thread`; what its work raises ends the simulation."""

    def __init__(self, target, args=(), name=None, daemon=None):
        self._target, self._arguments = target, args
        self._ended = Event()

    def start(self):
        _here().start(self._run)

    def _run(self):
        try:
            self._target(*self._arguments)
        finally:
            self._ended.set()

    def join(self, timeout=None):
        self._ended.wait(timeout)

    def is_alive(self):
        return not self._ended.is_set()


class SimpleQueue:
    """See `queue.SimpleQueue`."""

    def __init__(self):
        self._items = deque()
        self._waiting = _Waiting()

    def put(self, item):
        self._items.append(item)
        self._waiting.wake()

    def get(self):
        while not self._items:
            self._waiting.wait()
        return self._items.popleft()

    def qsize(self):
        return len(self._items)


class Future(futures.Future):
    """See `concurrent.futures.Future`, whose condition is a simulated one."""

    def __init__(self):
        super().__init__()
        self._condition = Condition()


class ThreadPoolExecutor:
    """See `concurrent.futures.ThreadPoolExecutor`."""

    def __init__(self, max_workers, thread_name_prefix=""):
        self._threads_max = max_workers
        self._threads = []
        self._idle = 0
        self._work = deque()
        self._is_shut_down = False
        self._changed = Condition()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()

    def submit(self, function, *arguments):
        with self._changed:
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            future = Future()
            self._work.append((future, function, arguments))
            if self._idle >= len(self._work):
                self._changed.notify()
            elif len(self._threads) < self._threads_max:
                self._threads.append(Thread(self._run))
                self._threads[-1].start()
        return future

    def map(self, function, *iterables):
        results = [self.submit(function, *arguments) for arguments in zip(*iterables, strict=True)]
        return (future.result() for future in results)

    def _run(self):
        while True:
            with self._changed:
                while not self._work:
                    if self._is_shut_down:
                        return
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                future, function, arguments = self._work.popleft()
            if future.set_running_or_notify_cancel():
                result = capture(function, *arguments)
                if not isinstance(result, Error):
                    future.set_result(result.value)
                elif isinstance(result.error, StoppedError):
                    raise result.error
                else:
                    future.set_exception(result.error)

    def shutdown(self, wait=True, *, cancel_futures=False):
        with self._changed:
            self._is_shut_down = True
            if cancel_futures:
                for future, *_ in self._work:
                    future.cancel()
                self._work.clear()
            self._changed.notify_all()
        if wait:
            for thread in self._threads:
                thread.join()


def sleep(seconds):
    thread = running()
    if thread is None:
        raise StuckLoopError("the event loop sleeps")
    thread.wait(trio.Event(), seconds)


def monotonic():
    return trio.current_time()


def monotonic_ns():
    return round(trio.current_time() * 1_000_000_000)


async def run_sync(function, *arguments, abandon_on_cancel=False, **_):
    """In place of `trio.to_thread.run_sync`."""
    process = current_process.get()
    return await process.run_sync(function, *arguments, abandon_on_cancel=abandon_on_cancel)


def check_cancelled():
    """In place of `trio.from_thread.check_cancelled`."""
    thread = running()
    if thread is None:
        raise RuntimeError("this thread wasn't created by Trio")
    if thread.raise_cancel is not None:
        thread.raise_cancel()


REPLACEMENTS = (
    (threading, SimpleNamespace(Lock=Lock, RLock=RLock, Condition=Condition, Event=Event, Thread=Thread)),
    (
        time,  # a thread works all the time: how long it really did, no seed says
        SimpleNamespace(sleep=sleep, monotonic=monotonic, monotonic_ns=monotonic_ns, thread_time_ns=monotonic_ns),
    ),
    (queue, SimpleNamespace(SimpleQueue=SimpleQueue, Empty=queue.Empty)),
    (futures.ThreadPoolExecutor, ThreadPoolExecutor),
    (futures.Future, Future),
)
WITHOUT_EXTRAS = ("pipeline_broker.objects.cloud_store",)


def _modules():
    """All of the rooms, also those that are imported with first use."""
    for room in ROOMS:
        module = import_module(room)
        for found in walk_packages(getattr(module, "__path__", ()), f"{room}."):
            if found.name not in WITHOUT_EXTRAS:
                import_module(found.name)
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name == "stages.committer" or any(name == room or name.startswith(f"{room}.") for room in ROOMS)
    ]


@contextmanager
def drawn():
    """Have the rooms wait in virtual time."""
    with ExitStack() as stack:
        for module in _modules():
            for name, value in list(vars(module).items()):
                for original, replacement in REPLACEMENTS:
                    if value is original:
                        stack.enter_context(replaced(module, name, replacement))
        stack.enter_context(replaced(trio.to_thread, "run_sync", run_sync))
        stack.enter_context(replaced(trio.from_thread, "check_cancelled", check_cancelled))
        yield


def dice(text):
    """Of a process."""
    return random.Random(text)
