"""`pipeline-broker completion`: what a shell needs to complete commands, options and names.

Rules of this file: the script is click's own, which asks the program itself; so what is completed is what there is.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]

PROGRAM = "pipeline-broker"
VARIABLE = "_PIPELINE_BROKER_COMPLETE"
"""Set by the script; click derives it from the program's name."""


@click.command(
    epilog="""\b
Examples:
  echo 'eval "$(pipeline-broker completion bash)"' >> ~/.bashrc
  echo 'eval "$(pipeline-broker completion zsh)"' >> ~/.zshrc
  pipeline-broker completion fish > ~/.config/fish/completions/pipeline-broker.fish"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script with which SHELL completes commands, options, topics and groups."""
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    click.echo(kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())
