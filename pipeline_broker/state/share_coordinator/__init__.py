"""The share coordinator: it stores the state of share partitions in `__share_group_state`, in Kafka's layouts.

Counterpart in Kafka: `ShareCoordinatorService`, `Persister`.
"""
