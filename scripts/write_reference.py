"""Write the generated parts of docs from what the source declares.

Run it after a change of a declaration: `python -m scripts.write_reference`. A test fails while a page is not
current. A generated part lies between `<!-- generated: NAME -->` and `<!-- end of NAME -->`.

Longer than most files: a part takes a few lines, and `parts` names all of them.
"""

import functools
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.cli import COMMANDS, main
from pipeline_broker.commands.cluster.bootstrap import ClientCommand
from pipeline_broker.config.properties import broker_properties, topic_properties
from pipeline_broker.config.resources import GROUP, RESOURCE_KINDS
from pipeline_broker.config.settings import KAFKA_VERSION, is_acted_on, is_topic_setting_acted_on
from pipeline_broker.measure.experiment import runs
from pipeline_broker.wire.registry import API_KEYS
from pyspark_pipeline_broker import options as of_source
from pyspark_pipeline_broker.sink import sink_options as of_sink
from scripts import described_python
from scripts.declared_limits import LIMITS, declared_limits, meanings
from scripts.declared_metrics import SECTIONS, declared_metrics, section_of
from scripts.entry_points import entry_points
from scripts.name_behaviour_tests import by_key, every_test, invariants_of, keys_of
from scripts.results_tables import RESULTS, results
from scripts.source_files import counterparts, first_paragraph, imports_directly, paragraphs, parts_of, reaches
from spark_analysis.derived import DERIVED
from spark_analysis.report.method import WORDS
from spark_analysis.tables import COLUMNS, STAGES, TABLES
from tests.apis.access_table import table as rights_table

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CHOICE = re.compile(r"^\[([^\[\]]*)\]$")
"""The brackets that click writes around the values of a choice."""
PART = re.compile(r"<!-- generated: (?P<name>[^>]*) -->\n.*?<!-- end of (?P=name) -->", re.DOTALL)

SUBJECTS = {
    "listeners and connections": "listener advertised. control inter. security. socket. conn max.conn node. broker.",
    "TLS": "ssl.",
    "authentication and access": "sasl. authorizer. delegation.",
    "requests and threads": "num.io num.network background. queued. quota. fetch. max.inc max.request telemetry.",
    "topics and logs": "num.partitions auto.create delete.topic message. compression. log. min.insync",
    "share groups": "errors.deadletterqueue. group.share. share.",
    "groups and offsets": "group. offset",
    "transactions and producers": "transaction producer.",
    "this broker's own": "pipeline. wal.",
}
"""Subjects of broker properties, each with prefixes of names; the first match counts."""


SELECTOR = "of Kafka's selector"
TESTED = {
    "behaviours": (
        "1-61",
        "62-77",
        "78-97",
        "98-103",
        SELECTOR,
    ),
    "cases": ("1-42, 79, 82, 87", "43-67, 84, 85"),
}
"""Behaviours and cases with a common list of tests."""

DESCRIBED_BY_HAND = ("serve", "compare")
"""Commands whose section explains more than their --help."""
EXAMPLES_NOT_RUN = {
    "transactions describe": "it needs a transaction; tests/commands/cluster/test_transactions.py has some",
    "transactions abort": "it needs a transaction; tests/commands/cluster/test_transactions.py has some",
    "users set": "it asks for a password; tests/commands/cluster/test_users.py gives one",
}
"""Examples of --help that need more than a cluster, with the reason."""

STAGES_OF_PAGES = (
    "request queue", "handler", "commit wait", "other wait", "order wait", "response queue", "send"
)  # fmt: skip
"""Stages that docs/guides/dashboard.md defines."""
DESCRIBED = {
    "fixtures": ("fixture", "value"),
    "methods for waiting": ("method", "effect"),
    "methods for inspection": ("method", "effect"),
    "methods for control": ("method", "effect"),
    "methods for clusters": ("method", "effect"),
    "arguments of EmbeddedBroker": ("argument", "default", "meaning"),
    "functions of the analysis": ("function", "result"),
    "functions for timelines": ("function", "result"),
    "options of the live job": ("option", "meaning"),
    "results of a handler": ("result", "meaning"),
    "methods of a server": ("call", "effect"),
    "modules for tests": ("module", "content"),
}
"""Parts that are made from docstrings, with their headings."""

