"""docs/reference/commands.md says what the command line does, and every command that a document shows is one."""

import itertools
import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pipeline_broker.cli import COMMANDS, main
from tests.forks import run_command
from tests.tables import each_row

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
DOCUMENT = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([\w-]+)\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL))


def command(name):
    return main.get_command(click.Context(main), name)


OF_SHELLS = {"|", "<", ">", ">>"}
"""From here on a line is not the command's."""


def shown_commands():
    """The arguments of each command that a document shows, and the output that it shows with them."""
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            shown = r"^(?:\$ )?(?:\.venv/bin/)?pipeline-broker (\w.*)\n((?:(?!\$ |\.venv|pipeline-broker ).*\n)*)"
            for arguments, output in re.findall(shown, block, re.MULTILINE):
                identity = f"{document.name}: {arguments}{' and its output' if output else ''}"
                words = itertools.takewhile(lambda word: word not in OF_SHELLS, shlex.split(arguments, comments=True))
                yield pytest.param(list(words), output, id=identity)


SHOWN = list(shown_commands())
REFUSED = [shown for shown in SHOWN if shown.values[1].startswith("Error: ")]
LISTED = [shown for shown in SHOWN if shown.values[0] == ["apis"] and shown.values[1]]


def test_every_command_has_its_section():
    assert list(SECTIONS) == list(COMMANDS)


@each_row("arguments, output", SHOWN)
def test_a_command_that_a_document_shows_is_accepted(arguments, output, tmp_path, monkeypatch):
    del output
    (tmp_path / "server.properties").touch()
    (tmp_path / "out/compare").mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path)
    name, *rest = arguments
    found = command(name)
    if isinstance(found, click.Group):
        name, *rest = rest
        found = found.commands[name]
    found.make_context(name, rest).close()


@pytest.mark.parametrize(("arguments", "output"), REFUSED)
def test_a_command_that_is_shown_to_be_refused_says_what_is_shown(arguments, output):
    result = run_command(*arguments)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", output)


@pytest.mark.parametrize(("arguments", "output"), LISTED)
def test_the_list_of_apis_begins_as_shown(arguments, output):
    listed = CliRunner().invoke(main, arguments).output
    assert listed.startswith(output.removesuffix("  ...\n"))


def test_documents_show_a_refusal_and_a_list():
    assert REFUSED
    assert LISTED
