"""What the documents say about the repository is true of it."""

import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "data/README.md", ROOT / "changelog.d/README.md"]
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(document):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert missing == []


def test_the_map_of_the_source_names_every_room():
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    rooms = [module for module in pkgutil.iter_modules([str(ROOT / "pipeline_broker")]) if module.name[0] != "_"]
    missing = [room.name for room in rooms if f"`{room.name}{'/' if room.ispkg else '.py'}`" not in index]
    assert missing == []


def test_the_index_names_every_document():
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    missing = [
        path.name for path in ROOT.glob("docs/*.md") if path.name != "index.md" and f"({path.name})" not in index
    ]
    assert missing == []


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
        assert re.fullmatch(r"[a-z0-9-]+\.(added|changed|fixed|removed)\.md", fragment.name)
        assert fragment.read_text(encoding="utf-8").strip()
