"""Code that a document shows, taken out of it to be run.

Rules: a block of Python that defines tests is a test file, any other one a program; a block of INI is a configuration
of pytest; a block of sh or console is commands, in the latter with what they print. Each stands on its own. A block
that is not run, or is run elsewhere, has the reason in a comment above it that readers of the page do not see:
`<!-- not run: REASON -->` or `<!-- run by PATH -->`, a path of this repository.
"""

import re
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PYTHON = ("python", "py")
SHELL = ("sh", "console")
BLOCK = re.compile(
    r"^(?: *<!-- (?P<excuse>(?:not run: |run by )[^>]*?) -->\n)?"
    r"(?P<indent> *)```(?P<language>\w+)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@attrs.frozen
class Block:
    """One block: in which document and line it begins, in which language, what it says, and why it is not run here."""

    document: Path
    line: int
    language: str
    text: str
    excuse: str = ""

    @property
    def is_test(self):
        return self.language in PYTHON and re.search(r"^(async )?def test_", self.text, re.MULTILINE) is not None

    @property
    def place(self):
        """Where it stands, for a person."""
        return f"{self.document.name}-{self.line}"


@attrs.frozen
class Command:
    """One command of a block, and the lines that the document shows below it."""

    text: str
    shown: tuple[str, ...]


def blocks(document: Path, *languages: str):
    """The blocks of a document in these languages."""
    text = document.read_text(encoding="utf-8")
    return [
        Block(
            document,
            text.count("\n", 0, found.start("text")) + 1,
            found["language"],
            re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            found["excuse"] or "",
        )
        for found in BLOCK.finditer(text)
        if found["language"] in languages
    ]


def write_tests(document: Path, folder: Path):
    """Write each block with tests to a file named by its line, unless it is run elsewhere; how many there are."""
    tests = [block for block in blocks(document, *PYTHON) if block.is_test and not block.excuse]
    for block in tests:
        (folder / f"test_line_{block.line}.py").write_text(block.text, encoding="utf-8")
    return len(tests)


def blocks_run_by(runner: str):
    """The blocks of Python that all documents leave to a file of this repository."""
    return [
        block for document in DOCUMENTS for block in blocks(document, *PYTHON) if block.excuse == f"run by {runner}"
    ]


def programs(document: Path):
    """The blocks of Python that are run as they are."""
    return [block for block in blocks(document, *PYTHON) if not block.is_test and not block.excuse]


def commands(block: Block):
    """The commands of a block of sh or console, each with its continuation lines."""
    prompt = "$ " if block.language == "console" else ""
    found: list[tuple[list[str], list[str]]] = []
    for line in block.text.splitlines():
        if found and found[-1][0][-1].endswith("\\"):
            found[-1][0].append(line)
        elif prompt and not line.startswith(prompt):
            found[-1][1].append(line)
        elif line.strip():
            found.append(([line.removeprefix(prompt)], []))
    return [Command("\n".join(lines), tuple(shown)) for lines, shown in found]
