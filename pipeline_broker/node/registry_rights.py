"""The rights of users on the schema registry: Read on its topic to see schemas, and Write to change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pipeline_broker.schema_registry.api import error_answer, is_change
from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.records import SCHEMAS_TOPIC
from pipeline_broker.security.acl import AclOperation, ResourceType

if TYPE_CHECKING:
    from pipeline_broker.node.http_callers import HttpCallers
    from pipeline_broker.security.basic_users import HttpUser
    from pipeline_broker.web.messages import Answer, HttpRequest, StreamedAnswer

__all__ = ["Answering", "GuardedRegistry"]


class Answering(Protocol):
    async def answer(self, request: HttpRequest) -> Answer | StreamedAnswer: ...


class GuardedRegistry:
    """A registry that checks the rights of users. Requests without a user have all rights."""

    def __init__(self, registry: Answering, callers: HttpCallers) -> None:
        self._registry, self._callers = registry, callers

    async def answer(self, request: HttpRequest) -> Answer | StreamedAnswer:
        try:
            reason = None if request.user is None else self._refusal(request, request.user)
        except RegistryError as error:
            return error_answer(error)
        return await self._registry.answer(request) if reason is None else error_answer(RegistryError(403, reason))

    def _refusal(self, request: HttpRequest, user: HttpUser) -> str | None:
        changes = is_change(request)
        if changes and user.is_read_only:
            return user.refusal
        caller = self._callers.caller_of(request)
        operation = AclOperation.WRITE if changes else AclOperation.READ
        return None if caller.may(operation, ResourceType.TOPIC, SCHEMAS_TOPIC) else caller.missing
