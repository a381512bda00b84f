"""Notifications to a service manager such as systemd."""

import os
import socket

import pytest

from pipeline_broker.node.service_manager import NOTIFY_VARIABLE, notify

SECONDS_MAX = 20


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """A socket of a service manager, and its address as the variable has it."""
    address = str(tmp_path / "notify") if request.param == "path" else f"@pipeline-broker-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as received:
        received.bind(address if request.param == "path" else f"\0{address[1:]}")
        received.settimeout(SECONDS_MAX)
        yield received, address


def test_assignments_are_one_datagram(manager, monkeypatch):
    received, address = manager
    monkeypatch.setenv(NOTIFY_VARIABLE, address)
    notify("READY=1", "STATUS=listening")
    assert received.recv(1024) == b"READY=1\nSTATUS=listening"


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "@nobody", "relative"])
def test_without_a_manager_nothing_happens(address, monkeypatch):
    monkeypatch.setenv(NOTIFY_VARIABLE, address)
    notify("READY=1")


def test_a_broker_reports_when_it_is_ready_and_when_it_stops(manager, broker_process):
    received, address = manager
    broker = broker_process(environment={**os.environ, NOTIFY_VARIABLE: address})
    ready, status = received.recv(1024).decode().splitlines()
    assert (ready, status) == ("READY=1", f"STATUS={broker.ready_line}")
    broker.stop()
    assert received.recv(1024).decode().startswith("STOPPING=1\n")
