"""A small service that reads orders and confirms each of them once, by its key."""

import json

from confluent_kafka import Consumer, Producer


class Confirmations:
    """Reads `orders` and writes `confirmations`.

    An offset is committed after the confirmation is acknowledged. No confirmation is lost, but one may be written
    twice.
    """

    def __init__(self, bootstrap_servers, group="confirmations"):
        self._producer = Producer({"bootstrap.servers": bootstrap_servers})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe(["orders"])

    def run(self, orders, seconds=10.0):
        """Confirm a number of orders.

        Raises:
            TimeoutError: no order arrived, or a confirmation was not acknowledged, within `seconds`.
        """
        for _ in range(orders):
            message = self._consumer.poll(seconds)
            if message is None:
                raise TimeoutError("no order arrived")
            order = json.loads(message.value())
            confirmation = {"order": order["id"], "total": sum(line["price"] for line in order["lines"])}
            self._producer.produce("confirmations", json.dumps(confirmation), key=message.key())
            if self._producer.flush(seconds):
                raise TimeoutError("a confirmation was not acknowledged")
            self._consumer.commit(message, asynchronous=False)

    def close(self):
        """Leave the group."""
        self._consumer.close()
