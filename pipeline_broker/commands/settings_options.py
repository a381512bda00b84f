"""The options by which a command is given a broker's data directory and settings, the same for all commands.

Rules of this file: click's options and what they mean together; nothing is opened here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig

__all__ = ["commits_in_flight_option", "data_option", "load_config", "settings_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

commits_in_flight_option = click.option(
    "--commits-in-flight",
    type=click.IntRange(1, 64),
    default=8,  # as in stages.commit_pace, which is not imported for a help text
    show_default=True,
    help="Group commits that run at once at most, where storage is slow.",
)
data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=None,
    help="Data directory; without it log.dirs of the settings counts.  [default: ./data]",
)


def settings_options(command: Command) -> Command:
    """Add `--config` and `--set`, which arrive as `config_files` and `settings`."""
    with_set = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A property by Kafka's name, such as num.io.threads=8; repeatable.",
    )
    with_config = click.option(
        "--config",
        "config_files",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        multiple=True,
        help="A server.properties or TOML file of Kafka's properties; --set goes over it.",
    )
    return with_config(with_set(command))


def load_config(files: tuple[Path, ...], settings: tuple[str, ...]) -> BrokerConfig:
    """Read the settings of these options, and print a line for each that has no effect.

    Raises:
        ConfigError: a setting is wrong; the text is one line.
    """
    from pipeline_broker.config.settings import load_settings  # noqa: PLC0415 - `--help` does not pay for it

    config, warnings = load_settings(files, settings)
    for warning in warnings:
        click.echo(warning, err=True)
    return config
