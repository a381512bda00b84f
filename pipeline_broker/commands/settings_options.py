"""Options for a broker's data directory and settings, shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.settings import load_settings

__all__ = ["commits_in_flight_option", "data_option", "load_config", "settings_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

commits_in_flight_option = click.option(
    "--commits-in-flight",
    type=click.IntRange(1, 64),
    default=8,  # a copy of the default in stages.commit_pace, which `--help` must not import
    show_default=True,
    help="Maximum number of group commits in flight on slow storage.",
)
data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=None,
    help="Data directory; overrides log.dirs of the settings.  [default: ./data]",
)


def settings_options(command: Command) -> Command:
    """Add `--config` and `--set`, which the function receives as `config_files` and `settings`."""
    with_set = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A broker property, such as num.io.threads=8; overrides --config; repeatable.",
    )
    with_config = click.option(
        "--config",
        "config_files",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        multiple=True,
        help="File with broker properties: server.properties or TOML; repeatable.",
    )
    return with_config(with_set(command))


def load_config(
    files: tuple[Path, ...],
    settings: tuple[str, ...],
    warn: Callable[[str], None] | None = None,
) -> BrokerConfig:
    """Read the settings of `--config` and `--set`.

    Args:
        warn: receives a line for each setting without effect; None prints it.

    Raises:
        ConfigError: a setting is invalid.
    """
    config, warnings = load_settings(files, settings)
    for warning in warnings:
        if warn is None:
            click.echo(warning, err=True)
        else:
            warn(warning)
    return config
