"""A broker in this process, and the command line."""

import itertools
import json

import attrs
import pytest
from click.testing import CliRunner

from pipeline_broker import EmbeddedBroker
from pipeline_broker.cli import main

SETTINGS = {"num.partitions": 2}


@attrs.frozen
class Called:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str
    raw: bytes

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        return self.out.splitlines()


@attrs.frozen
class CommandLine:
    """Calls commands against one broker."""

    address: str

    def __call__(self, *arguments, code=0, data=b"", environment=None):
        variables = {"PIPELINE_BROKER_BOOTSTRAP_SERVER": self.address, **(environment or {})}
        result = CliRunner().invoke(main, [str(it) for it in arguments], input=data, env=variables)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return Called(result.exit_code, result.stdout, result.stderr, result.stdout_bytes)


@pytest.fixture(scope="module", params=["classic", "pipelined"])
def broker(request):
    with EmbeddedBroker(mode=request.param, settings=SETTINGS) as embedded:
        yield embedded


@pytest.fixture(scope="module")
def one_broker():
    """A broker for tests that do not depend on the mode."""
    with EmbeddedBroker(settings=SETTINGS) as embedded:
        yield embedded


@pytest.fixture
def call(one_broker):
    return CommandLine(one_broker.bootstrap_servers)


@pytest.fixture
def call_mode(broker):
    return CommandLine(broker.bootstrap_servers)


_NUMBERS = itertools.count()


@pytest.fixture
def name():
    return f"name-{next(_NUMBERS)}"
