"""Files named by settings of a broker are opened in a thread, for one change at a time, while other requests are
served.
"""

import sys

import attrs
import pytest
import trustme

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.node.listeners import BrokerListeners
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from stages.request import Parked, Pending, Send, Unfinished, Waiting, go_on
from tests.apis.desk import Desk

KEY_STORE = "listener.name.ssl.ssl.keystore.location"
OPENED = []
sys.addaudithook(lambda event, args: OPENED.append(str(args[0])) if event == "open" else None)


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store.pem"
    path.write_bytes(trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.bytes())
    return path


@pytest.fixture
def desk(store):
    texts = (
        "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={store}",
    )
    desk = Desk(*texts)
    listeners = BrokerListeners(parse_settings([tuple(each.split("=", 1)) for each in texts])[0])
    desk.listeners = listeners
    desk.broker.ports = attrs.evolve(desk.broker.ports, check_config=listeners.check, config_changed=listeners.update)
    yield desk
    listeners.close()


def altering(name, value, broker="1"):
    altered = IncrementalAlterConfigsRequest
    resource = altered.AlterConfigsResource(4, broker, [altered.AlterableConfig(name, 0, str(value))])
    return altered([resource], False)


def steps_of(result):
    assert isinstance(result, Unfinished)
    return result.first


def next_step(desk, result, value=None, error=None):
    return go_on(result.steps, value, error)


def test_a_key_store_is_opened_by_the_work_of_a_thread_and_not_before(desk, store):
    OPENED.clear()
    result = desk.decide(altering(KEY_STORE, store), 1)
    parked = steps_of(result)
    assert isinstance(parked, Parked)
    assert str(store) not in OPENED
    adopt = parked.work()
    assert str(store) in OPENED
    OPENED.clear()
    before = desk.listeners._served["SSL"].loaded
    response = desk.finish(altering(KEY_STORE, store), 1, next_step(desk, result, adopt))
    assert response.responses[0].error_code == 0
    assert desk.listeners._served["SSL"].loaded is not before, "the store loaded by the thread is used"
    assert str(store) not in OPENED, "and nothing is opened again"


def test_an_unusable_key_store_is_refused_after_the_thread_tried_it(desk, tmp_path):
    result = desk.decide(altering(KEY_STORE, tmp_path / "none.pem"), 1)
    with pytest.raises(ConfigError, match="No such file") as caught:
        steps_of(result).work()
    response = desk.finish(altering(KEY_STORE, ""), 1, next_step(desk, result, error=caught.value))
    assert response.responses[0].error_code == ErrorCode.INVALID_REQUEST


def test_changes_of_brokers_are_loaded_one_at_a_time_and_decided_in_their_order(desk, store):
    """Otherwise the second would be checked against settings that the first one changes."""
    first = desk.decide(altering(KEY_STORE, store), 1)
    second = desk.decide(altering("log.retention.ms", "7"), 1)
    assert isinstance(steps_of(second), Waiting)
    went_on = []
    steps_of(second).when_over(lambda: went_on.append(True))
    assert not went_on
    finished = desk.do_steps(next_step(desk, first, steps_of(first).work()))
    assert isinstance(finished, Pending | Send)
    assert went_on == [True]
    answer = desk.finish(altering("log.retention.ms", "7"), 1, next_step(desk, second))
    assert answer.responses[0].error_code == 0
    assert len(desk.broker.altering) == 0


def test_a_change_whose_connection_is_closed_lets_the_next_one_in(desk, store):
    first = desk.decide(altering(KEY_STORE, store), 1)
    second = desk.decide(altering("log.retention.ms", "7"), 1)
    went_on = []
    steps_of(second).when_over(lambda: went_on.append(True))
    first.steps.close()
    assert went_on == [True]
    second.steps.close()
    assert len(desk.broker.altering) == 0


def test_a_setting_that_names_no_file_is_decided_at_once(desk):
    assert not isinstance(desk.decide(altering("log.retention.ms", "7"), 1), Unfinished)
