"""Tables of functions, methods and arguments, from signatures and docstrings."""

import inspect
import re
from collections.abc import Callable, Iterator

import spark_analysis
from pipeline_broker import EmbeddedBroker, EmbeddedCluster, pytest_plugin
from scripts.source_files import first_paragraph
from spark_analysis.live.__main__ import _parser
from stages import request
from stages.socket_server import SocketServer

__all__ = [
    "METHODS",
    "arguments_of_broker",
    "fixtures",
    "functions_of_analysis",
    "functions_of_timelines",
    "methods_of_broker",
    "methods_of_server",
    "modules_for_tests",
    "options_of_live_job",
    "results_of_handlers",
]

METHODS = {
    "waiting": "wait_records wait_assigned wait_fetching wait_committed assert_records",
    "inspection": "topics records groups offsets lag requests write_spans",
    "control": "create_topic delete_topic produce expire_member advance snapshot restore reset on_loop",
    "clusters": "stop kill start move_leader leader_of coordinator_of create_topic",
}
"""Methods of EmbeddedBroker, and of EmbeddedCluster, in docs/guides/testing.md."""
ANALYSIS = (
    "stage_latency stage_series end_to_end_latency latency_by_round client_series queue_imbalance shard_latency "
    "commit_batches littles_law mute_spans request_lanes ordering_audit order_violations trace_quality"
)
"""Functions of spark_analysis in docs/reference/trace-format.md."""
TIMELINES = "topic_records request_timelines window_stage_latency stream_stage_latency"
"""Functions of spark_analysis in docs/guides/live.md."""
RESULTS = "Send NoOp Close Pending Parked Unfinished"
SERVER = "add_listener remove_listener resize_processors resize_handlers set_limits"
FOR_TESTS = (
    "memory_server memory_listener memory_transport scripted_commits drawn_commits memory_storage order_checks "
    "schedules"
)
FIXTURES = (
    "kafka_broker kafka_topic kafka_topics kafka_topic_factory kafka_group kafka_producer kafka_consumer kafka_faults "
    "kafka_schema_registry kafka_broker_fresh kafka_cluster kafka_cluster_fresh"
)
ARGUMENT = re.compile(r"^(\w+): (.+(?:\n {4,}.+)*)", re.MULTILINE)
CODE = re.compile(r"``([^`]+)``")


def _call(function: Callable[..., object], *, without: tuple[str, ...] = ("self",)) -> str:
    """Return a call with the arguments of a function and their defaults."""
    shown = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in without:
            continue
        is_required = parameter.default is parameter.empty
        shown.append(name if is_required else f"{name}={parameter.default!r}")
    return f"{function.__name__}({', '.join(shown)})"


def _text(documented: object) -> list[str]:
    """Return the paragraphs of a docstring before its sections, each in one line."""
    paragraphs = (inspect.getdoc(documented) or "").split("\n\n")
    before = [each for each in paragraphs if not re.match(r"(Args|Raises|Attributes|Returns):\n", each)]
    return [" ".join(each.split()) for each in before]


def methods_of_broker(section: str) -> Iterator[tuple[str, str]]:
    """Yield the call and the description of each method of a section."""
    for name in METHODS[section].split():
        method = getattr(EmbeddedCluster if section == "clusters" else EmbeddedBroker, name)
        yield f"`{_call(method)}`", " ".join(_text(method))


def arguments_of_broker() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the default and the meaning of each argument of EmbeddedBroker."""
    section = (inspect.getdoc(EmbeddedBroker) or "").partition("Args:\n")[2].partition("\n\n")[0]
    meanings = dict(ARGUMENT.findall(inspect.cleandoc(section)))
    for name, parameter in inspect.signature(EmbeddedBroker.__init__).parameters.items():
        if name != "self":
            default = "" if parameter.default is None else f"`{parameter.default!r}`"
            yield f"`{name}`", default, " ".join(meanings[name].split())


def fixtures() -> Iterator[tuple[str, str]]:
    """Yield the name and the description of each fixture of the pytest plugin."""
    for name in FIXTURES.split():
        fixture = getattr(pytest_plugin, name)
        yield f"`{name}`", " ".join(_text(getattr(fixture, "__wrapped__", fixture)))


def functions_of_analysis(names: str = ANALYSIS) -> Iterator[tuple[str, str]]:
    """Yield the call and the first paragraph of the description of each function of the analysis."""
    for name in names.split():
        function = getattr(spark_analysis, name)
        parameters = inspect.signature(function).parameters.values()
        shown = [each.name if each.default is each.empty else f"{each.name}=..." for each in parameters]
        yield f"`{name}({', '.join(shown)})`", _text(function)[0]


def functions_of_timelines() -> Iterator[tuple[str, str]]:
    """Yield the call and the first paragraph of the description of each function for timelines."""
    return functions_of_analysis(TIMELINES)


def options_of_live_job() -> Iterator[tuple[str, str]]:
    """Yield the options of the job that watches a running broker, with their help."""
    for action in _parser()._actions:  # noqa: SLF001 - argparse has no other list of options
        if action.option_strings and action.dest != "help":
            name = action.option_strings[-1]
            yield f"`{name} {action.metavar}`" if action.metavar else f"`{name}`", action.help or ""


def results_of_handlers() -> Iterator[tuple[str, str]]:
    """Yield the results of a handler of `stages`, with the first paragraph of their descriptions."""
    for name in RESULTS.split():
        yield f"`{name}`", _text(getattr(request, name))[0]


def methods_of_server() -> Iterator[tuple[str, str]]:
    """Yield the methods that change a running server, with their descriptions."""
    for name in SERVER.split():
        method = getattr(SocketServer, name)
        prefix = "await " if inspect.iscoroutinefunction(method) else ""
        yield f"`{prefix}server.{_call(method)}`", " ".join(_text(method))


def modules_for_tests() -> Iterator[tuple[str, str]]:
    """Yield the modules of `stages.testing`, with the first paragraph of their descriptions."""
    for name in FOR_TESTS.split():
        yield f"`{name}`", first_paragraph(f"stages/testing/{name}.py")
