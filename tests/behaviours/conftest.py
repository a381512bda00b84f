"""The request handlers of a broker, for servers without sockets; docs/evidence/behaviours.md lists the facts."""

import pytest

from pipeline_broker.apis.dispatch import Dispatcher
from pipeline_broker.broker.broker import Broker
from pipeline_broker.broker.ports import Ports
from pipeline_broker.config.settings import load_settings
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager

NOW_MS = 1_700_000_000_000


@pytest.fixture
def dispatcher(tmp_path):
    journal = Journal.open(tmp_path, flush="os")
    broker = Broker(load_settings((), ())[0], LogManager(journal), ports=Ports(clock_ms=lambda: NOW_MS))
    broker.recover(NOW_MS)
    entries = broker.first_entries(NOW_MS)
    journal.sync(journal.write(entries))
    broker.entries_durable(entries)
    yield Dispatcher(broker)
    journal.close()
