"""Broker and pytest processes as forks of a process that has imported their modules.

A new interpreter takes six times the processor time. A fork is an ordinary process with its own arguments, environment,
standard files and process group. But options of Python, wrapper tools, and environment variables that the interpreter
or the system's libraries read at startup need a new interpreter.

The parent of all forks belongs to the first process that asks, and ends with it. It reports how a fork ended, because
the system tells only the parent.
"""

import atexit
import gc
import importlib
import json
import os
import re
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "pipeline_broker"
PROGRAM = ("-m", PACKAGE)
LOADED = ("pipeline_broker.commands.serve", "pipeline_broker.node.process", "pipeline_broker.node.upkeep")
"""Modules that import nearly everything that a broker imports; each fork imports the rest."""
PYTEST = ("-m", "pytest")
LOADED_FOR_PYTEST = ("pytest", "pipeline_broker.embedded.embedded_broker", "pipeline_broker.embedded.island", *LOADED)
"""The same for pytest with the plugin, which pytest itself must be the first to load: it rewrites its assertions."""
LOOKED_AT_EARLY = re.compile("PYTHON|LD_|LC_|LANG|MALLOC_|GLIBC_|TZ$")
STDIN, STDOUT, STDERR = range(3)


def start_python(arguments, stderr, *, program=PROGRAM, prefix=(), environment=None, process_group=None, stdin=None):
    """Start a program in ROOT, as a fork where that makes no difference. Its output is a pipe.

    Args:
        arguments: the arguments of the program.
        stderr: an open file for standard error.
        program: PROGRAM, or a file and its first arguments.
        prefix: the command of a tool that runs Python.
        environment: variables that override those of this process.
        process_group: 0: make it the leader of a new group.
        stdin: an open file for standard input; by default it is empty.
    """
    variables = {**os.environ, **(environment or {})}
    is_program = program == PROGRAM or program[0].endswith(".py")
    if is_program and not prefix and not PARENT.differs_early(variables):
        return PARENT.fork([*program, *arguments], stderr, variables, process_group, stdin=stdin)
    return subprocess.Popen(
        [*prefix, sys.executable, *program, *arguments],
        cwd=ROOT,
        stdin=stdin or subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={"PYTHONPATH": str(ROOT), **variables},  # for a file, which Python begins in its own folder
        process_group=process_group,
    )


def run_command(*arguments, seconds_max=60.0):
    """Run a command of the package in ROOT, as a fork. Like `subprocess.run` with text output."""
    variables = dict(os.environ)
    assert not PARENT.differs_early(variables), "a new interpreter would behave differently: use start_python"
    return PARENT.run([*PROGRAM, *arguments], variables, seconds_max)


class Parent:
    """The parent process of the forks.

    Args:
        loaded: modules that it imports.
        environment: variables that override those of this process.
    """

    def __init__(self, loaded, environment=None):
        self._loaded = loaded
        self._environment = environment or {}
        self._process = None
        self._owner = None
        self._variables = {}
        self._asked = 0
        self._lock = threading.Lock()

    @property
    def pid(self):
        """The id of the parent; None before it runs."""
        return self._process.pid if self._process and self._owner == os.getpid() else None

    def differs_early(self, variables):
        """Return whether these variables would change the interpreter's startup."""
        ours = self._variables if self.pid else {**os.environ, **self._environment}
        return early(variables) != early(ours)

    def fork(self, arguments, stderr, variables, process_group=None, folder=ROOT, stdin=None):
        read_end, write_end = os.pipe()
        files = [f"/proc/{os.getpid()}/fd/{descriptor}" for descriptor in (write_end, stderr.fileno())]
        files.insert(STDIN, f"/proc/{os.getpid()}/fd/{stdin.fileno()}" if stdin else os.devnull)
        try:
            pid = self.ask(
                arguments=[*map(str, arguments)],
                files=files,
                variables=variables,
                leads=process_group == 0,
                folder=str(folder),
            )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        return Fork(self, pid, os.fdopen(read_end, "rb", buffering=0), arguments)

    def run(self, arguments, variables, seconds_max, folder=ROOT):
        """Run a fork to its end, and return its output and exit code. Kills it after `seconds_max`."""
        with tempfile.TemporaryFile() as stderr:
            fork = self.fork(arguments, stderr, variables, folder=folder)
            killer = threading.Timer(seconds_max, fork.kill)
            killer.start()
            with fork.stdout:
                printed = fork.stdout.read()
            code = fork.wait()
            killer.cancel()
            killer.join()
            stderr.seek(0)
            return subprocess.CompletedProcess(arguments, code, printed.decode(), stderr.read().decode())

    def ask(self, **request):
        """Send a request to the parent; return the number that it answers."""
        with self._lock:
            if self.pid is None:
                self._start()
            self._asked += 1
            self._process.stdin.write(json.dumps({"number": self._asked, **request}).encode() + b"\n")
            self._process.stdin.flush()
            while True:
                number, answer = map(int, self._process.stdout.readline().split())
                if number == self._asked:  # earlier answers belong to callers that were interrupted
                    return answer

    def _start(self):
        if self._process:  # of the process that this one is a fork of
            self._process.returncode = 0
        self._owner, self._variables = os.getpid(), {**os.environ, **self._environment}
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "tests.forks", *self._loaded]
        self._process = subprocess.Popen(command, cwd=ROOT, env=self._variables, stdin=pipe, stdout=pipe)
        atexit.register(self._end)

    def _end(self):
        if self.pid:
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()