CLIENT_TESTS = "messages groups idempotence consumer_protocol share_groups java"
"""Tests with clients of other projects, in tests/clients."""
MAPPED = ("pipeline_broker/node", "pipeline_broker/broker", "pyspark_pipeline_broker", "spark_analysis")
"""Folders whose files the source map lists."""

SHARED_OPTIONS = ("--bootstrap-server", "--command-config", "--set", "--timeout")
"""Options of every command for any cluster."""


def row(*cells: object) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def table(heading: tuple[str, ...], rows: Iterable[str]) -> str:
    """Return a table in Markdown."""
    return "\n".join([row(*heading), "|---" * len(heading) + "|", *rows])


def apis() -> str:
    """Return the APIs and their versions."""
    rows = []
    for key, api in sorted(SERVED.items()):
        declared = API_KEYS[api.key].versions
        spans = (span(api.versions[0], api.versions[-1]), span(declared[0], declared[-1]), span(*api.advertised))
        rows.append(row(int(key), api.name, *spans))
    return table(("key", "API", "served", f"in Apache Kafka {KAFKA_VERSION}", "advertised"), rows)


def span(lowest: int, highest: int) -> str:
    """Return a range of versions."""
    return str(lowest) if lowest == highest else f"{lowest}-{highest}"


def subject_of(name: str) -> str:
    """Return the subject of a broker property."""
    return next(subject for subject, beginnings in SUBJECTS.items() if name.startswith(tuple(beginnings.split())))


def broker_settings(subject: str) -> str:
    """Return the broker properties of a subject that are acted on."""
    rows = [
        row(f"`{name}`", shown(definition.default), definition.documentation)
        for name, definition in sorted(broker_properties().items())
        if is_acted_on(name) and subject_of(name) == subject
    ]
    return table(("property", "default", "meaning"), rows)


def topic_settings() -> str:
    """Return the settings of topics that are acted on."""
    rows = [
        row(f"`{name}`", shown(definition.default), shown(definition.broker_property), definition.documentation)
        for name, definition in sorted(topic_properties().items())
        if is_topic_setting_acted_on(name)
    ]
    return table(("setting of a topic", "default", "inherits", "meaning"), rows)


def group_settings() -> str:
    """Return the settings of groups that are acted on."""
    rows = [
        row(f"`{name}`", shown(definition.default), definition.documentation)
        for name, definition in sorted(RESOURCE_KINDS[GROUP].properties.items())
        if definition.documentation
    ]
    return table(("setting of a group", "default", "meaning"), rows)


def packages() -> str:
    """Return the packages of the broker."""
    rows = []
    for part in parts_of("pipeline_broker"):
        nested = parts_of(f"pipeline_broker/{part}") if part.endswith("/") else []
        for name in (part, *(f"{part}{each}" for each in nested if each.endswith("/"))):
            path = f"pipeline_broker/{name}"
            if content := first_paragraph(path):
                rows.append(row(f"`{name}`", content, "yes" if reaches(path, "trio") else "no"))
    return table(("package of `pipeline_broker`", "content", "reaches Trio"), rows)


def files_of(folder: str) -> str:
    """Return the files and packages in a folder."""
    shows_spark = folder == "spark_analysis"
    rows = []
    for part in parts_of(folder):
        cells = [f"`{part}`", first_paragraph(f"{folder}/{part}")]
        if shows_spark:
            cells.append("yes" if imports_directly(f"{folder}/{part}", "pyspark") else "no")
        rows.append(row(*cells))
    heading = (f"file of `{folder.removeprefix('pipeline_broker/')}/`", "content")
    return table((*heading, "imports Spark at once") if shows_spark else heading, rows)


