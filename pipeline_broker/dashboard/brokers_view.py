"""The brokers of a cluster as JSON."""

from __future__ import annotations

from typing import Any

from pipeline_broker.base.steps import THINGS_PER_STEP, Steps
from pipeline_broker.broker.broker import Broker

__all__ = ["brokers"]


def brokers(broker: Broker) -> Steps[dict[str, Any]]:
    """Return the brokers by id, in steps; without a cluster an empty list."""
    members = broker.members
    if members is None:
        return {"brokers": []}
    partitions = 0
    for place, topic in enumerate(list(broker.topics.all())):
        partitions += topic.partitions
        if place % THINGS_PER_STEP == THINGS_PER_STEP - 1:
            yield
    image, controller = members.image, members.controller_id
    led = {node_id: image.led_by(node_id) for node_id in image.nodes}
    # Partitions from the time before the cluster have no record, and the controller leads them.
    led[controller] = partitions - sum(count for node_id, count in led.items() if node_id != controller)
    return {
        "brokers": [
            {
                "id": node_id,
                "is_controller": node_id == controller,
                "state": node.state.value,
                "starts": node.generation,
                "partitions": led[node_id],
                "listeners": [f"{name}://{host}:{port}" for name, (host, port) in sorted(node.listeners.items())],
            }
            for node_id, node in sorted(image.nodes.items())
        ]
    }
