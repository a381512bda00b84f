"""Modules of the broker that the first request of an API uses, beside its handler.

A thread imports them with the handler. Otherwise the event loop would, when the broker makes their objects.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TypeAlias

__all__ = [
    "Need",
    "classic_groups",
    "client_quotas",
    "consumer_groups",
    "features",
    "group_shards",
    "groups",
    "passwords",
    "quota_kinds",
    "share_groups",
    "share_partitions",
    "stored_settings",
    "streams_groups",
    "transactions",
]

Need: TypeAlias = Callable[[], ModuleType]
"""Imports a module and returns it."""


def groups() -> ModuleType:
    from pipeline_broker.state.groups import coordinator  # noqa: PLC0415 - on the first request, as all below

    return coordinator


def group_shards() -> ModuleType:
    from pipeline_broker.broker import group_shard  # noqa: PLC0415 - on the first request

    return group_shard


def classic_groups() -> ModuleType:
    from pipeline_broker.state.groups.classic import coordinator  # noqa: PLC0415 - on the first request

    return coordinator


def consumer_groups() -> ModuleType:
    from pipeline_broker.state.groups.consumer import coordinator  # noqa: PLC0415 - on the first request

    return coordinator


def share_groups() -> ModuleType:
    from pipeline_broker.state.groups.share import coordinator  # noqa: PLC0415 - on the first request

    return coordinator


def streams_groups() -> ModuleType:
    from pipeline_broker.state.groups.streams import coordinator  # noqa: PLC0415 - on the first request

    return coordinator


def share_partitions() -> ModuleType:
    from pipeline_broker.broker import share_partition_manager  # noqa: PLC0415 - on the first request

    return share_partition_manager


def transactions() -> ModuleType:
    from pipeline_broker.broker import transaction_shard  # noqa: PLC0415 - on the first request

    return transaction_shard


def client_quotas() -> ModuleType:
    from pipeline_broker.quotas import client_quotas as module  # noqa: PLC0415 - on the first request

    return module


def quota_kinds() -> ModuleType:
    from pipeline_broker.quotas import kinds  # noqa: PLC0415 - on the first request

    return kinds


def stored_settings() -> ModuleType:
    from pipeline_broker.config import stored_settings as module  # noqa: PLC0415 - on the first request

    return module


def passwords() -> ModuleType:
    from pipeline_broker.security import scram_users  # noqa: PLC0415 - on the first request

    return scram_users


def features() -> ModuleType:
    from pipeline_broker.state import features as module  # noqa: PLC0415 - on the first request

    return module
