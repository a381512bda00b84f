"""Members of a group of the consumer protocol (KIP-848): join, send heartbeats, fall silent, leave, and come back.

Rules of this file: as of `clients`. A member says all that it knows in the first heartbeat of a connection, because an
answer may have been lost with the one before.
"""

from collections import deque

import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.simulation.asks import FAILED
from tests.simulation.scenario import SESSION_MS
from tests.simulation.watch import TOPIC
from tests.simulation.wire_client import Ask

SILENCE_SECONDS = 2 * SESSION_MS / 1000
LEAVING = -1
OUT = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
TopicPartitions = ConsumerGroupHeartbeatRequest.TopicPartitions


class ModernMember:
    """See the rules of the file."""

    def __init__(self, world, plan):
        self.world = world
        self.plan = plan
        self.acts = deque(plan.acts)
        self.me = world.ownership.member(plan.name)
        self.must_tell_all = True

    async def go_on(self, client):
        self.must_tell_all = True
        while self.acts:
            act = self.acts[0]
            if act.kind == "silence":
                self.acts.popleft()
                await trio.sleep(SILENCE_SECONDS)
            elif act.kind == "leave" and self.me.epoch:
                self.acts.popleft()
                await self._leave(client)
            else:
                await self._beat(client)
                self.acts.popleft()
            await trio.sleep(self.plan.pause)

    async def _leave(self, client):
        self.world.ownership.is_out(self.me)
        request = ConsumerGroupHeartbeatRequest(self.plan.shared, self.plan.name, LEAVING)
        (exchange,) = client.send(Ask(request, 1))
        code = (await client.wait_for(exchange)).error_code
        if code and code != FAILED and code not in OUT and not client.life.explains(code):
            self.world.complain(f"{client!r}: leaving was answered {ErrorCode(code).name}")

    async def _beat(self, client):
        me, ownership = self.me, self.world.ownership
        is_joining = not me.epoch
        request = self._heartbeat()
        ownership.says(me)
        not_before, sent_at = (ownership.epoch if is_joining else me.epoch), trio.current_time()
        (exchange,) = client.send(Ask(request, 1))
        answer = await client.wait_for(exchange)
        if answer.error_code in OUT and not is_joining:
            ownership.is_out(me)
        elif answer.error_code and answer.error_code != FAILED and not client.life.explains(answer.error_code):
            self.world.complain(f"{client!r}: a heartbeat was answered {ErrorCode(answer.error_code).name}")
        if answer.error_code:
            return
        self.must_tell_all = False
        given = answer.assignment
        assigned = None if given is None else [(it.topic_id, p) for it in given.topic_partitions for p in it.partitions]
        now = trio.current_time()
        for text in ownership.told(me, answer.member_epoch, assigned, sent_at=sent_at, now=now, not_before=not_before):
            self.world.complain(f"{client!r}: {text}")

    def _heartbeat(self):
        owned = {}
        for topic_id, partition in sorted(self.me.assigned):
            owned.setdefault(topic_id, []).append(partition)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.plan.shared,
            member_id=self.plan.name,
            member_epoch=self.me.epoch,
            topic_partitions=[TopicPartitions(topic_id, partitions) for topic_id, partitions in owned.items()],
        )
        if self.must_tell_all or not self.me.epoch:
            request.rebalance_timeout_ms = self.plan.timeout_ms
            request.subscribed_topic_names = [TOPIC]
            request.server_assignor = None
        return request
