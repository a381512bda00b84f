"""The pytest plugin of pipeline-broker: fixtures with an embedded broker.

pytest loads the plugin in every run of every project with pipeline-broker installed. So it imports nothing of the
package before a test uses a fixture: `pipeline_broker` imports `EmbeddedBroker` on first access. An error then fails
only that test, with one line.

Longer than most files: pytest loads the fixtures and hooks of a plugin from one module.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pytest

import pipeline_broker
from pipeline_broker._pytest_marker import MARKER, MODES, WrongMarkerError, marker_arguments

if TYPE_CHECKING:
    from pipeline_broker.embedded.arguments import SettingValue
    from pipeline_broker.embedded.embedded_broker import EmbeddedBroker
    from pipeline_broker.embedded.embedded_cluster import EmbeddedCluster
    from pipeline_broker.embedded.fault_rules import EmbeddedFaults
    from pipeline_broker.embedded.installed_client import Client
    from pipeline_broker.embedded.island import Island

__all__ = [
    "UnusedFaultWarning",
    "kafka_broker",
    "kafka_broker_fresh",
    "kafka_cluster",
    "kafka_cluster_fresh",
    "kafka_consumer",
    "kafka_faults",
    "kafka_group",
    "kafka_producer",
    "kafka_schema_registry",
    "kafka_topic",
    "kafka_topic_factory",
    "kafka_topics",
]

BROKERS = ("kafka_broker", "kafka_broker_fresh", "kafka_cluster", "kafka_cluster_fresh")
FIXTURES = tuple(name for name in __all__ if name.startswith("kafka"))
SECTIONS = {name: name.replace("_fresh", ", fresh").replace("_", " ") for name in BROKERS}
"""The titles of the report sections, by the fixture of the broker."""
SESSION = ("kafka_broker", "kafka_cluster")
INSTEAD = {
    "kafka_topic": '.create_topic("orders")',
    "kafka_topics": '.create_topic("orders")',
    "kafka_topic_factory": '.create_topic("orders")',
    "kafka_producer": ".bootstrap_servers for a producer",
    "kafka_consumer": ".bootstrap_servers for a consumer",
    "kafka_faults": ".faults",
    "kafka_schema_registry": ".schema_registry_url",
}
"""The fixtures that belong to `kafka_broker`, with the way to the same of another broker."""
NAME_CHARACTERS_MAX = 200
"""Longest name of a topic or file from a test's name. Kafka allows 249 characters, file systems 255."""

Broker = TypeVar("Broker", bound="EmbeddedBroker")
PLUGIN = Path(__file__)
GENERIC_PACKAGES = ("stages", "spark_analysis")

_numbers = itertools.count(1)  # of topics and groups
# In the stash of the configuration: the running brokers of the session, by their fixtures.
_RUNNING: pytest.StashKey[dict[str, EmbeddedBroker]] = pytest.StashKey()
# In the stash of the configuration, during a test: begins its island on a broker, given the fixture.
_BEGIN: pytest.StashKey[Callable[[str, EmbeddedBroker], None]] = pytest.StashKey()
# In the stash of a test: its brokers with their islands, by their fixtures.
_ISLANDS: pytest.StashKey[dict[str, tuple[EmbeddedBroker, Island | None]]] = pytest.StashKey()
_BEGAN_NS: pytest.StashKey[int] = pytest.StashKey()
_HAS_PASSED: pytest.StashKey[bool] = pytest.StashKey()


