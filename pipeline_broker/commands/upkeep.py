"""`pipeline-broker compact` and `pipeline-broker retain`: run compaction or retention now.

If a broker runs on the data directory, it does the work. Otherwise this process does it, under the same lock, with the
settings of the options. Without such options the broker's settings are unknown. Then a topic is skipped if a setting
that deletes its records is neither its own nor stored in the directory for all brokers.

Exit codes: 0 done, or nothing to do. 1 the work failed, or a running broker refused it. 2 no such directory or, without
a running broker, no such topic; or a topic was skipped.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import attrs
import click
import trio

from pipeline_broker.broker.broker import Broker
from pipeline_broker.commands.settings_options import data_option, load_config, settings_options
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.config.topic_settings import TopicSettings
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.errors import DamagedSegment, JournalCorrupt
from pipeline_broker.log.journal.taken_directory import JOURNAL_NAME
from pipeline_broker.node.admin_socket import NoBrokerError, ask
from pipeline_broker.node.archive_store import ArchiveStore
from pipeline_broker.node.data_directory import maintenance_of, open_broker
from pipeline_broker.node.errors import MaintenanceFailedError, StartError
from pipeline_broker.node.operator_commands import CommandFailedError
from pipeline_broker.node.thread_wakeup import ThreadWakeup
from pipeline_broker.state.metadata_records import Topic

__all__ = ["compact", "retain"]

EXIT_FAILED = 1
EXIT_USAGE = 2
PRODUCERS_KEPT_MS = 2**63 - 1
"""producer.id.expiration.ms where the broker's value is unknown: the archive keeps all producers."""

_topic = click.option("--topic", default=None, help="Apply to this topic only.")


@attrs.frozen
class Maintenance:
    """A kind of maintenance.

    Attributes:
        command: the name of the command, also on the admin socket.
        policy: the value of `cleanup.policy` of the topics that it applies to.
        settings: topic settings that decide about deletion under this policy.
        done: the output if the work changed anything.
    """

    command: str
    policy: str
    settings: tuple[str, ...]
    done: str


COMPACT = Maintenance("compact", "compact", ("min.compaction.lag.ms", "delete.retention.ms"), "compacted")
# Without retention.bytes: by default it deletes no records, so an inherited value does not matter.
RETAIN = Maintenance("retain", "delete", ("retention.ms",), "deleted")
POLICY = "cleanup.policy"


@click.command()
@data_option
@settings_options
@_topic
def compact(data: Path | None, config_files: tuple[Path, ...], settings: tuple[str, ...], topic: str | None) -> None:
    """Compact every log whose cleanup.policy includes compact, however small its dirty part.

    If the broker is running, it does the work, and this command waits. Otherwise give the settings of the broker.
    """
    _run(COMPACT, data, config_files, settings, topic)


@click.command()
@data_option
@settings_options
@_topic
def retain(data: Path | None, config_files: tuple[Path, ...], settings: tuple[str, ...], topic: str | None) -> None:
    """Delete the oldest segments beyond retention.ms or retention.bytes.

    Without delete in its cleanup.policy, a log only loses segments below its log start offset.

    If the broker is running, it does the work, and this command waits. Otherwise give the settings of the broker.
    """
    _run(RETAIN, data, config_files, settings, topic)


def _run(
    maintenance: Maintenance,
    data: Path | None,
    config_files: tuple[Path, ...],
    settings: tuple[str, ...],
    topic: str | None,
) -> None:
    config = load_config(config_files, settings)
    directory = config.directory(data)
    if not (directory / JOURNAL_NAME).is_dir():
        _fail(
            f"{directory} is not a data directory: it has no journal. Name the directory given to `serve --data`",
            EXIT_USAGE,
        )
    skipped: dict[str, list[str]] = {}
    try:
        changed = ask(directory, maintenance.command, topic=topic)["changed"]
    except NoBrokerError:
        changed, skipped = _run_offline(maintenance, directory, config if config_files or settings else None, topic)
    except CommandFailedError as error:
        _fail(str(error), EXIT_FAILED)
    if changed or not skipped:
        click.echo(maintenance.done if changed else "nothing to do")
    if skipped:
        _fail(_refusal(maintenance, skipped), EXIT_USAGE)


def _run_offline(
    maintenance: Maintenance, data: Path, config: BrokerConfig | None, topic: str | None
) -> tuple[bool, dict[str, list[str]]]:
    """Run maintenance in this process.

    Args:
        config: the broker's settings; None: unknown.
        topic: the only topic; None: all.

    Returns:
        Whether anything changed, and the unknown settings of each skipped topic.
    """
    try:
        config_here = config or attrs.evolve(parse_settings([])[0], producer_id_expiration_ms=PRODUCERS_KEPT_MS)
        store = ArchiveStore.of_directory(data, SystemFileSystem())
        journal, broker = open_broker(data, config_here, store=store)
    except StartError as error:
        _fail(str(error), EXIT_USAGE)
    try:
        carry_out = maintenance_of(broker, ThreadWakeup()).commands()[maintenance.command]
        unknown = {} if config is not None else _unknown_settings(maintenance, broker, topic)
        topics: list[str | None] = [topic]
        if unknown:
            topics = [each for each in sorted({log.topic for log in broker.logs}) if topic in {None, each}]
        answers = [
            trio.run(functools.partial(carry_out, topic=each)) for each in topics if each is None or each not in unknown
        ]
        return any(answer["changed"] for answer in answers), unknown
    except CommandFailedError as error:
        _fail(str(error), EXIT_USAGE)
    except (MaintenanceFailedError, DamagedSegment, JournalCorrupt, OSError) as error:
        _fail(str(error), EXIT_FAILED)
    finally:
        journal.close()


def _unknown_settings(maintenance: Maintenance, broker: Broker, topic: str | None) -> dict[str, list[str]]:
    found = {}
    for each in broker.topics.all():
        is_concerned = topic in {None, each.name}
        if is_concerned and any(log.high_watermark > log.log_start_offset for log in broker.logs.partitions(each.name)):
            unknown = broker.layers.inherited_from_start(each.configs, _settings_of(maintenance, each, broker))
            if unknown:
                found[each.name] = unknown
    return found


def _settings_of(maintenance: Maintenance, topic: Topic, broker: Broker) -> tuple[str, ...]:
    is_known = not broker.layers.inherited_from_start(topic.configs, [POLICY])
    policies = TopicSettings.of(topic.configs, broker.settings).cleanup_policy
    return (POLICY,) if is_known and maintenance.policy not in policies else (POLICY, *maintenance.settings)


def _refusal(maintenance: Maintenance, skipped: Mapping[str, list[str]]) -> str:
    # A user's topic comes before internal ones.
    first, *others = sorted(skipped, key=lambda name: (name.startswith("__"), name))
    *front, last = skipped[first]
    settings, verb = (f"{', '.join(front)} and {last}", "come") if front else (last, "comes")
    topics = f"topic {first!r}" + (f" (and {len(others)} more)" if others else "")
    return (
        f"nothing of {topics} was {maintenance.done}: {settings} {verb} from the broker's settings, which are unknown. "
        "Give --config or --set as for serve."
    )


def _fail(line: str, code: int) -> NoReturn:
    click.echo(f"Error: {line}", err=True)
    sys.exit(code)
