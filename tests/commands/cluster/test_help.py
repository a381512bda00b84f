"""The help of commands about one subject."""

import click
import pytest
from click.testing import CliRunner

from pipeline_broker.cli import COMMANDS, main
from pipeline_broker.commands.cluster.reach import ClientCommands

FOUND = {name: main.get_command(click.Context(main), name) for name in COMMANDS}
SUBJECTS = {name: command for name, command in FOUND.items() if isinstance(command, ClientCommands)}


def without_blanks(text):
    """Whatever lines it is broken into, at a hyphen too."""
    return "".join(text.split())


def test_there_are_subjects():
    assert "groups" in SUBJECTS


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_tells_of_each_command_in_a_whole_sentence(subject):
    shown = CliRunner().invoke(main, [subject, "--help"], terminal_width=80).output
    told = without_blanks(shown.split("Commands:")[1].split("Examples:")[0])
    for name, command in SUBJECTS[subject].commands.items():
        sentence = " ".join(command.help.split("\n\n")[0].split()).split(". ")[0]
        assert without_blanks(f"{name}{sentence.removesuffix('.')}.") in told


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_names_its_commands_where_one_is_not_there_or_none_is_given(subject):
    names = sorted(SUBJECTS[subject].commands)
    wrong = CliRunner().invoke(main, [subject, "absent"])
    assert wrong.exit_code == 2
    assert wrong.output == f"Error: unknown command 'absent' for {subject}: choose one of {', '.join(names)}\n"
    none = CliRunner().invoke(main, [subject])
    assert none.output.startswith("Usage: ")
    assert all(f"\n  {name} " in none.output for name in names)
