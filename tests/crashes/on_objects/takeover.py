"""One broker goes on with another's journal in a store: at its own port, on a machine of its own.

Rules of this file: whoever was taken over ends by itself, with exit code 3 and one line beside its warnings.
"""

import os
import shutil
import signal

from tests.conftest import READY_LINE, READY_SECONDS_MAX, read_line
from tests.crashes.broker_under_test import BrokerUnderTest, StartFailed
from tests.crashes.scene import Violated

TAKEN_OVER = 3


def another(broker, port, directory, arguments):
    """A broker like this one, not started, on another machine."""
    return BrokerUnderTest(
        directory,
        port,
        settings=broker.settings,
        arguments=arguments,
        variant=broker.variant,
        environment=broker.environment,
    )


def stop(broker):
    """It does nothing more until it is woken up, and its connections stay."""
    os.kill(broker.process_id, signal.SIGSTOP)


def wait_until_ready(successor):
    """Return when it serves."""
    line = read_line(successor.process, READY_SECONDS_MAX)
    if not READY_LINE.fullmatch(line):
        successor.kill()
        raise StartFailed(f"no ready line but {line!r}; on stderr:\n{successor.stderr}")


def wake_up(zombie):
    """It learns that another one has taken over, and ends."""
    os.kill(zombie.process_id, signal.SIGCONT)
    code = zombie.wait()
    lines = [line for line in zombie.stderr.splitlines() if " WARNING " not in line]
    if code != TAKEN_OVER or len(lines) != 1 or "took over as generation" not in lines[0]:
        raise Violated(f"woken up behind a takeover it ended with {code}, and said:\n{zombie.stderr}")
    shutil.rmtree(zombie.data)
