"""Errors of an object store as the errors of files that the archive expects."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline_broker.files.errors import Ended, Obstacle
from pipeline_broker.objects.store import Interrupted, Missing, ObjectStoreError

__all__ = ["obstacles"]


@contextmanager
def obstacles(what: str) -> Iterator[None]:
    try:
        yield
    except Missing as error:
        raise FileNotFoundError(errno.ENOENT, f"{what}: the object {error} is missing") from error
    except Interrupted as error:
        raise Ended(f"{what}: {error}") from error
    except ObjectStoreError as error:
        raise Obstacle(f"{what}: {error}") from error
