"""The files of packages with the first paragraphs of their docstrings, and the imports that the source map shows."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Counterpart", "counterparts", "first_paragraph", "imports_directly", "paragraphs", "parts_of", "reaches"]

ROOT = Path(__file__).parent.parent
COUNTERPART = re.compile(r"Counterpart in (Kafka|AutoMQ): (.*?)(?:; (.*))?\.$")


class Counterpart(NamedTuple):
    """A class of Kafka or AutoMQ, the files here that do its work, and the difference."""

    name: str
    origin: str
    files: list[str]
    difference: str


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def parts_of(folder: str) -> list[str]:
    """Return the packages (`log/`) and modules (`cli.py`) of a package, without those of its root."""
    entries = [path for path in (ROOT / folder).iterdir() if path.name != "__init__.py"]
    packages = [f"{path.name}/" for path in entries if (path / "__init__.py").exists()]
    return sorted([*packages, *(path.name for path in entries if path.suffix == ".py")])


def _file(path: Path) -> Path:
    return path / "__init__.py" if path.is_dir() else path


def first_paragraph(part: str) -> str:
    """Return the first paragraph of the docstring of a package or module, in one line."""
    return paragraphs(_file(ROOT / part))[0]


def counterparts() -> list[Counterpart]:
    """Return the counterparts that docstrings of modules name, sorted by name."""
    found: dict[tuple[str, str], Counterpart] = {}
    for package in ("stages", "pipeline_broker"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for paragraph in paragraphs(path):
                if named := COUNTERPART.fullmatch(paragraph):
                    origin, name, difference = named.groups()
                    file = str(path.relative_to(ROOT)).removeprefix("pipeline_broker/").removesuffix("__init__.py")
                    known = found.get((origin, name), Counterpart(name, origin, [], ""))
                    files = [*known.files, file] if known.difference or not difference else [file, *known.files]
                    found[origin, name] = Counterpart(name, origin, files, known.difference or difference or "")
    return sorted(found.values(), key=lambda each: each.name.strip("`").casefold())


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the names that a part of a module imports, without those for types only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        else:
            yield from _imported(child)


def paragraphs(path: Path) -> list[str]:
    """Return the paragraphs of the docstring of a module, each in one line."""
    return [" ".join(each.split()) for each in (ast.get_docstring(_tree(path)) or "").split("\n\n")]


def imports_directly(part: str, module: str) -> bool:
    """Return whether a file, or a file of a package, imports `module` or a part of it when it is imported itself."""
    path = ROOT / part
    return any(
        name.split(".")[0] == module
        for file in (path.rglob("*.py") if path.is_dir() else [path])
        for statement in _tree(file).body
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for name in _imported(ast.Module([statement], []))
    )


@functools.cache
def _graph() -> dict[str, set[str]]:
    """Return the imported names of each module of the broker and the stages."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): set(_imported(_tree(path)))
        for package in ("pipeline_broker", "stages")
        for path in (ROOT / package).rglob("*.py")
    }


def reaches(part: str, target: str) -> bool:
    """Return whether a package or module imports `target`, directly or not, at any time."""
    prefix = part.removesuffix(".py").rstrip("/").replace("/", ".")
    graph = _graph()
    waiting = [name for name in graph if name == prefix or name.startswith(f"{prefix}.")]
    seen = set(waiting)
    while waiting:
        for name in graph[waiting.pop()]:
            if name.split(".")[0] == target:
                return True
            found = name if name in graph else name.rpartition(".")[0]
            if found in graph and found not in seen:
                seen.add(found)
                waiting.append(found)
    return False