def requests_of_entry_points() -> str:
    """Return every request of each entry point."""
    rows = [row(name, ", ".join(f"`{each}`" for each in requests)) for name, requests in entry_points().items()]
    return table(("entry point", "requests"), rows)


def limits(section: str) -> str:
    """Return the limits of a section that are constants of the source."""
    rows = [row(each.meaning.removesuffix("."), each.value, f"`{each.name}`") for each in declared_limits(section)]
    return table(("limit", "value", "constant"), rows)


def described(kind: str, heading: tuple[str, ...]) -> str:
    """Return a table of functions, methods, fixtures or arguments from their docstrings."""
    found = {
        "fixtures": described_python.fixtures,
        "arguments of EmbeddedBroker": described_python.arguments_of_broker,
        "functions of the analysis": described_python.functions_of_analysis,
        "functions for timelines": described_python.functions_of_timelines,
        "options of the live job": described_python.options_of_live_job,
        "results of a handler": described_python.results_of_handlers,
        "methods of a server": described_python.methods_of_server,
        "modules for tests": described_python.modules_for_tests,
    }.get(kind) or functools.partial(described_python.methods_of_broker, kind.removeprefix("methods for "))
    return table(heading, [row(*cells) for cells in found()])


def spark_options(kind: str) -> str:
    """Return the options of the Spark source or sink."""
    declared = {"source": of_source.OPTIONS, "sink": of_sink.OPTIONS}[kind]
    rows = [row(f"`{name}`", shown(each.default), each.meaning) for name, each in declared.items()]
    return table(("option", "default", "meaning"), rows)


def formulas() -> str:
    """Return the stages of a request as differences of stamps."""
    rows = [row(name, f"{end[:-3]} - {begin[:-3]}") for name, (begin, end) in STAGES.items()]
    return table(("stage", "formula"), rows)


def sample_of_summary() -> str:
    """Return the summary of the kept run with the longest entry of each list."""
    whole = json.loads((ROOT / "examples/kept_run/run/summary.json").read_text(encoding="utf-8"))

    def shortened(value: object) -> object:
        if isinstance(value, list):
            return [shortened(max(value, key=lambda each: len(json.dumps(each))))] if value else []
        if isinstance(value, dict):
            return {name: shortened(each) for name, each in value.items()}
        return float(f"{value:.5g}") if isinstance(value, float) else value

    lines = [f'"{name}": {json.dumps(shortened(value), ensure_ascii=False)}' for name, value in whole.items()]
    return "```json\n{" + ",\n ".join(lines) + "}\n```"


def tests_of_invariants() -> str:
    """Return the tests whose names begin with the numbers of invariants."""
    found: dict[int, list[str]] = {}
    for test in every_test():
        for number in invariants_of(test):
            found.setdefault(number, []).append(f"`{test.removeprefix('tests/')}`")
    return table(("#", "tests"), [row(number, " ".join(tests)) for number, tests in sorted(found.items())])


def words_of_report() -> str:
    """Return the words that the report explains itself."""
    return table(("word", "meaning"), [row(word, meaning) for word, meaning in WORDS.items()])


def words_of_dashboard() -> str:
    """Return the words, other than stages, that the pages of the dashboard explain."""
    script = (ROOT / "pipeline_broker/dashboard/static/glossary.js").read_text(encoding="utf-8")
    words = json.loads(script.partition("WORDS = ")[2].rstrip().rstrip(";"))
    own = {word: meaning for word, meaning in words.items() if word not in {*STAGES_OF_PAGES, *WORDS}}
    return table(("word", "meaning"), [row(word, meaning) for word, meaning in own.items()])


def counterparts_in_kafka() -> str:
    """Return the classes of Kafka and AutoMQ, and the files here that do their work."""
    rows = [
        row(
            each.name if each.origin == "Kafka" else f"AutoMQ: {each.name}",
            ", ".join(f"`{file}`" for file in each.files),
            each.difference,
        )
        for each in counterparts()
    ]
    return table(("Kafka", "here", "difference"), rows)


