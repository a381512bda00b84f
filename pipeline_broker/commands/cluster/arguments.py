"""Options and arguments that several commands share. Works without a cluster; a mistake is a click.UsageError."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from typing import TypeAlias

import click

from pipeline_broker.client.offsets import Place, read_place

__all__ = ["PARTITION_MAX", "Command", "as_json_option", "is_wanted", "partitions_by_topic", "place_of", "with_options"]

Command: TypeAlias = Callable[..., None]
"""The function of a command, decorated or not."""

PARTITION_MAX = 2**31 - 1
"""The largest partition number of the protocol."""
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def with_options(command: Command, *options: Callable[[Command], Command]) -> Command:
    """Add options to a command. `--help` lists them in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def is_wanted(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def place_of(text: str, option: str) -> Place:
    try:
        return read_place(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None


def partitions_by_topic(texts: Sequence[str], option: str) -> dict[str, list[int]]:
    """Parse arguments of the form TOPIC or TOPIC:0,1. An empty list of partitions means all of the topic.

    Args:
        option: the name of the option or argument, for messages.
    """
    found: dict[str, dict[int, None]] = {}
    whole = set()
    for text in texts:
        topic, numbers = _partitions_of(text, option)
        if not numbers:
            whole.add(topic)
        found.setdefault(topic, {}).update(dict.fromkeys(numbers))
    return {topic: [] if topic in whole else list(numbers) for topic, numbers in found.items()}


def _partitions_of(text: str, option: str) -> tuple[str, list[int]]:
    topic, separator, partitions = text.partition(":")
    numbers = [part for part in partitions.split(",") if part]
    if (
        not topic
        or bool(separator) is not bool(numbers)
        or not all(it.isascii() and it.isdigit() and int(it) <= PARTITION_MAX for it in numbers)
    ):
        raise click.UsageError(f"{option}: {text!r} is not of the form TOPIC or TOPIC:0,1")
    return topic, [int(it) for it in numbers]
