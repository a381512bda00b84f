"""What the documents say about the repository is true of it."""

import ast
import pkgutil
import re
from pathlib import Path

import pytest

from scripts.write_reference import PART

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        ROOT / "data/README.md",
        ROOT / "changelog.d/README.md",
        ROOT / "examples/README.md",
    ]
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(document):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert missing == []


TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_table_has_a_heading_or_it_is_shown_as_text(document):
    tables = [found[0].splitlines() for found in TABLE.finditer(document.read_text(encoding="utf-8"))]
    assert [rows[0] for rows in tables if len(rows) < 2 or not re.fullmatch(r"\|[-:| ]+\|", rows[1])] == []


def named_in_map(heading):
    """The names in the first column of the table below `heading` in docs/reference/source-map.md."""
    index = (ROOT / "docs/reference/source-map.md").read_text(encoding="utf-8")
    rows = index.split(f"| {heading} |")[1].split("\n\n")[0].splitlines()[2:]
    return [name for row in rows if row[0] == "|" for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def test_the_map_of_the_source_has_every_package_once_and_nothing_else():
    named = sorted({name.split("/")[0] for name in named_in_map("package of `pipeline_broker`")})
    modules = pkgutil.iter_modules([str(ROOT / "pipeline_broker")])
    assert named == sorted(module.name + ("" if module.ispkg else ".py") for module in modules)


@pytest.mark.parametrize("package", ["broker", "node"])
def test_the_map_of_a_package_has_every_file_once_and_nothing_else(package):
    files = pkgutil.iter_modules([str(ROOT / "pipeline_broker" / package)])
    assert sorted(named_in_map(f"file of `{package}/`")) == sorted(f"{file.name}.py" for file in files)


def test_the_files_that_do_what_kafkas_classes_do_exist():
    named = re.findall(r"`([a-z_]+/[\w/.]*)`", (ROOT / "docs/reference/from-kafka.md").read_text(encoding="utf-8"))
    assert len(named) > 50
    assert [name for name in named if not ((ROOT / name).exists() or (ROOT / "pipeline_broker" / name).exists())] == []


def test_every_page_that_the_source_names_exists():
    folders = ("pipeline_broker", "pyspark_pipeline_broker", "spark_analysis", "stages", "tests", "examples")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    texts = [path.read_text(encoding="utf-8") for path in files if path.suffix in {".py", ".jinja", ".json"}]
    named = set(re.findall(r"\bdocs/[a-z/-]+\.md\b", "\n".join(texts)))
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


BYTES_MAX = 350 << 10
"""Without generated parts; lower it when pages get shorter."""


def test_the_documents_stay_within_their_budget():
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("docs/**/*.md")]
    assert sum(len(PART.sub("", text).encode()) for text in texts) <= BYTES_MAX


def test_every_make_target_that_a_document_names_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        (document.name, target)
        for document in DOCUMENTS
        for target in re.findall(r"(?:^|`)make ([a-z][a-z-]*)", document.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {(name, target) for name, target in named if target not in targets} == set()


def test_every_changelog_fragment_has_a_known_kind_and_a_text():
    fragments = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    for fragment in fragments:
        assert re.fullmatch(r"[a-z0-9-]+\.(upgrade|added|changed|fixed|removed)\.md", fragment.name)
        assert fragment.read_text(encoding="utf-8").strip()


WALKED = re.compile(r"^\| \d+[ ↑]*\| `([^`]+\.py)` `([^`]+)` \|", re.MULTILINE)


def definitions_of(path):
    """Names of functions, and of methods behind their class."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    methods = {
        f"{node.name}.{inner.name}"
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for inner in node.body
        if isinstance(inner, functions)
    }
    return methods | {node.name for node in tree.body if isinstance(node, functions)}


def test_every_step_of_a_walk_is_a_function_that_exists():
    text = (ROOT / "docs/reference/walks.md").read_text(encoding="utf-8")
    steps = WALKED.findall(text)
    assert len(steps) == len(re.findall(r"^\| \d+", text, re.MULTILINE)) > 20
    assert [step for step in steps if step[1] not in definitions_of(ROOT / step[0])] == []