def experiments() -> str:
    """Return the experiments of a comparison."""
    declared = meanings(ROOT / "pipeline_broker/measure/experiment/runs.py")
    rows = [
        row(f"`{getattr(runs, name)}`", declared[name]) for name in sorted(declared) if name.endswith("_EXPERIMENT")
    ]
    return table(("`experiment`", "runs"), rows)


def checks_of_simulation() -> str:
    """Return the checks of the simulation, which the docstrings of its files name."""
    rows = [
        row(f"`{path.name}`", each.removeprefix("Checks: "))
        for path in sorted((ROOT / "tests/simulation").glob("*.py"))
        for each in paragraphs(path)
        if each.startswith("Checks: ")
    ]
    return table(("file", "checks"), rows)


def machines_of_groups() -> str:
    """Return the machine tests of groups with the invariants in their docstrings."""
    rows = []
    for path in sorted((ROOT / "tests/state").rglob("test_*_machine.py")):
        listed = [each for each in paragraphs(path) if each.startswith("* ")]
        if listed:
            text = " ".join(line.strip() for line in listed[0].removeprefix("* ").split(" * "))
            rows.append(row(f"`{path.relative_to(ROOT)}`", text))
    return table(("test", "properties"), rows)


def scenarios_of_clients() -> str:
    """Return the tests with clients of other projects."""
    rows = [row(f"`test_{name}.py`", first_paragraph(f"tests/clients/test_{name}.py")) for name in CLIENT_TESTS.split()]
    return table(("test", "scenario"), rows)


def results_of(name: str) -> str:
    """Return a table of measured results."""
    heading, rows = results(name)
    return table(heading, [row(*cells) for cells in rows])


def claiming_tests(kind: str, listed: str) -> str:
    """Return the tests of the listed behaviours or cases, without those that no test claims."""
    claiming, prefix = by_key(every_test()), "case " if kind == "cases" else ""
    keys = sorted(key for key in claiming if key.startswith("test")) if listed == SELECTOR else keys_of(listed)
    named = {key: claiming.get(f"{prefix}{key}", []) for key in keys}
    rows = [
        row(key, " ".join(f"`{test.removeprefix('tests/')}`" for test in tests))
        for key, tests in named.items()
        if tests
    ]
    return table((kind.removesuffix("s"), "tests"), rows)


def trace_columns(name: str) -> str:
    """Return the columns of a table of traces."""
    rows = [row(f"`{column}`", kind, meaning) for column, (kind, meaning) in COLUMNS[name].items()]
    return table(("column", "type", "meaning"), rows)


def derived_tables() -> str:
    """Return the columns of the tables with the results of a report."""
    rows = [row(f"`{name}`", ", ".join(f"`{column}`" for column in columns)) for name, columns in DERIVED.items()]
    return table(("table", "columns"), rows)


def metrics(section: str) -> str:
    """Return the metrics of a section."""
    rows = [
        row(f"`{each.name}`", each.kind, each.meaning, each.kafka_name)
        for each in declared_metrics()
        if section_of(each.name) == section
    ]
    return table(("metric", "kind", "meaning", "Kafka's name"), rows)


def commands() -> dict[str, click.Command]:
    """Return each command that has options, by its title."""
    found: dict[str, click.Command] = {}
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        below = command.commands if isinstance(command, click.Group) else {}
        found |= {f"{name} {each}": value for each, value in below.items()} or {name: command}
    return {title: command for title, command in found.items() if options(command)}


def options(command: click.Command, *, shared: bool = False) -> list[click.Option]:
    """Return the options of a command, or those that all commands for any cluster share."""
    names = SHARED_OPTIONS if isinstance(command, ClientCommand) else ()
    found = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    return [each for each in found if (each.opts[0] in names) == shared]


def option_table(found: list[click.Option], command: click.Command) -> str:
    """Return a table of options; meanings are the texts of --help."""
    context = click.Context(command)
    rows = []
    for option in found:
        _, text = option.get_help_record(context) or ("", "")
        default = re.search(r"\[default: ([^;\]]*)", text)
        value = "" if option.is_flag else " " + CHOICE.sub(r"\1", option.make_metavar(context))
        names = ", ".join(f"`{name}{value}`" for name in option.opts + option.secondary_opts)
        meaning = re.sub(r"\s*\[[^\]]*\]$", "", option.help or "")
        rows.append(row(names, shown(default and default[1]), meaning))
    return table(("option", "default", "meaning"), rows)


