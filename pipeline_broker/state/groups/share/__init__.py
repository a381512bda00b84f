"""Share groups (KIP-932): members that read the same partitions together.

This package assigns partitions to members. `state/share_partitions` distributes their records.
"""
