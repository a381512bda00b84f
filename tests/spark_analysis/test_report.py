"""The page holds every section, needs nothing else, and shows hostile names as text."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
from html.parser import HTMLParser

import pytest

from pipeline_charts import SCRIPT, read_chart_file
from spark_analysis.__main__ import main
from spark_analysis.run_quality import WORDS, Light
from spark_analysis.words import times

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]

SECTIONS = [
    "summary",
    "equal",
    "ordinary",
    "throughput",
    "latency",
    "stages",
    "lanes",
    "series",
    "ablation",
    "commits",
    "shards",
]
SECTIONS += [
    "flow",
    "model",
    "replay",
    "unpaying",
    "noise",
    "audit",
    "tracing",
    "method",
    "reproduce",
    "machine",
    "words",
]
HOSTILE = "</style></script><script>alert('x')</script><img src=x onerror=alert(1)>&\"'"
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """A parser that checks nesting and collects elements and text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.text = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def directory(reported):
    return reported.directory


@pytest.fixture(scope="module")
def text(directory):
    return (directory / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_every_section_exists_in_order_and_is_linked(page):
    assert [attributes["id"] for attributes in page.of("section")] == SECTIONS
    links = [attributes["href"] for attributes in page.of("a") if "download" not in attributes]
    assert links == [f"#{name}" for name in SECTIONS]


def test_every_table_can_be_saved_from_the_page_itself(page):
    saved = [attributes for attributes in page.of("a") if "download" in attributes]
    assert len(saved) == len(page.of("table")) > 10
    assert all(attributes["href"].startswith("data:text/csv;") for attributes in saved)
    assert all(re.fullmatch(r"[a-z0-9-]+\.csv", attributes["download"]) for attributes in saved)


def test_no_bound_in_large_type_belongs_to_an_interval_that_contains_1(directory, text):
    """The numbers of tiles are bounds of ratios of rates, or of latencies at equal load."""
    summary = json.loads((directory / "summary.json").read_text())
    entries = summary["speedups"] + [entry["p99"] for entry in summary["equal_load"] if entry["p99"]]
    called = [entry for entry in entries if not entry["low"] <= 1 <= entry["high"]]
    bounds = {f"at least {times(entry['low'])}" for entry in called if entry["low"] > 1}
    bounds |= {f"at most {times(entry['high'])}" for entry in called if entry["high"] < 1}
    shown = re.findall(r"<b>(?:p99 )?([^<]+)</b>", text.split('<div class="tiles">')[1].split("<h2")[0])
    assert shown
    assert {bound for headline in shown for bound in headline.split(" or ")} <= bounds


def test_the_page_needs_no_network(text, page):
    assert "://" not in text.replace(read_chart_file(SCRIPT).decode(), ""), (
        "but for the address of uPlot in its comment"
    )
    assert not {"link", "img", "iframe", "object", "embed"} & {tag for tag, _ in page.elements}
    assert all("src" not in attributes and "href" not in attributes for attributes in page.of("script"))
    assert "url(" not in text
    assert "@import" not in text


def runnable(page):
    """Return the scripts of a page that run, without the numbers of charts."""
    return [attributes for attributes in page.of("script") if attributes.get("type") != "application/json"]


def test_the_policy_of_the_page_allows_only_its_own_scripts(text, page):
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    (policy,) = [it["content"] for it in page.of("meta") if it.get("http-equiv") == "Content-Security-Policy"]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}"
    assert len(runnable(page)) == len(scripts) == 2


def test_the_page_supports_light_and_dark_phones_and_paper(text):
    for query in ("prefers-color-scheme: dark", "max-width: 640px", "@media print", "width=device-width"):
        assert query in text


def test_every_drawing_and_table_has_a_description(page):
    drawings = page.of("svg")
    assert len(drawings) > 10
    assert all(attributes["role"] == "img" and len(attributes["aria-label"]) > 20 for attributes in drawings)
    assert len(page.of("caption")) == len(page.of("table"))
    assert all(attributes.get("aria-label") for attributes in page.of("ul") if attributes.get("class") == "bars")


def test_identifiers_are_unique_and_numbers_are_finite(text, page):
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    assert not re.search(r'[="MLhw,: ](nan|-?inf)\b', text)


def test_every_speedup_and_rate_of_the_closed_loops_is_on_the_page(directory, text):
    summary = json.loads((directory / "summary.json").read_text())
    assert len(summary["speedups"]) == 12
    assert len(summary["ablation"]) == 3
    assert len(summary["equal_load"]) == 6
    assert summary["self"]["rounds"] == 3
    assert {len(entry["parts_us"]) for entry in summary["stages"]} == {8}
    for cell in summary["cells"] + summary["ablation"]:
        if cell["client"] != "replay" and "offered_per_s" not in cell:
            assert f"{cell['requests_per_s']:,.0f}/s" in text
        assert cell["order_violations"] == 0
    for sentence in re.split(r"\.\s", summary["verdict"]):
        assert sentence.rstrip(".") in html.unescape(text)


def test_main_prints_verdict_and_light_and_the_path_of_the_page_and_nothing_else(directory, reported):
    summary = json.loads((directory / "summary.json").read_text())
    words = WORDS[Light[summary["quality"]["light"].upper()]]
    out, err = reported.printed
    (light,) = (
        out.removeprefix(f"{summary['verdict']}\n").removesuffix(f"report: {directory}/report.html\n").splitlines()
    )
    assert light.startswith(f"{words}. ")
    assert all(re.fullmatch(r"[A-Z][A-Za-z ]+: \d+ of \d+", line) for line in err.splitlines()), (
        "progress of a slow one"
    )


def test_hostile_names_are_text(synthetic, spark, tmp_path):
    assert spark is not None
    for number, (side, mode) in enumerate([(0, HOSTILE), (1, f"b{HOSTILE}"), (1, HOSTILE)], start=1):
        client = f"{HOSTILE} linger={HOSTILE}" if number < 3 else "raw"
        run = synthetic.RawRun(
            tmp_path / "raw", number, side=side, mode=mode, client=client, traced=number == 3, flush=HOSTILE
        )
        run.columns |= {"machine": {HOSTILE: HOSTILE}, "settings": {HOSTILE: [HOSTILE], "command": HOSTILE}}
        synthetic.steady(run, [100] * 50, gap_us=100)
        run.write()
    assert main([str(tmp_path)]) == 0
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert len(runnable(page)) == 2
    assert page.of("img") == []
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert any(HOSTILE in piece for piece in page.text)


def test_damaged_parquet_is_one_clear_line(directory, tmp_path, capsys):
    shutil.copytree(directory / "traces", tmp_path / "traces")
    part = next((tmp_path / "traces/client").glob("*/*.parquet"))
    part.write_bytes(part.read_bytes()[:-100])
    assert main([str(tmp_path)]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.splitlines()[-1].startswith("error: ")
    assert answer.err.count("error: ") == 1
