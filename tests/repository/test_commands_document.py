"""docs/commands.md says what the command line does, and every command that a document shows is one."""

import re
import shlex
from pathlib import Path

import click
import pytest

from pipeline_broker.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
DOCUMENT = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL))


def command(name):
    return main.get_command(click.Context(main), name)


def shown_commands():
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                found = re.match(r"(?:\$ )?(?:\.venv/bin/)?pipeline-broker (\w.*)", line)
                if found:
                    yield pytest.param(shlex.split(found[1], comments=True), id=f"{document.name}: {found[1]}")


def test_every_command_has_its_section():
    assert list(SECTIONS) == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_a_command_has_its_options_and_their_defaults(name):
    context = click.Context(command(name))
    expected = []
    for option in command(name).params:
        if isinstance(option, click.Option):
            default = re.search(r"\[default: ([^;\]]*)", option.get_help_record(context)[1])
            expected.append((option.opts[0], default[1] if default else ""))
    table = re.findall(r"^\| `(--[a-z-]+)` \| (.*?)\|", SECTIONS[name], re.MULTILINE)
    assert [(option, default.strip(" `")) for option, default in table] == expected


@pytest.mark.parametrize("arguments", list(shown_commands()))
def test_a_command_that_a_document_shows_is_accepted(arguments, tmp_path, monkeypatch):
    (tmp_path / "server.properties").touch()
    (tmp_path / "out/compare").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    name, *rest = arguments
    command(name).make_context(name, rest).close()
