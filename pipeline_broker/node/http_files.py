"""The files of `--http-certificate` and `--http-users`."""

from __future__ import annotations

import logging
from pathlib import Path

from pipeline_broker.base.owner_only import exposure
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.node.errors import StartError
from pipeline_broker.node.file_renewal import log_warning
from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity

__all__ = ["open_http_security"]

logger = logging.getLogger(__name__)


def open_http_security(certificate: Path | None, users: Path | None, *, is_logged: bool = True) -> HttpSecurity:
    """Read the files of the HTTP ports.

    Args:
        is_logged: whether to log warnings about the files.

    Raises:
        StartError: a file cannot be used.
    """
    if certificate is None and users is None:
        return NO_SECURITY
    from pipeline_broker.security.basic_users import BasicUsers  # noqa: PLC0415 - only if configured
    from pipeline_broker.security.tls import NamedCertificate  # noqa: PLC0415 - as above

    try:
        tls = None if certificate is None else NamedCertificate("--http-certificate", certificate)
        security = HttpSecurity(tls, None if users is None else BasicUsers(users))
    except ConfigError as error:
        raise StartError(str(error)) from None
    if is_logged:
        if certificate is not None and (warning := exposure(certificate)) is not None:
            logger.warning("--http-certificate: %s", warning)
        for name, part in security.files.items():
            log_warning(name, part)
    return security
