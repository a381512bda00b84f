"""Processes that speak S3, started for a test and reached through the usual environment variables."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from tests.conftest import ROOT
from tests.free_ports import free_port
from tests.spark_analysis import s3_server

START_SECONDS_MAX = 20.0
BUCKET = "bucket"
MODULES = {
    "gofakes3": "github.com/johannesboyne/gofakes3/cmd/gofakes3",
    "versitygw": "github.com/versity/versitygw/cmd/versitygw",
}


@contextlib.contextmanager
def open_moto():
    """Start moto, from PyPI: in memory."""
    with s3_server.open_s3_server() as address:
        s3_server.put(address, BUCKET)
        yield address


@contextlib.contextmanager
def open_gofakes3():
    """Start gofakes3, built by Go: in memory."""
    program, port = _program("gofakes3"), free_port()
    with StoreProcess([program, "-backend", "memory", "-host", f"127.0.0.1:{port}"], port) as store:
        s3_server.put(store.address, BUCKET)
        yield store.address


@contextlib.contextmanager
def open_versitygw(directory):
    """Start versitygw, built by Go: on a directory."""
    with versitygw(directory) as store:
        yield store.address


@contextlib.contextmanager
def open_directory_server(directory):
    """Start the server of these tests: on a directory."""
    with directory_server(directory) as store:
        yield store.address


def versitygw(directory):
    """Yield a process that can be killed and keeps its data."""
    program, port = _program("versitygw"), free_port()
    (directory / BUCKET).mkdir(parents=True)
    return StoreProcess([program, "--port", f"127.0.0.1:{port}", "posix", str(directory)], port)


def directory_server(directory):
    """Like `versitygw`, with the server of these tests."""
    port = free_port()
    return StoreProcess(
        [sys.executable, "-m", "tests.objects.directory_server", str(port), str(directory / BUCKET)], port
    )


class StoreProcess:
    """A process that speaks S3. As a context manager it runs; it may be killed, paused, and started again on its
    port.
    """

    def __init__(self, command, port):
        self.port = port
        self._command = command
        self._process = None

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        """Start the process, and wait until it answers."""
        environ = {
            **os.environ,
            "ROOT_ACCESS_KEY_ID": "test",
            "ROOT_SECRET_ACCESS_KEY": "test",
            "PYTHONPATH": str(ROOT),
        }
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _wait_for(self.address)
        except OSError:
            self.kill()
            raise

    def kill(self):
        self._process.kill()
        self._process.wait()

    def hold(self):
        """Pause the process: it answers nothing, and its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def release(self):
        self._process.send_signal(signal.SIGCONT)


def environment(address):
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


def search_path():
    """Return PATH, with Go's folder of programs."""
    return os.pathsep.join((os.environ.get("PATH", ""), os.path.expanduser("~/go/bin")))  # noqa: PTH111 - joined


def _program(name):
    program = shutil.which(name, path=search_path())
    if program is None:
        pytest.skip(f"needs {name}, which Go builds: go install {MODULES[name]}@latest")
    return program


def _wait_for(address):
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            urllib.request.urlopen(address, timeout=1).close()
        except urllib.error.HTTPError as error:
            error.close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