class UnusedFaultWarning(UserWarning):
    """A fault rule of a passed test never matched a request, so the test may have checked less than it claims."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "a Kafka broker in the test process")
    group.addoption("--kafka-mode", choices=MODES, default=None, help="request path of kafka_broker; see kafka_mode")
    group.addoption(
        "--kafka-dump",
        metavar="DIR",
        default=None,
        help="for each failed test that used kafka_broker, write an HTML page with its requests into DIR",
    )
    parser.addini("kafka_mode", f"request path of kafka_broker: {' or '.join(MODES)}", default="pipelined")
    parser.addini("kafka_client", "library of kafka_producer: confluent-kafka or kafka-python", default="")
    parser.addini(
        "kafka_settings", "broker properties of kafka_broker, one NAME=VALUE per line", type="linelist", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    config.stash[_RUNNING] = {}
    _parse_settings(config.getini("kafka_settings"))  # pytest shows an error of usage in one line only here


def _is_ours(node: Any, name: str) -> bool:
    """Return whether a fixture comes from this plugin, and not from the project under test."""
    definitions = getattr(getattr(node, "_fixtureinfo", None), "name2fixturedefs", {}).get(name, ())
    for definition in reversed(definitions):
        if definition.func.__module__ == __name__:
            return True
        if name not in definition.argnames:  # otherwise it wraps the fixture that it overrides
            return False
    return False


def _check_broker(broker: object, request: pytest.FixtureRequest) -> None:
    if not isinstance(broker, pipeline_broker.EmbeddedBroker):
        what = f"{request.fixturename} needs the kafka_broker of pipeline-broker, but this project defines a fixture of"
        how = f"that name, which gives {type(broker).__name__!r}. Rename the project's fixture."
        raise pytest.fail.Exception(f"{what} {how}", pytrace=False)


def _checked_marker(node: Any) -> dict[str, Any]:
    try:
        return marker_arguments(node)
    except WrongMarkerError as error:
        raise pytest.fail.Exception(f"@pytest.mark.kafka {error}", pytrace=False) from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a marked test with the brokers of its marker, one per mode."""
    fixtures = [name for name in BROKERS if name in metafunc.fixturenames and _is_ours(metafunc.definition, name)]
    if not fixtures:
        return
    try:
        arguments = marker_arguments(metafunc.definition)
    except WrongMarkerError:
        return  # `pytest_runtest_setup` fails the test; an error here would abort the whole collection
    modes = arguments["mode"]
    settings = tuple(sorted(arguments["settings"].items(), key=operator.itemgetter(0)))
    if not modes and not settings:
        return
    brokers = [(mode, settings) for mode in modes or [None]]
    ids = [f"{mode or ''}{'+settings' if settings else ''}".strip("+") for mode, _ in brokers]
    # Parametrize one of the fixtures; `_start_broker` uses it for all. Two would run the test once per pair of
    # modes.
    scope: Literal["session", "function"] = "session" if fixtures[0] in SESSION else "function"
    metafunc.parametrize(fixtures[0], brokers, indirect=True, ids=ids, scope=scope)


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """A broker in this process, a `pipeline_broker.EmbeddedBroker`, shared by all tests of the session."""
    yield from _of_session(request, lambda: pipeline_broker.EmbeddedBroker)


@pytest.fixture(scope="session")
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """A cluster of three brokers, a `pipeline_broker.EmbeddedCluster`, otherwise like `kafka_broker`."""
    yield from _of_session(request, lambda: pipeline_broker.EmbeddedCluster)


def _of_session(request: pytest.FixtureRequest, find: Callable[[], type[Broker]]) -> Iterator[Broker]:
    broker, stash, name = _start_broker(request, find), request.config.stash, str(request.fixturename)
    stash[_RUNNING][name] = broker
    if _BEGIN in stash:  # started by `getfixturevalue` during a test
        stash[_BEGIN](name, broker)
    yield broker
    del stash[_RUNNING][name]
    _retire(broker)


def _retire(broker: EmbeddedBroker) -> None:
    from pipeline_broker.embedded.retired import RETIRED  # noqa: PLC0415 - not before a fixture is used

    RETIRED.add(broker)


