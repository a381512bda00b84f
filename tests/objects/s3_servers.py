"""Processes that speak S3, started for a test and reached through the usual environment variables."""

import contextlib
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import pytest

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
    """From PyPI, in memory."""
    with s3_server.open_s3_server() as address:
        s3_server.put(address, BUCKET)
        yield address


@contextlib.contextmanager
def open_gofakes3():
    """Built by Go, in memory."""
    with _running(_program("gofakes3"), lambda port: ["-backend", "memory", "-host", f"127.0.0.1:{port}"]) as address:
        s3_server.put(address, BUCKET)
        yield address


@contextlib.contextmanager
def open_versitygw(directory):
    """Built by Go, on a directory."""
    program = _program("versitygw")
    (directory / BUCKET).mkdir(parents=True)
    with _running(program, lambda port: ["--port", f"127.0.0.1:{port}", "posix", str(directory)]) as address:
        yield address


def environment(address):
    """What a client of such a process is told by its environment."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


def _program(name):
    """A program of the PATH or of Go's folder."""
    folders = os.pathsep.join((os.environ.get("PATH", ""), os.path.expanduser("~/go/bin")))  # noqa: PTH111 - joined
    program = shutil.which(name, path=folders)
    if program is None:
        pytest.skip(f"needs {name}, which Go builds: go install {MODULES[name]}@latest")
    return program


@contextlib.contextmanager
def _running(program, arguments):
    port = free_port()
    environ = {**os.environ, "ROOT_ACCESS_KEY_ID": "test", "ROOT_SECRET_ACCESS_KEY": "test"}
    process = subprocess.Popen(
        [program, *arguments(port)], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(address)
        yield address
    finally:
        process.kill()
        process.wait()


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