PARENT = Parent(LOADED)
ANYWHERE = {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": ""}
"""Variables by which Python finds the packages of this repository, and those of the current directory."""
PARENT_OF_PYTEST = Parent(LOADED_FOR_PYTEST, ANYWHERE)
PARENTS = PARENT, PARENT_OF_PYTEST


def early(variables):
    return {name: value for name, value in variables.items() if LOOKED_AT_EARLY.match(name)}


class Fork:
    """A fork, with the interface of `subprocess.Popen`."""

    def __init__(self, parent, pid, stdout, arguments):
        self._parent = parent
        self.pid = pid
        self.stdout = stdout
        self.args = arguments
        self.returncode = None
        self._lock = threading.Lock()

    def poll(self):
        return self._ended_within(0)

    def wait(self, timeout=None):
        if self._ended_within(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, seconds):
        if self.returncode is None and self._ends_within(seconds):
            with self._lock:
                if self.returncode is None:
                    self.returncode = self._parent.ask(ended=self.pid)
        return self.returncode

    def _ends_within(self, seconds):
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:  # another thread has awaited it
            return True
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return bool(poll.poll(None if seconds is None else seconds * 1000))
        finally:
            os.close(descriptor)


def be_parent(loaded):
    """Fork on request, and report how forks ended, until standard input closes.

    Returns the arguments of the program in a fork, and None in the parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: it ends with who started it
    for name in loaded:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    requests = b""
    while chunk := os.read(STDIN, 1 << 16):
        requests += chunk
        while b"\n" in requests:
            line, requests = requests.split(b"\n", 1)
            request = json.loads(line)
            number = request.pop("number")
            if "ended" in request:
                answer = os.waitstatus_to_exitcode(os.waitpid(request["ended"], 0)[1])
            elif not (answer := fork(**request)):
                return request["arguments"]
            os.write(STDOUT, b"%d %d\n" % (number, answer))
    return None


def fork(arguments, files, variables, leads, folder):
    """Like os.fork; the child has its own files, variables, process group and directory."""
    del arguments
    stdin, *outputs = files
    opened = [os.open(stdin, os.O_RDONLY), *(os.open(path, os.O_WRONLY) for path in outputs)]
    pid = os.fork()
    if leads:
        os.setpgid(pid, 0)
    if not pid:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for standard, descriptor in enumerate(opened):
            os.dup2(descriptor, standard)
        os.environ.clear()
        os.environ.update(variables)
        os.chdir(folder)
    for descriptor in opened:
        os.close(descriptor)
    return pid


if __name__ == "__main__":
    found = be_parent(sys.argv[1:])
    if found and found[0] == "-m":
        sys.argv[1:] = found[2:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(found[1], run_name="__main__", alter_sys=True)
    elif found:
        sys.argv = found
        runpy.run_path(found[0], run_name="__main__")
