"""Every API that is compared, one row each: what draws its requests. An API is added here, and nowhere else."""

from functools import cache

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.wire.registry import ApiKey
from tests.differential.access_requests import ACCESS_REQUESTS
from tests.differential.admin_requests import ADMIN_REQUESTS
from tests.differential.cluster_requests import CLUSTER_REQUESTS
from tests.differential.data_requests import DATA_REQUESTS
from tests.differential.group_requests import GROUP_REQUESTS
from tests.differential.marker_requests import MARKER_REQUESTS
from tests.differential.quota_requests import QUOTA_REQUESTS
from tests.differential.share_requests import SHARE_REQUESTS
from tests.differential.transaction_requests import TRANSACTION_REQUESTS
from tests.wire.definitions import definitions

__all__ = ["PACED", "REQUESTS", "versions_of"]

REQUESTS = (
    DATA_REQUESTS
    | ADMIN_REQUESTS
    | GROUP_REQUESTS
    | QUOTA_REQUESTS
    | CLUSTER_REQUESTS
    | ACCESS_REQUESTS
    | MARKER_REQUESTS
    | TRANSACTION_REQUESTS
    | SHARE_REQUESTS
)
PACED = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
"""What comes too early is refused, and which are too early depends on when each was asked; nobody needs rights."""


@cache
def versions_of(key: int) -> list[int]:
    """The versions that Kafka serves too: `KAFKA_VERSION` may choose an older release."""
    found = definitions().get(f"{SERVED[key].name}Request")
    return [] if found is None else [version for version in SERVED[key].versions if version in found.versions]
