"""Validation of topic names, partition counts, replication factors and assignments, with Kafka's messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pipeline_broker.base.error_code import ErrorCode, KafkaError

__all__ = [
    "PARTITIONS_MAX",
    "TopicError",
    "check_added_assignments",
    "check_allowed",
    "check_assignments",
    "check_name",
    "check_partitions",
    "check_replicas",
    "check_replication_factor",
    "collision_key",
]

NAME_LENGTH_MAX = 249
# Kafka has no such limit. Here it keeps one request from opening an unlimited number of logs.
PARTITIONS_MAX = 10_000
# Reserved for the broker; no topic has such a name.
PROHIBITED = frozenset({"__cluster_metadata"})
_NAME = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
UNSET = -1


class TopicError(KafkaError):
    pass


def check_name(name: str) -> None:
    if not name:
        detail = "the empty string is not allowed"
    elif name in {".", ".."}:
        detail = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        detail = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _NAME.fullmatch(name):
        detail = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {detail}")


def check_allowed(name: str) -> None:
    if name in PROHIBITED:
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")


def collision_key(name: str) -> str:
    """Return the name that metrics use for a topic, in which "." and "_" are equal. Topics must not share it."""
    return name.replace(".", "_")


def check_partitions(partitions: int) -> None:
    """Raise TopicError if a topic cannot have this number of partitions; -1 means the default."""
    if partitions == 0 or partitions < UNSET:
        raise TopicError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if partitions > PARTITIONS_MAX:
        raise TopicError(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions {partitions} is above the limit of this broker, {PARTITIONS_MAX}.",
        )


def check_replication_factor(factor: int, brokers: int, replicas_max: int) -> None:
    """Raise TopicError if the brokers cannot provide this factor; -1 means the default.

    Args:
        replicas_max: number of brokers that can have a replica; 1 for several with one disk.
    """
    if factor == 0 or factor < UNSET:
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if factor <= replicas_max:
        return
    if replicas_max < brokers:
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): the {brokers} brokers of this cluster use one disk,"
            " so each partition has one replica. Use a replication factor of 1 or -1.",
        )
    # Kafka's text, including log directories, which this broker cannot cordon.
    raise TopicError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be"
        f" reached because only {replicas_max} broker(s) are registered or some brokers have all their log directories"
        " cordoned.",
    )


def check_assignments(
    assignments: Sequence[tuple[int, Sequence[int]]],
    partitions: int,
    replication_factor: int,
    brokers: Iterable[int],
) -> None:
    """Raise TopicError unless a manual assignment covers all partitions of a new topic with known brokers.

    Args:
        assignments: pairs of partition index and broker ids.
        partitions: must be UNSET, because the assignments determine the number.
        replication_factor: must be UNSET, likewise.
        brokers: ids of the registered brokers.
    """
    if replication_factor != UNSET:
        raise TopicError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if partitions != UNSET:
        raise TopicError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    placed: set[int] = set()
    for partition, replicas in assignments:
        if partition in placed:
            raise _bad_placement(f"Found multiple manual partition assignments for partition {partition}")
        placed.add(partition)
        check_replicas(replicas, brokers)
    if placed != set(range(len(placed))):
        raise _bad_placement("partitions should be a consecutive 0-based integer sequence")
    check_partitions(len(placed))


def check_added_assignments(assignments: Sequence[Sequence[int]], added: int, brokers: Iterable[int]) -> None:
    """Raise TopicError unless a manual assignment has one valid list of brokers per added partition."""
    if len(assignments) != added:
        raise _bad_placement(
            f"Attempted to add {added} additional partition(s), but only {len(assignments)} assignment(s) were"
            " specified.",
        )
    for replicas in assignments:
        check_replicas(replicas, brokers)


def check_replicas(replicas: Sequence[int], brokers: Iterable[int]) -> None:
    """Raise TopicError if the replicas of a partition are empty, repeat a broker, or name an unknown broker."""
    if not replicas:
        raise _bad_placement("The manual partition assignment includes an empty replica list.")
    seen: Mapping[int, None] = dict.fromkeys(sorted(replicas))
    for broker in seen:
        if replicas.count(broker) > 1:
            raise _bad_placement(f"The manual partition assignment includes the broker {broker} more than once.")
        if broker not in brokers:
            raise _bad_placement(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered.",
            )


def _bad_placement(message: str) -> TopicError:
    return TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
