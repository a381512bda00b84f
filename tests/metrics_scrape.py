"""The metrics of a broker in use."""

import re
import socket
import urllib.request

from tests.forks import run_command


def scrape_in_use(broker):
    """Return a scrape of a broker process after some load and a commit, with an open connection."""
    (address,) = re.findall(r"^metrics on (http://\S+)$", broker.stderr, re.MULTILINE)
    load = ["load", broker.bootstrap, "--seconds", "0.1"]
    commit = ["groups", "reset-offsets", "billing", "--topic", "load", "--to", "beginning", "--execute"]
    with socket.create_connection((broker.host, broker.port)):  # there are metrics of open connections too
        for arguments in (load, [*commit, "-b", broker.bootstrap]):
            ended = run_command(*arguments)
            assert ended.returncode == 0, ended.stderr
        with urllib.request.urlopen(address) as response:
            return response.read().decode()
