"""State that most brokers never have: each part is loaded and made when something asks for it first.

Rules of this file: a broker without a feature starts without importing it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline_broker.broker.groups import Groups
    from pipeline_broker.config.settings import BrokerConfig
    from pipeline_broker.faults.faults import Faults
    from pipeline_broker.faults.files import FaultyFiles
    from pipeline_broker.security.acls import Acls
    from pipeline_broker.security.delegation_tokens import DelegationTokens
    from pipeline_broker.security.scram_users import ScramUsers
    from pipeline_broker.state.client_metrics import ClientMetrics
    from pipeline_broker.state.cluster import ClusterState
    from pipeline_broker.state.features import Features
    from pipeline_broker.state.waiting_line import WaitingLine
    from pipeline_broker.telemetry.client_metrics_file import ClientMetricsFile

__all__ = ["LARGE_REQUESTS_MAX", "LONG_BATCHES_MAX", "LazyState"]

LARGE_REQUESTS_MAX = 1
"""Requests with very many elements that are read and answered at a time; decoded, each takes up to 20 MB."""
LONG_BATCHES_MAX = 1
"""Batches that are checked in steps, or searched by time, at a time; decompressed, each takes up to 32 MiB."""


class LazyState:
    """See above.

    Attributes:
        config: what the broker acts on.
        cluster: keeps settings.
        groups: of the broker, as are the next ones; see Broker.
        clock_ms: see above.
        wake_timer: see above.
        fault_files: see above.
        faults_changed: see above.
    """

    config: BrokerConfig
    cluster: ClusterState
    groups: Groups
    clock_ms: Callable[[], int]
    wake_timer: Callable[[], None]
    fault_files: FaultyFiles | None
    faults_changed: Callable[[Faults], None]

    @functools.cached_property
    def faults(self) -> Faults:
        """The fault rules."""
        from pipeline_broker.faults.faults import Faults  # noqa: PLC0415 - see the rules of the room

        disk = None if self.fault_files is None else self.fault_files.disk
        faults = Faults(self.groups, lambda: self.clock_ms(), lambda: self.wake_timer(), disk)  # noqa: PLW0108 - both are set later
        faults.changed = lambda: self.faults_changed(faults)
        return faults

    @property
    def has_faults(self) -> bool:
        """Whether somebody asked for the fault rules."""
        return "faults" in self.__dict__

    @functools.cached_property
    def large_requests(self) -> WaitingLine:
        """Who has a request with very many elements in work, and who waits for that."""
        from pipeline_broker.state.waiting_line import WaitingLine  # noqa: PLC0415 - see the rules of the room

        return WaitingLine(LARGE_REQUESTS_MAX)

    @functools.cached_property
    def long_batches(self) -> WaitingLine:
        """Who has a produced batch checked in steps, or batches searched by time, and who waits for that."""
        from pipeline_broker.state.waiting_line import WaitingLine  # noqa: PLC0415 - see the rules of the room

        return WaitingLine(LONG_BATCHES_MAX)

    @functools.cached_property
    def acls(self) -> Acls:
        """The rules of access."""
        from pipeline_broker.security.acls import Acls  # noqa: PLC0415 - see the rules of the room

        return Acls()

    @functools.cached_property
    def scram_users(self) -> ScramUsers:
        """The users that prove who they are by SCRAM, and the tokens that do it for others."""
        from pipeline_broker.security.scram_users import ScramUsers  # noqa: PLC0415 - see the rules of the room

        return ScramUsers(self.delegation_tokens if self.config.delegation_token_secret_key else None)

    @functools.cached_property
    def delegation_tokens(self) -> DelegationTokens:
        """The tokens that stand for users."""
        from pipeline_broker.security.delegation_tokens import (  # noqa: PLC0415 - see the rules of the room
            DelegationTokens,
        )

        return DelegationTokens(self.config)

    @functools.cached_property
    def features(self) -> Features:
        """The levels of features that are finalized."""
        from pipeline_broker.state.features import Features  # noqa: PLC0415 - see the rules of the room

        return Features()

    @functools.cached_property
    def client_metrics(self) -> ClientMetrics:
        """Which clients push metrics."""
        from pipeline_broker.state.client_metrics import ClientMetrics  # noqa: PLC0415 - see the rules of the room

        return ClientMetrics(self.cluster)

    @functools.cached_property
    def client_metrics_file(self) -> ClientMetricsFile:
        """Where they are kept."""
        from pipeline_broker.telemetry.client_metrics_file import (  # noqa: PLC0415 - see the rules of the room
            ClientMetricsFile,
        )

        path = self.config.pipeline_telemetry_file
        return ClientMetricsFile(None if path is None else Path(path), self.config.telemetry_max_bytes)
