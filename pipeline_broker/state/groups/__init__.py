"""The group coordinator: classic, consumer (KIP-848) and share (KIP-932) groups, and the offsets that they commit.

* The state machines are synchronous and do no I/O: see `state/outcome.py`.
* `GroupCoordinator` owns everything that all kinds of groups share: ids, offsets, listing and deletion. Each kind
  implements `GroupKind` and owns the members, timers and records of its groups.
* A module of this package imports a kind only on its first use, so a broker loads only the kinds that its clients use.
* A group counts its memory in its own `HeldBytes` whenever that changes. The registry adds it to the total.

Counterpart in Kafka: `GroupCoordinatorService`, `GroupMetadataManager`.
"""
