"""Write the table of APIs and versions in docs/reference/compatibility.md from what the broker declares.

Run it after an API was added: `python scripts/write_api_table.py`. A test fails while the document is not current.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs/reference/compatibility.md"
BEGIN = "<!-- API table: written by scripts/write_api_table.py -->"
END = "<!-- end of the API table -->"


def table() -> str:
    """The table in Markdown."""
    from pipeline_broker.apis.registry import SERVED  # noqa: PLC0415 - found by the path that main adds
    from pipeline_broker.wire.registry import API_KEYS  # noqa: PLC0415 - see above

    lines = ["| key | API | served | in Apache Kafka 4.3 | advertised |", "|---|---|---|---|---|"]
    for key, api in sorted(SERVED.items()):
        declared = API_KEYS[api.key].versions
        spans = (span(api.versions[0], api.versions[-1]), span(declared[0], declared[-1]), span(*api.advertised))
        lines.append(f"| {int(key)} | {api.name} | {' | '.join(spans)} |")
    return "\n".join(lines)


def span(lowest: int, highest: int) -> str:
    """A range of versions."""
    return str(lowest) if lowest == highest else f"{lowest}-{highest}"


def with_table(text: str) -> str:
    """The document with the table that is current."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
