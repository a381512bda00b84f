"""The help of commands about one subject."""

import click
import pytest
from click.testing import CliRunner

from pipeline_broker.cli import COMMANDS, main
from pipeline_broker.commands.cluster.bootstrap import ClientCommands

FOUND = {name: main.get_command(click.Context(main), name) for name in COMMANDS}
SUBJECTS = {name: command for name, command in FOUND.items() if isinstance(command, ClientCommands)}


def without_blanks(text):
    """Remove all line breaks, also those at a hyphen."""
    return "".join(text.split())


def test_there_are_subjects():
    assert "groups" in SUBJECTS


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_describes_each_command_in_a_whole_sentence(subject):
    shown = CliRunner().invoke(main, [subject, "--help"], terminal_width=80).output
    told = without_blanks(shown.split("Commands:")[1].split("Examples:")[0])
    for name, command in SUBJECTS[subject].commands.items():
        sentence = " ".join(command.help.split("\n\n")[0].split()).split(". ")[0]
        assert without_blanks(f"{name}{sentence.removesuffix('.')}.") in told


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_lists_its_commands_for_an_unknown_or_missing_command(subject):
    names = sorted(SUBJECTS[subject].commands)
    wrong = CliRunner().invoke(main, [subject, "absent"])
    assert wrong.exit_code == 2
    assert wrong.output == f"Error: unknown command 'absent' for {subject}: choose one of {', '.join(names)}\n"
    none = CliRunner().invoke(main, [subject])
    assert none.output.startswith("Usage: ")
    assert all(f"\n  {name} " in none.output for name in names)
