"""Shell completion: the program's answers, and the completions of installed shells."""

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline_broker import EmbeddedBroker
from pipeline_broker.cli import COMMANDS, main
from tests.required import require_tool

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 60
TELLING_ZSH = """
autoload -Uz compinit && compinit -u -d "$ZDOTDIR/dump"
eval "$(pipeline-broker completion zsh)"
PROMPT='' lines=("${(@f)LINES_TO_COMPLETE}")
zle-line-init() {
    (( $#lines )) || { BUFFER=exit; zle accept-line; return }
    BUFFER=$lines[1] CURSOR=$#lines[1]
    lines=("${(@)lines[2,-1]}")
    zle complete-word
    print -r -- "$BUFFER" >> "$ZDOTDIR/completed"
    BUFFER=''
    zle accept-line
}
zle -N zle-line-init
"""
"""Completes each line as the Tab key does, and tells what became of it."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment of a shell with the program on its PATH, and a broker with a topic and a group."""
    folder = tmp_path_factory.mktemp("shell")
    program = folder / "pipeline-broker"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pipeline_broker "$@"\n')
    program.chmod(0o755)
    (folder / "unlike any other").touch()
    with EmbeddedBroker() as broker:
        broker.create_topic("departures")
        CliRunner().invoke(main, ["consume", "-b", broker.bootstrap_servers, "departures", "-g", "screens"])
        yield {
            "HOME": str(folder),
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PIPELINE_BROKER_BOOTSTRAP_SERVER": broker.bootstrap_servers,
            "PYTHONPATH": str(ROOT),
            "TERM": "dumb",
            "ZDOTDIR": str(folder),
        }


def asked(shell, words, number):
    variables = {"_PIPELINE_BROKER_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    result = CliRunner().invoke(main, [], prog_name="pipeline-broker", env=variables)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def script(shell):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_fish_gets_each_command_with_its_whole_description():
    answer = asked("fish", "pipeline-broker ", "")
    told = dict(line.removeprefix("plain,").split("\t") for line in answer)
    assert told == {name: line for name, (_, line) in COMMANDS.items()}
    assert any("," in line for line in told.values())
    assert "string split --max 1 ," in script("fish"), "a description may have commas"


def test_zsh_gets_kind_value_and_description_of_each_command():
    answer = asked("zsh", "pipeline-broker ser", 1)
    assert answer == ["plain", "serve", COMMANDS["serve"][1]]
    assert asked("zsh", "pipeline-broker serve --mode c", 3) == ["plain", "classic", "_"]
    assert asked("zsh", "pipeline-broker serve --data /tmp/x", 3)[:2] == ["file", "/tmp/x"]
    assert "for kind value description in" in script("zsh")


def test_for_an_option_with_a_value_only_the_value_is_completed():
    assert asked("zsh", "pipeline-broker serve --mode=cl", 2) == ["plain", "classic", "_"]
    assert asked("fish", "pipeline-broker serve --mode=cl", "--mode=cl") == ["plain,classic"]
    assert "compset -P 1 '*='" in script("zsh")
    assert '"$option$candidate"' in script("fish")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_every_shell_names_the_program_and_its_variable(shell):
    text = script(shell)
    assert "_PIPELINE_BROKER_COMPLETE" in text
    assert f"{shell}_complete" in text
    assert "pipeline-broker" in text


def test_fish_completes_topics_groups_and_files(environment):
    fish = require_tool("fish")
    home = environment["HOME"]
    cases = {
        "pipeline-broker fau": [f"faults\t{COMMANDS['faults'][1]}"],
        "pipeline-broker serve --mode=cl": ["--mode=classic"],
        "pipeline-broker serve --mode ": ["classic", "pipelined"],
        "true; pipeline-broker topics describe dep": ["departures"],
        "pipeline-broker groups describe scr": ["screens"],
        f"pipeline-broker serve --config {home}/unl": [f"{home}/unlike any other"],
        f"pipeline-broker serve --config={home}/unl": [f"--config={home}/unlike any other"],
        "pipeline-broker consume --from '@-5m' --isolation=read_u": ["--isolation=read_uncommitted"],
        f"pipeline-broker serve --config={home}/none": [],
    }
    program = "pipeline-broker completion fish | source\nfor line in $argv; complete -C $line; echo ==; end"
    found = subprocess.run(
        [fish, "--no-config", "-c", program, *cases],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS_MAX,
    )
    assert found.stderr == ""
    answers = [part.splitlines() for part in found.stdout.removesuffix("==\n").split("==\n")]
    assert dict(zip(cases, answers, strict=True)) == cases


def test_zsh_completes_topics_groups_and_files(environment):
    zsh = require_tool("zsh")
    home = Path(environment["HOME"])
    cases = {
        "pipeline-broker fau": "pipeline-broker faults ",
        "pipeline-broker serve --mode=cl": "pipeline-broker serve --mode=classic ",
        "pipeline-broker serve --mode cl": "pipeline-broker serve --mode classic ",
        "true; pipeline-broker topics describe dep": "true; pipeline-broker topics describe departures ",
        "pipeline-broker groups describe scr": "pipeline-broker groups describe screens ",
        f"pipeline-broker serve --config={home}/unl": f"pipeline-broker serve --config={home}/unlike\\ any\\ other ",
        "pipeline-broker consume --from '@-5m' --iso": "pipeline-broker consume --from '@-5m' --isolation ",
        "pipeline-broker serve --nonsense": "pipeline-broker serve --nonsense",
    }
    (home / ".zshrc").write_text(TELLING_ZSH)
    on_terminal([zsh, "-i"], {**environment, "LINES_TO_COMPLETE": "\n".join(cases)})
    completed = (home / "completed").read_text().splitlines()
    assert dict(zip(cases, completed, strict=True)) == cases


def on_terminal(command, environment):
    """Run a program on its own terminal until it exits."""
    terminal, its = pty.openpty()
    with subprocess.Popen(command, env=environment, stdin=its, stdout=its, stderr=its, start_new_session=True) as run:
        os.close(its)
        try:
            while os.read(terminal, 4096):
                pass
        except OSError:  # the last one has closed it
            pass
        finally:
            os.close(terminal)
            run.wait(SECONDS_MAX)