@pytest.fixture(autouse=True)
def _kafka_island(request: pytest.FixtureRequest) -> Iterator[None]:
    """Undo the effects of a test on the session's brokers, such as its fault rules.

    Of the function-scoped fixtures this is set up first and torn down last. If a test gets a broker by
    `getfixturevalue`, the island begins with the broker, or with the test if the broker is running.
    """
    item, stash = request.node, request.config.stash
    with contextlib.ExitStack() as stack:

        def begin(name: str, broker: EmbeddedBroker) -> None:
            item.stash[_ISLANDS][name] = broker, stack.enter_context(broker.island())

        for name in SESSION:
            if name in request.fixturenames and _is_ours(item, name):
                request.getfixturevalue(name)
        for name, broker in stash[_RUNNING].items():
            begin(name, broker)
        stash[_BEGIN] = begin
        stack.callback(stash.__delitem__, _BEGIN)
        yield
    for name in SESSION:
        if name in item.stash[_ISLANDS]:
            _warn(item, item.stash[_ISLANDS][name][1])


@pytest.fixture
def kafka_broker_fresh(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """A broker for this test only, otherwise like `kafka_broker`. The test may close it, and make its disk fail."""
    yield from _of_test(request, lambda: pipeline_broker.EmbeddedBroker)


@pytest.fixture
def kafka_cluster_fresh(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """A cluster of three brokers for this test only, otherwise like `kafka_cluster`."""
    yield from _of_test(request, lambda: pipeline_broker.EmbeddedCluster)


def _of_test(request: pytest.FixtureRequest, find: Callable[[], type[Broker]]) -> Iterator[Broker]:
    from pipeline_broker.embedded.island import Island  # noqa: PLC0415 - not before a fixture is used

    broker = _start_broker(request, find)
    try:
        island = Island(broker.faults)
        request.node.stash[_ISLANDS][str(request.fixturename)] = broker, island
        yield broker
    finally:
        _retire(broker)
    _warn(request.node, island)


def _warn(item: pytest.Item, island: Island | None) -> None:
    if island is not None and item.stash.get(_HAS_PASSED, False):
        for rule in island.rules_never_struck:
            item.warn(UnusedFaultWarning(f"this fault rule never struck: {rule}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Fail a passed test that began a fault rule without an effect."""
    result = yield
    for _, island in item.stash[_ISLANDS].values():
        if island is not None and (begun := island.rules_without_effect):
            effects = "such as .error(...), .delay(...), .drop() or .disconnect()"
            pytest.fail(f"this fault rule has no effect: {begun[0]}. Give it one, {effects}", pytrace=False)
    return result


def _parse_settings(lines: list[str]) -> Mapping[str, str]:
    pairs = [line.partition("=") for line in lines]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise pytest.UsageError(f"kafka_settings: {wrong[0]!r} is not of the form NAME=VALUE")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _start_broker(request: pytest.FixtureRequest, find: Callable[[], type[Broker]]) -> Broker:
    """Start a broker with the settings of the marker, the command line and the configuration file.

    An error fails the test with one line.
    """
    of_test = getattr(getattr(request.node, "callspec", None), "params", {})
    of_test = next((of_test[name] for name in BROKERS if name in of_test), (None, ()))
    of_marker, marked = getattr(request, "param", None) or of_test
    config = request.config
    mode = of_marker or config.getoption("--kafka-mode") or config.getini("kafka_mode")
    settings = {**_parse_settings(config.getini("kafka_settings")), **dict(marked)}
    try:
        kind = find()
    except ImportError as error:  # another package named stages shadows ours
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    with _failing_with_one_line(request.fixturename):
        return kind(mode=mode, settings=settings).start()


@contextlib.contextmanager
def _failing_with_one_line(fixture: str | None) -> Iterator[None]:
    from pipeline_broker.embedded.errors import EmbeddedBrokerError  # noqa: PLC0415 - not before a fixture is used

    try:
        yield
    except EmbeddedBrokerError as error:
        raise pytest.fail.Exception(f"{fixture}: {error}", pytrace=False) from None


@pytest.fixture
def kafka_topic(kafka_broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """The name of a new, empty topic for this test."""
    _check_broker(kafka_broker, request)
    name = f"{_safe(request.node.name)}-{next(_numbers)}"
    kafka_broker.create_topic(name, partitions=_checked_marker(request.node)["partitions"])
    return name


@pytest.fixture
def kafka_topics(kafka_broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Callable[..., list[str]]:
    """Create topics for this test: call the fixture with names; it returns the full names of the topics.

    A full name consists of the test's name, a number and the given name. `partitions` and `configs` are those of
    `EmbeddedBroker.create_topic`.
    """
    _check_broker(kafka_broker, request)
    of_marker = _checked_marker(request.node)["partitions"]

    def make(
        *names: str, partitions: int | None = None, configs: Mapping[str, SettingValue] | None = None
    ) -> list[str]:
        __tracebackhide__ = True
        _check_names(names)
        number = next(_numbers)
        length = NAME_CHARACTERS_MAX - max(map(len, names), default=0)
        made = [f"{_safe(request.node.name)[:length]}-{number}-{name}" for name in names]
        for name in made:
            kafka_broker.create_topic(name, partitions=of_marker if partitions is None else partitions, configs=configs)
        return made

    return make


def _check_names(names: Sequence[object]) -> None:
    __tracebackhide__ = True
    for wrong in (name for name in names if not isinstance(name, str)):
        each = ", ".join(map(repr, wrong)) if isinstance(wrong, list | tuple) else "'orders', 'bills'"
        raise pipeline_broker.EmbeddedBrokerError(f"write kafka_topics({each}): it needs names, not {wrong!r}")


@pytest.fixture(scope="session")
def kafka_topic_factory(kafka_broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Create topics in a fixture of any scope: call the fixture with a name; it returns the full name of a new topic.

    `partitions` and `configs` are those of `EmbeddedBroker.create_topic`.
    """
    _check_broker(kafka_broker, request)

    def make(
        name: str = "topic",
        *,
        partitions: int | None = None,
        configs: Mapping[str, SettingValue] | None = None,
    ) -> str:
        full_name = f"{_safe(name)}-{next(_numbers)}"
        kafka_broker.create_topic(full_name, partitions=partitions, configs=configs)
        return full_name

    return make


@pytest.fixture
def kafka_group(request: pytest.FixtureRequest) -> str:
    """The name of a new consumer group for this test."""
    return f"{_safe(request.node.name)}-{next(_numbers)}"


@pytest.fixture
def kafka_producer(kafka_broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A producer that is connected to `kafka_broker`, of confluent-kafka or else kafka-python.

    It is closed after the test. The option `kafka_client` selects the library.
    """
    _check_broker(kafka_broker, request)
    client, module = _client(request)
    with client.producer(module, kafka_broker.bootstrap_servers) as producer:
        yield producer
        _end_rules(request)


@pytest.fixture
def kafka_consumer(kafka_broker: EmbeddedBroker, kafka_group: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A consumer of the group `kafka_group` that begins with the first record, otherwise like `kafka_producer`.

    Subscribe it to the topics of the test.
    """
    _check_broker(kafka_broker, request)
    client, module = _client(request)
    with client.consumer(module, kafka_broker.bootstrap_servers, kafka_group) as consumer:
        yield consumer
        _end_rules(request)


def _client(request: pytest.FixtureRequest) -> tuple[Client, Any]:
    from pipeline_broker.embedded.installed_client import installed_client  # noqa: PLC0415 - not before a fixture is used

    with _failing_with_one_line(request.fixturename):
        return installed_client(request.config.getini("kafka_client"))


def _end_rules(request: pytest.FixtureRequest) -> None:
    # A rule that drops answers would delay the end of a client.
    broker, island = request.node.stash[_ISLANDS]["kafka_broker"]
    if island is not None:
        with contextlib.suppress(pipeline_broker.EmbeddedBrokerError):  # the test closed the broker
            broker.faults.remove_all(island.rules)


@pytest.fixture(scope="session")
def kafka_schema_registry(kafka_broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """The URL of the schema registry of `kafka_broker`, which starts with the first test that uses it."""
    _check_broker(kafka_broker, request)
    with _failing_with_one_line("kafka_schema_registry"):
        return kafka_broker.schema_registry_url


@pytest.fixture
def kafka_faults(kafka_broker: EmbeddedBroker, request: pytest.FixtureRequest) -> EmbeddedFaults:
    """The fault rules of `kafka_broker`. The rules of a test end with the test."""
    _check_broker(kafka_broker, request)
    return kafka_broker.faults


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:NAME_CHARACTERS_MAX]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGAN_NS] = time.monotonic_ns()
    item.stash[_ISLANDS] = {}
    names = getattr(item, "fixturenames", ())
    if any(name in names and _is_ours(item, name) for name in FIXTURES):
        _checked_marker(item)
        _reject_fixtures_of_another_broker(item)


def _reject_fixtures_of_another_broker(item: Any) -> None:
    info = getattr(item, "_fixtureinfo", None)
    definitions = [each[-1] for each in getattr(info, "name2fixturedefs", {}).values()]
    requested = {name for each in definitions if each.func.__module__ != __name__ for name in each.argnames}
    requested |= {*getattr(info, "initialnames", ())}
    others = [name for name in BROKERS if name in requested and _is_ours(item, name)]
    if not others or "kafka_broker" in requested:
        return
    for name, instead in INSTEAD.items():
        if name in requested and _is_ours(item, name):
            problem = f"{name} belongs to kafka_broker, which is another broker than {others[0]}"
            advice = f"write {others[0]}{instead} instead, or also request kafka_broker if you mean that one"
            pytest.fail(f"{problem}: {advice}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Add the broker's view of a failed test to its report, and note whether the test passed.

    The traceback of an error of this package ends at the line of the test.
    """
    if call.excinfo is not None and not item.config.getoption("fulltrace"):
        _end_at_the_test(call.excinfo.value)
    report: pytest.TestReport = yield
    if report.when == "call":
        item.stash[_HAS_PASSED] = report.passed
    if report.failed and (item.config.stash[_RUNNING] or item.stash.get(_ISLANDS, None)):
        report.sections += _broker_sections(item)
    return report


def pytest_exception_interact(call: pytest.CallInfo[Any], report: pytest.CollectReport | pytest.TestReport) -> None:
    """Explain a failed import of a package of ours that another package shadows."""
    raised = None if call.excinfo is None else call.excinfo.value
    error = raised if isinstance(raised, ImportError) else getattr(raised, "__cause__", None)  # of a collected module
    name = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    if name in GENERIC_PACKAGES:
        from pipeline_broker._package_check import ShadowedPackageError, ensure_package  # noqa: PLC0415 - rarely needed

        try:
            ensure_package(name)
        except ShadowedPackageError as reason:
            report.sections.append(("pipeline-broker", str(reason)))


def _end_at_the_test(error: BaseException) -> None:
    # For errors of this package, cut the traceback at the line of the test that made the mistake.
    if type(error).__module__.partition(".")[0] != __package__:
        return
    entry = error.__traceback__
    while entry is not None and (below := entry.tb_next) is not None:
        path = Path(below.tb_frame.f_code.co_filename)
        if path != PLUGIN and path.is_relative_to(PLUGIN.parent):
            entry.tb_next = None
        entry = below


def _broker_sections(item: pytest.Item) -> Iterator[tuple[str, str]]:
    from pipeline_broker.embedded.dump import is_used, report  # noqa: PLC0415 - not before a test with a broker fails

    brokers: dict[str, tuple[EmbeddedBroker, Island | None]] = {}
    for name, broker in item.config.stash[_RUNNING].items():
        if name in getattr(item, "fixturenames", ()) or is_used(broker):
            brokers[name] = broker, None  # the only entry if a fixture of a wider scope failed
    used = item.stash.get(_ISLANDS, {}).items()
    brokers |= {name: found for name, found in used if name not in SESSION or name in brokers}
    folder = item.config.getoption("--kafka-dump")
    for fixture, (broker, island) in brokers.items():
        name = _safe(item.nodeid) + fixture.removeprefix("kafka").removeprefix("_broker").replace("_", "-")
        page = None if folder is None else Path(folder).absolute() / f"{name}.html"
        rules = () if island is None else island.rules
        yield SECTIONS[fixture], report(broker, rules, item.stash.get(_BEGAN_NS, 0), page, item.nodeid)
