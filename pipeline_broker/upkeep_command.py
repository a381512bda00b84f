"""`pipeline-broker compact` and `retain`: what the broker does now and then, done now.

Rules of this file: a running broker is asked to do it; on the directory of one that does not run it is done here, under
the same lock. Returns when it is done. Exit code 0 when done, also if there was nothing to do; 2 with one line when
there is no such directory or topic; 1 when it failed.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import NoReturn

import click
import trio

from pipeline_broker.admin import CommandFailedError, NobodyAnswersError, ask
from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal import JOURNAL_NAME

__all__ = ["compact", "retain"]

EXIT_FAILED = 1
EXIT_USAGE = 2

_data = click.option(
    "--data", type=click.Path(path_type=Path), default="./data", show_default=True, help="Data directory."
)
_topic = click.option("--topic", default=None, help="One topic only.")


@click.command()
@_data
@_topic
def compact(data: Path, topic: str | None) -> None:
    """Compact every log whose cleanup.policy has compact, however little of it is dirty.

    The broker may be running: it is asked to do it, and this returns when it is done.
    """
    _run(data, "compact", topic, "compacted")


@click.command()
@_data
@_topic
def retain(data: Path, topic: str | None) -> None:
    """Delete what retention.ms and retention.bytes let go.

    The broker may be running: it is asked to do it, and this returns when it is done.
    """
    _run(data, "retain", topic, "deleted")


def _run(data: Path, command: str, topic: str | None, done: str) -> None:
    if not (data / JOURNAL_NAME).is_dir():
        _fail(f"{data} is no data directory: it has no journal", EXIT_USAGE)
    try:
        answer = ask(data, command, topic=topic)
    except NobodyAnswersError:
        answer = _do_here(data, command, topic)
    except CommandFailedError as error:
        _fail(str(error), EXIT_FAILED)
    click.echo(done if answer["changed"] else "nothing to do")


def _do_here(data: Path, command: str, topic: str | None) -> dict[str, bool]:
    from pipeline_broker.config.settings import BrokerConfig  # noqa: PLC0415 - for a broker that does not run
    from pipeline_broker.log.errors import DamagedSegment  # noqa: PLC0415 - see above
    from pipeline_broker.serve_options import ServeOptions, StartError  # noqa: PLC0415 - see above
    from pipeline_broker.server import open_broker, upkeep_of  # noqa: PLC0415 - see above
    from pipeline_broker.upkeep import UpkeepFailedError  # noqa: PLC0415 - see above
    from stages.mode import PIPELINED  # noqa: PLC0415 - see above

    options = ServeOptions(mode=PIPELINED, flush="always", data=data, config=BrokerConfig())
    try:
        journal, broker = open_broker(options)
    except StartError as error:
        _fail(str(error), EXIT_USAGE)
    try:
        commands = upkeep_of(broker).commands()
        return dict(trio.run(functools.partial(commands[command], topic=topic)))
    except CommandFailedError as error:
        _fail(str(error), EXIT_USAGE)
    except (UpkeepFailedError, DamagedSegment, JournalCorrupt, OSError) as error:
        _fail(str(error), EXIT_FAILED)
    finally:
        journal.close()


def _fail(line: str, code: int) -> NoReturn:
    click.echo(f"Error: {line}", err=True)
    sys.exit(code)
