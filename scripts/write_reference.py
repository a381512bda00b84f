"""Write the generated tables of docs/reference from what the broker declares.

Run it after a change of an API or a property: `python scripts/write_reference.py`. A test fails while a page is not
current. A generated part lies between `<!-- generated: NAME -->` and `<!-- end of NAME -->`.
"""

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs/reference"
PART = re.compile(r"<!-- generated: (?P<name>[^>]*) -->\n.*?<!-- end of (?P=name) -->", re.DOTALL)

SUBJECTS = {
    "listeners and connections": "listener advertised. control inter. security. socket. conn max.conn node. broker.",
    "TLS": "ssl.",
    "authentication and access": "sasl. authorizer. delegation.",
    "requests and threads": "num.io num.network background. queued. quota. fetch. max.inc max.request telemetry.",
    "topics and logs": "num.partitions auto.create delete.topic message. compression. log. min.insync",
    "share groups": "group.share. share.",
    "groups and offsets": "group. offset",
    "transactions and producers": "transaction producer.",
    "this broker's own": "pipeline. wal.",
}
"""Subjects of broker properties, each with prefixes of names; the first match counts."""


def row(*cells: object) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join(str(cell).replace('|', '&#124;') for cell in cells)} |"


def table(heading: tuple[str, ...], rows: Iterable[str]) -> str:
    """Return a table in Markdown."""
    return "\n".join([row(*heading), "|---" * len(heading) + "|", *rows])


def apis() -> str:
    """Return the APIs and their versions."""
    from pipeline_broker.apis.registry import SERVED  # noqa: PLC0415 - found by the path that main adds
    from pipeline_broker.wire.registry import API_KEYS  # noqa: PLC0415 - see above

    rows = []
    for key, api in sorted(SERVED.items()):
        declared = API_KEYS[api.key].versions
        spans = (span(api.versions[0], api.versions[-1]), span(declared[0], declared[-1]), span(*api.advertised))
        rows.append(row(int(key), api.name, *spans))
    return table(("key", "API", "served", "in Apache Kafka 4.3", "advertised"), rows)


def span(lowest: int, highest: int) -> str:
    """Return a range of versions."""
    return str(lowest) if lowest == highest else f"{lowest}-{highest}"


def subject_of(name: str) -> str:
    """Return the subject of a broker property."""
    return next(subject for subject, beginnings in SUBJECTS.items() if name.startswith(tuple(beginnings.split())))


def broker_settings(subject: str) -> str:
    """Return the broker properties of a subject that are acted on."""
    from pipeline_broker.config.properties import broker_properties  # noqa: PLC0415 - see above
    from pipeline_broker.config.settings import ACTED_ON  # noqa: PLC0415 - see above

    rows = [
        row(f"`{name}`", shown(definition.default), definition.documentation)
        for name, definition in sorted(broker_properties().items())
        if name in ACTED_ON and subject_of(name) == subject
    ]
    return table(("property", "default", "meaning"), rows)


def topic_settings() -> str:
    """Return the settings of topics that are acted on."""
    from pipeline_broker.config.properties import topic_properties  # noqa: PLC0415 - see above
    from pipeline_broker.config.topic_settings import TOPIC_ACTED_ON  # noqa: PLC0415 - see above

    rows = [
        row(f"`{name}`", shown(definition.default), f"`{definition.broker_property}`", definition.documentation)
        for name, definition in sorted(topic_properties().items())
        if name in TOPIC_ACTED_ON
    ]
    return table(("setting of a topic", "default", "inherits", "meaning"), rows)


def group_settings() -> str:
    """Return the settings of groups that are acted on."""
    from pipeline_broker.config.resources import GROUP, RESOURCE_KINDS  # noqa: PLC0415 - see above

    rows = [
        row(f"`{name}`", shown(definition.default), definition.documentation)
        for name, definition in sorted(RESOURCE_KINDS[GROUP].properties.items())
        if definition.documentation
    ]
    return table(("setting of a group", "default", "meaning"), rows)


def shown(default: str | None) -> str:
    """Return a default as a cell."""
    return f"`{default}`" if default else ""


PARTS: dict[str, Callable[[], str]] = {
    "APIs": apis,
    "settings of topics": topic_settings,
    "settings of groups": group_settings,
    **{subject: lambda subject=subject: broker_settings(subject) for subject in SUBJECTS},  # type: ignore[misc]  # mypy sees no default of a lambda
}


def current(text: str) -> str:
    """Return a page with its generated parts made anew."""

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- generated: {name} -->\n{PARTS[name]()}\n<!-- end of {name} -->"

    return PART.sub(part, text)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    for path in REFERENCE.glob("*.md"):
        path.write_text(current(path.read_text(encoding="utf-8")), encoding="utf-8")
