"""Stores for brokers that keep everything in one: a directory, processes that can be killed, and a proxy in front.

Rules of this file: a store belongs to one run and is gone with it. versitygw is used where it is, because it is another
project's; the server of these tests is always there.
"""

import contextlib
import shutil

import attrs

from tests.objects import s3_servers
from tests.objects.store_proxy import StoreProxy

PREFIX = "campaign"
FILES, SERVER, VERSITYGW = "files", "server", "versitygw"
PROCESSES = {SERVER: s3_servers.directory_server, VERSITYGW: s3_servers.versitygw}


@attrs.frozen
class StoreUnderTest:
    """Where a broker keeps everything.

    Attributes:
        arguments: of `serve`.
        environment: of the broker.
        process: the store's own, None where it has none.
        proxy: between the broker and the store, None where there is none.
    """

    arguments: tuple
    environment: dict = attrs.Factory(dict)
    process: object = None
    proxy: object = None


def kinds(*wanted):
    """Those of the wanted kinds that this machine has."""
    return [kind for kind in wanted if kind != VERSITYGW or shutil.which(VERSITYGW, path=s3_servers.search_path())]


@contextlib.contextmanager
def open_store(kind, seed, directory, *, has_proxy=False):
    """A store of a kind, with nothing in it."""
    directory.mkdir(parents=True)
    if kind == FILES:
        yield StoreUnderTest(on_objects(f"file://{directory}/store"))
        return
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(PROCESSES[kind](directory))
        proxy = stack.enter_context(StoreProxy(seed, process.port)) if has_proxy else None
        address = proxy.address if proxy else process.address
        url = f"s3://{s3_servers.BUCKET}/{PREFIX}"
        yield StoreUnderTest(on_objects(url), s3_servers.environment(address), process, proxy)


def on_objects(url):
    """The arguments of a broker that keeps everything there."""
    return "--store", url, "--wal", "objects"