def command_section(title: str, command: click.Command) -> str:
    """Return the text, the options and the examples of --help."""
    text, _, examples = f"{command.help}\n\n{command.epilog or ''}".replace("\b\n", "").partition("Examples:\n")
    parts = []
    for paragraph in text.strip().split("\n\n"):
        is_list = re.search(r"\S {2,}\S", paragraph)
        shown_words = re.sub(r"(?<![\w`])(__\w+)", r"`\1`", " ".join(paragraph.split()))
        parts.append(f"```text\n{paragraph}\n```" if is_list else shown_words)
    parts.append(option_table(options(command), command))
    if examples:
        block = "\n".join(["```sh", *(line.strip() for line in examples.splitlines() if line.strip()), "```"])
        excuse = EXAMPLES_NOT_RUN.get(title)
        parts.append(f"<!-- not run: {excuse} -->\n{block}" if excuse else block)
    return "\n\n".join(parts)


def shown(default: str | None) -> str:
    """Return a default as a cell."""
    return f"`{default}`" if default else ""


@functools.cache
def parts() -> dict[str, Callable[[], str]]:
    """Return the generated parts by name."""
    found: dict[str, Callable[[], str]] = {
        "APIs": apis,
        "derived tables": derived_tables,
        "settings of topics": topic_settings,
        "settings of groups": group_settings,
    }
    found |= {subject: functools.partial(broker_settings, subject) for subject in SUBJECTS}
    found |= {kind: functools.partial(described, kind, heading) for kind, heading in DESCRIBED.items()}
    found |= {"formulas of stages": formulas, "sample of summary.json": sample_of_summary}
    found |= {f"options of the Spark {kind}": functools.partial(spark_options, kind) for kind in ("source", "sink")}
    found["tests of invariants"] = tests_of_invariants
    found |= {"rights for each API": rights_table, "requests of entry points": requests_of_entry_points}
    found |= {f"limits of {section}": functools.partial(limits, section) for section in LIMITS}
    found |= {"packages of pipeline_broker": packages, "words of the report": words_of_report}
    found |= {"experiments": experiments, "checks of the simulation": checks_of_simulation}
    found["machine tests of groups"] = machines_of_groups
    found["scenarios with clients"] = scenarios_of_clients
    found["counterparts"] = counterparts_in_kafka
    found["words of the dashboard"] = words_of_dashboard
    found |= {f"files of {name.rpartition('/')[2]}": functools.partial(files_of, name) for name in MAPPED}
    found |= {f"results of {name}": functools.partial(results_of, name) for name in RESULTS}
    for kind, lists in TESTED.items():
        found |= {f"tests of {kind} {listed}": functools.partial(claiming_tests, kind, listed) for listed in lists}
    found |= {f"columns of {name}": functools.partial(trace_columns, name) for name in TABLES}
    found |= {f"metrics of {section}": functools.partial(metrics, section) for section in SECTIONS}
    for title, command in commands().items():
        if title not in DESCRIBED_BY_HAND:
            found[f"command {title}"] = functools.partial(command_section, title, command)
        else:
            found[f"options of {title}"] = functools.partial(option_table, options(command), command)
    listing = commands()["topics list"]
    found["options of commands for any cluster"] = functools.partial(
        option_table, options(listing, shared=True), listing
    )
    return found


def current(text: str) -> str:
    """Return a page with its generated parts made anew."""

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- generated: {name} -->\n{parts()[name]()}\n<!-- end of {name} -->"

    return PART.sub(part, text)


if __name__ == "__main__":
    for path in DOCS.rglob("*.md"):
        path.write_text(current(path.read_text(encoding="utf-8")), encoding="utf-8")
