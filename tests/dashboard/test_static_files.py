"""Only listed files are served, scripts parse no markup, and uPlot is unchanged."""

import hashlib
import json
import re
from importlib import resources
from pathlib import Path

import pytest

import pipeline_charts
from pipeline_broker.dashboard import static_files
from pipeline_broker.traces.stage_durations import PARTS

FOLDER = resources.files("pipeline_broker.dashboard") / "static"
OWN_FILES = sorted(file.name for file in FOLDER.iterdir() if file.name != "checksums.json")
FILES = sorted([*OWN_FILES, *pipeline_charts.FILES])
OWN_SCRIPTS = [name for name in OWN_FILES if name.endswith(".js")]
UPLOT = {  # of the files of uplot-1.6.32.tgz in the npm registry
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot.LICENSE.txt": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


def test_the_list_has_every_file_with_its_checksum():
    """After a change, run python scripts/sum_dashboard_files.py."""
    sums = {name: hashlib.sha256(static_files.read(name)).hexdigest() for name in FILES}
    assert static_files.checksums() == sums


def test_the_charts_are_those_of_the_registry_with_their_licence():
    sums = static_files.checksums()

    assert {name: sums[name] for name in UPLOT} == UPLOT
    assert set(UPLOT) == set(pipeline_charts.FILES)
    assert b"MIT License" in static_files.read("uPlot.LICENSE.txt")


def test_a_changed_or_unlisted_file_is_not_served(monkeypatch):
    name = OWN_SCRIPTS[0]
    static_files.read.cache_clear()
    monkeypatch.setattr(static_files, "checksums", lambda: {name: "0" * 64})

    assert (static_files.read(name), static_files.read("checksums.json")) == (None, None)
    static_files.read.cache_clear()


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_a_type_and_no_external_reference(name):
    assert static_files.content_type_of(name)
    if name in OWN_FILES:
        text = (FOLDER / name).read_text(encoding="utf-8")
        assert re.findall(r"(?:src|href)=\"(?!/)[^\"#]|https?://(?!www\.w3\.org/)", text) == []


@pytest.mark.parametrize("name", OWN_SCRIPTS)
def test_no_script_parses_markup(name):
    """Data becomes text, never elements; imported scripts are in the list."""
    text = (FOLDER / name).read_text(encoding="utf-8")

    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|srcdoc", text) == []
    assert set(re.findall(r"\"\./([a-z]+\.js)\"", text)) <= set(FILES)


def plain(text):
    """Return Markdown as plain text."""
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text).replace("`", "").strip()


def rows_of(document, columns):
    """Return the rows of a document's tables with this number of columns."""
    text = (Path(__file__).parents[2] / "docs" / document).read_text(encoding="utf-8")
    rows = [[plain(cell) for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if len(row) == columns]


def test_meanings_on_the_pages_equal_the_documentation():
    meanings = {word: meaning for words, meaning in rows_of("reference/glossary.md", 2) for word in words.split(", ")}
    for stage, begin, end, _ in rows_of("guides/dashboard.md", 4):
        meanings[stage] = f"from: {begin}; to: {end}" if begin else end
    script = (FOLDER / "glossary.js").read_text(encoding="utf-8")
    shown = json.loads(script.partition("WORDS = ")[2].rstrip().rstrip(";"))

    assert shown == {word: meanings[word] for word in shown}
    assert set(PARTS) <= shown.keys()


def test_every_explained_word_has_an_entry():
    scripts = "".join((FOLDER / name).read_text(encoding="utf-8") for name in OWN_SCRIPTS)
    asked = {
        *re.findall(r"\bword: \"([^\"]+)\"", scripts),
        *re.findall(r"\bword\(\"[^\"]+\", \"([^\"]+)\"\)", scripts),
    }
    words = (FOLDER / "glossary.js").read_text(encoding="utf-8")

    assert len(asked) > 5
    assert {word for word in asked if f'"{word}": ' not in words} == set()


def test_the_page_has_no_inline_script_or_style():
    """The content security policy would refuse them."""
    page = (FOLDER / "page.html").read_text(encoding="utf-8")

    assert re.findall(r"<style|<script(?![^>]* src=)|\bstyle=|\bon[a-z]+=", page) == []
