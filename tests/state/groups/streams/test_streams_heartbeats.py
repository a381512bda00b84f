"""StreamsGroupHeartbeat: joins, epochs, fencing, leaving, timers, statuses and endpoints."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.modern.layouts import UNKNOWN_EPOCH
from pipeline_broker.state.groups.modern.member import LEAVING_STATIC_EPOCH
from pipeline_broker.state.groups.streams.group import OFFSETS_MAX
from pipeline_broker.state.groups.streams.internal_topics import TASKS_MAX, StreamsStatus
from pipeline_broker.state.groups.streams.roles import Role, tasks_of
from pipeline_broker.state.groups.streams.tasks import NO_TASKS, Tasks
from pipeline_broker.state.groups.streams.topology import Subtopology, TopicInfo, Topology
from tests.state.groups.streams.streams_driver import JOIN, STORE, TOPOLOGY, StreamsDriver, owned

AT_ONCE = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}
ALL = {"0": frozenset(range(4))}


def driver_of(**settings: object) -> StreamsDriver:
    driver = StreamsDriver(BrokerConfig(**{**AT_ONCE, **settings}))
    driver.create_topics()
    return driver


@pytest.fixture
def driver() -> StreamsDriver:
    return driver_of()


def refusal(answer):
    return answer.error, answer.message


def statuses(answer):
    return [each.status for each in answer.statuses]


def test_the_first_member_gets_every_task(driver):
    answer = driver.enter("m")
    assert (answer.member_epoch, answer.tasks) == (2, Tasks(ALL, {}, {}))
    assert driver.beat("m", member_epoch=2).tasks is None, "unchanged"


def test_a_member_gets_tasks_after_another_has_revoked_them(driver):
    driver.enter("m")
    second = driver.enter("n")
    assert second.tasks == NO_TASKS
    kept = driver.beat("m", member_epoch=2)
    assert (kept.member_epoch, len(kept.tasks.active["0"])) == (2, 2)
    assert driver.beat("n", member_epoch=second.member_epoch).tasks is None, "not revoked yet"
    assert driver.beat("m", member_epoch=2, **owned(kept.tasks)).member_epoch == 3
    got = driver.beat("n", member_epoch=second.member_epoch)
    assert got.tasks.active["0"] | kept.tasks.active["0"] == ALL["0"]
    assert driver.group().state_name == "Stable"


def test_the_state_follows_topics_assignment_and_members():
    driver = StreamsDriver(BrokerConfig(**{**AT_ONCE, "group_streams_assignment_interval_ms": 1_000}))
    driver.enter("m")
    assert driver.group().state_name == "NotReady"
    driver.create_topics()
    driver.beat("m", member_epoch=2)
    assert driver.group().state_name == "Assigning"
    driver.tick(1_000)
    driver.beat("m", member_epoch=2)
    assert driver.group().state_name == "Stable"
    driver.enter("n")
    driver.tick(1_000)
    driver.beat("n", member_epoch=3)
    assert driver.group().state_name == "Reconciling"
    for member_id in ("m", "n"):
        driver.beat(member_id, member_epoch=-1)
    assert driver.group().state_name == "Empty"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active": None}, "ActiveTasks must be empty when (re-)joining."),
        ({"standby": {"0": {1}}}, "StandbyTasks must be empty when (re-)joining."),
        ({"warmup": None}, "WarmupTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": 5}, "Topology can only be provided when (re-)joining."),
        ({"member_epoch": 5, "topology": None, "active": None}, "If one task-type is non-null, all must be non-null."),
    ],
)
def test_a_request_with_wrong_fields_is_refused(driver, change, message):
    request = {"member_id": "m", **JOIN, "topology": TOPOLOGY, **change}
    assert refusal(driver.beat(**request)) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({"9": {0}}, "Subtopology 9 does not exist in the topology."),
        ({"0": {4}}, "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4"),
    ],
)
def test_a_report_of_an_unknown_task_is_refused(driver, tasks, message):
    epoch = driver.enter("m").member_epoch
    answer = driver.beat("m", member_epoch=epoch, **owned(Tasks(tasks, {}, {})))
    assert refusal(answer) == (ErrorCode.INVALID_REQUEST, message)


def test_a_member_with_another_epoch_is_fenced_and_may_join_again(driver):
    driver.enter("m")
    assert driver.beat("m", member_epoch=9).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.beat("m", member_epoch=1).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.enter("m").tasks == Tasks(ALL, {}, {})


def test_unknown_members_and_groups_are_refused(driver):
    assert driver.beat("m", member_epoch=1).error is ErrorCode.GROUP_ID_NOT_FOUND
    driver.enter("m")
    assert driver.beat("n", member_epoch=1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("n", member_epoch=-1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_admits_no_member():
    driver = driver_of(group_streams_max_size=1)
    driver.enter("m")
    assert driver.enter("n").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.enter("m").error is ErrorCode.NONE, "a member joins again"


def test_a_member_that_leaves_releases_its_tasks(driver):
    driver.enter("m")
    driver.enter("n")
    assert driver.beat("m", member_epoch=-1).member_epoch == -1
    assert driver.beat("n", member_epoch=3).tasks == Tasks(ALL, {}, {})


def test_a_silent_member_is_removed_after_its_session(driver):
    driver.enter("m")
    driver.tick(driver.settings.group_streams_session_timeout_ms - 1)
    assert set(driver.group().members) == {"m"}
    driver.tick(1)
    assert driver.group().state_name == "Empty"


def test_a_member_that_does_not_revoke_is_removed_after_its_rebalance_timeout(driver):
    driver.enter("m", rebalance_timeout_ms=10_000)
    driver.enter("n")
    for _ in range(10):
        driver.beat("m", member_epoch=2)
        driver.beat("n", member_epoch=3)
        driver.tick(1_000)
    assert set(driver.group().members) == {"n"}


def test_a_static_member_returns_to_its_tasks_without_a_new_epoch(driver):
    driver.enter("m", instance_id="i")
    assert driver.beat("m", member_epoch=LEAVING_STATIC_EPOCH, instance_id="i").error is ErrorCode.NONE
    answer = driver.enter("m2", instance_id="i", process_id="p-m")
    assert (answer.error, answer.member_epoch, answer.tasks) == (ErrorCode.NONE, 2, Tasks(ALL, {}, {}))
    assert set(driver.group().members) == {"m2"}


def test_a_returning_static_member_may_commit_with_any_earlier_epoch(driver):
    driver.enter("m", instance_id="i")
    before = driver.group().members["m"].current.assigned
    driver.beat("m", member_epoch=LEAVING_STATIC_EPOCH, instance_id="i")
    driver.enter("m2", instance_id="i", process_id="p-m")
    after = driver.group().members["m2"].current.assigned
    assert after == {key: dict.fromkeys(epochs, 0) for key, epochs in before.items()}


def test_the_standby_tasks_of_an_absent_static_member_have_no_epochs():
    driver = driver_of(group_streams_num_standby_replicas=1)
    driver.enter("m", instance_id="i")
    driver.enter("n")
    for _ in range(4):
        driver.tick(1_000)
        for member_id in "mn":
            member = driver.group().members[member_id]
            reported = owned(tasks_of(member.current.assigned))
            driver.beat(member_id, member_epoch=member.current.member_epoch, **reported)
    driver.beat("m", member_epoch=LEAVING_STATIC_EPOCH, instance_id="i")
    assert {
        (key.role, epoch)
        for key, epochs in driver.group().members["m"].current.assigned.items()
        for epoch in epochs.values()
    } == {(Role.ACTIVE, 0), (Role.STANDBY, UNKNOWN_EPOCH)}


def test_a_static_member_that_has_not_left_keeps_its_instance_id(driver):
    driver.enter("m", instance_id="i")
    assert driver.enter("n", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.beat("n", member_epoch=2, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID


def test_the_first_assignment_waits_for_more_members():
    driver = driver_of(group_streams_initial_rebalance_delay_ms=3_000)
    first = driver.enter("m")
    assert (first.tasks, statuses(first)) == (NO_TASKS, [StreamsStatus.ASSIGNMENT_DELAYED])
    driver.tick(1_000)
    epoch = driver.enter("n").member_epoch
    driver.tick(2_000)
    found = [driver.beat(member_id, member_epoch=epoch).tasks.active["0"] for member_id in ("m", "n")]
    assert sorted(map(len, found)) == [2, 2]


def test_assignments_are_computed_once_in_an_interval():
    driver = driver_of(group_streams_assignment_interval_ms=1_000)
    driver.enter("m")
    late = driver.enter("n")
    assert statuses(late) == [StreamsStatus.ASSIGNMENT_DELAYED]
    driver.tick(1_000)
    assert StreamsStatus.ASSIGNMENT_DELAYED not in statuses(driver.beat("n", member_epoch=late.member_epoch))
    assert driver.group().assignment_epoch == driver.group().epoch


def test_missing_and_wrongly_partitioned_topics_are_statuses_and_nothing_is_assigned():
    driver = StreamsDriver(BrokerConfig(**AT_ONCE))
    answer = driver.enter("m")
    assert (statuses(answer), answer.tasks) == ([StreamsStatus.MISSING_SOURCE_TOPICS], NO_TASKS)
    driver.create("t")
    answer = driver.beat("m", member_epoch=answer.member_epoch)
    assert statuses(answer) == [StreamsStatus.MISSING_INTERNAL_TOPICS]
    assert answer.topics_to_create == (TopicInfo("store", 4, -1, STORE.configs),)
    driver.create("store", 3)
    answer = driver.beat("m", member_epoch=answer.member_epoch)
    assert statuses(answer) == [StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS]


def test_a_group_follows_its_topics_when_they_disappear_and_return(driver):
    epoch = driver.enter("m").member_epoch
    driver.drop("t")
    answer = driver.beat("m", member_epoch=epoch)
    assert (statuses(answer), answer.tasks) == ([StreamsStatus.MISSING_SOURCE_TOPICS], NO_TASKS)
    answer = driver.beat("m", member_epoch=epoch, **owned(NO_TASKS))
    driver.create("t")
    assert driver.beat("m", member_epoch=answer.member_epoch).tasks == Tasks(ALL, {}, {})


def test_a_topology_is_never_changed(driver):
    driver.enter("m")
    other = Topology(1, (Subtopology("0", ("t",)),))
    assert refusal(driver.enter("n", topology=other)) == (
        ErrorCode.INVALID_REQUEST,
        "Topology updates are not supported yet.",
    )


def test_a_member_with_an_older_topology_learns_it():
    driver = driver_of()
    driver.enter("m", topology=Topology(2, TOPOLOGY.subtopologies))
    answer = driver.enter("n")
    assert statuses(answer) == [StreamsStatus.STALE_TOPOLOGY]
    assert driver.group().topology.epoch == 2


def test_one_member_shuts_the_application_down(driver):
    driver.enter("m")
    epoch = driver.enter("n").member_epoch
    driver.beat("m", member_epoch=2, shutdown_application=True)
    (found,) = driver.beat("n", member_epoch=epoch).statuses
    assert found.status is StreamsStatus.SHUTDOWN_APPLICATION
    assert "member m " in found.detail
    for member_id in ("m", "n"):
        driver.beat(member_id, member_epoch=-1)
    assert statuses(driver.enter("m")) == [], "a new life of the application"


def test_missing_client_tags_are_a_status_that_old_clients_do_not_get():
    driver = driver_of(group_streams_rack_aware_assignment_tags=("zone",))
    assert statuses(driver.enter("m")) == [StreamsStatus.MISSING_CLIENT_TAGS]
    assert statuses(driver.enter("n", client_tags={"zone": "a"})) == []
    assert statuses(driver.enter("o", knows_missing_tags=False)) == []


def test_standby_tasks_are_in_other_processes():
    driver = driver_of(group_streams_num_standby_replicas=1)
    clients = {"m": NO_TASKS, "n": NO_TASKS}
    epochs = {member_id: driver.enter(member_id).member_epoch for member_id in clients}
    for _ in range(4):
        for member_id, tasks in list(clients.items()):
            answer = driver.beat(member_id, member_epoch=epochs[member_id], **owned(tasks))
            epochs[member_id], clients[member_id] = answer.member_epoch, answer.tasks or tasks
    first, second = clients.values()
    assert (first.standby, second.standby) == (second.active, first.active)


def test_endpoints_are_sent_when_they_have_changed(driver):
    driver.enter("m", endpoint=("host", 1))
    answer = driver.beat("m", member_epoch=2)
    ((endpoint, partitions),) = answer.endpoints
    assert endpoint == ("host", 1)
    assert dict(partitions.active) == {"t": (0, 1, 2, 3)}
    assert driver.beat("m", member_epoch=2, endpoint_epoch=answer.endpoint_epoch).endpoints is None
    driver.enter("n", endpoint=("other", 2))
    later = driver.beat("m", member_epoch=2, endpoint_epoch=answer.endpoint_epoch)
    assert later.endpoint_epoch > answer.endpoint_epoch
    assert {each.endpoint for each in later.endpoints} == {("host", 1), ("other", 2)}


def test_offsets_of_tasks_are_kept_until_the_member_leaves(driver):
    epoch = driver.enter("m").member_epoch
    driver.beat("m", member_epoch=epoch, task_offsets=[("0", 1, 7)])
    driver.beat("m", member_epoch=epoch, end_offsets=[("0", 1, 9)])
    kept = driver.group().task_offsets["m"]
    assert (kept.offsets, kept.end_offsets) == ({"0": {1: 7}}, {"0": {1: 9}})
    twice = driver.beat("m", member_epoch=epoch, task_offsets=[("0", 1, 7), ("0", 1, 8)])
    assert twice.error is ErrorCode.INVALID_REQUEST
    driver.beat("m", member_epoch=-1)
    assert driver.group().task_offsets == {}


def test_a_group_forgets_the_offsets_of_a_member_that_would_exceed_its_maximum(driver):
    topology = Topology(0, (Subtopology("0", ("wide",)),))
    driver.create("wide", TASKS_MAX)
    every = [("0", number, 7) for number in range(TASKS_MAX)]
    members = [f"m{number}" for number in range(OFFSETS_MAX // TASKS_MAX)]
    for member_id in (*members, "late"):
        driver.enter(member_id, topology=topology, task_offsets=every)
    assert list(driver.group().task_offsets) == members
    driver.enter("m0", topology=topology, task_offsets=every[1:])
    driver.enter("late", topology=topology, task_offsets=every[:1])
    assert set(driver.group().task_offsets) == {*members, "late"}, "less replaces more, and makes space"
    driver.enter("m1", topology=topology, task_offsets=every, end_offsets=every)
    assert set(driver.group().task_offsets) == {*members, "late"} - {"m1"}


def test_a_setting_of_assignments_moves_the_group(driver):
    epoch = driver.enter("m").member_epoch
    driver.settings = driver_of(group_streams_num_standby_replicas=1).settings
    driver.restart()
    driver.beat("m", member_epoch=epoch)
    assert driver.group().epoch == 3


def test_nothing_is_answered_before_its_records_are_durable():
    driver = StreamsDriver(BrokerConfig(**AT_ONCE), hold=True)
    driver.create_topics()
    assert driver.enter("m") is None
    assert driver.coordinator.registry.shown("g") is None
    driver.settle()
    assert driver.coordinator.registry.shown("g").state_name == "Stable"


def test_a_member_whose_records_were_not_stored_finds_another_coordinator():
    driver = StreamsDriver(BrokerConfig(**AT_ONCE), hold=True)
    driver.create_topics()
    driver.enter("m")
    driver.settle(ErrorCode.NOT_COORDINATOR)
    (answer,) = driver.answers.values()
    assert answer.error is ErrorCode.NOT_COORDINATOR
