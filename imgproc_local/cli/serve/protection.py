"""Beyond loopback, requests and keys cross a network: `serve` then needs TLS, its own or that of a proxy."""

from __future__ import annotations

import ssl

from imgproc_local.config import Config
from imgproc_local.domain.addresses import is_loopback
from imgproc_local.domain.errors import SettingInvalid


def require_protection(config: Config) -> None:
    """Check that other machines connect only by TLS, and that the TLS files can be used. Raises: SettingInvalid."""
    if bool(config.tls_cert) != bool(config.tls_key):
        missing = "tls_key" if config.tls_cert else "tls_cert"
        raise SettingInvalid(f"TLS needs a certificate and its key: {missing} is not set.")
    if config.tls_cert:
        _check_files(config)
    elif not config.behind_proxy and not is_loopback(config.host):
        raise SettingInvalid(
            f"Other machines can reach {config.host}, and without TLS anyone on the network could read pictures and"
            " keys: give --tls-cert and --tls-key, or give the address of a proxy with"
            " TLS as --behind-proxy ADDRESS, or listen on 127.0.0.1."
        )


def _check_files(config: Config) -> None:
    """Raises: SettingInvalid, if the certificate and the key can't be used together."""

    def refuse_password() -> str:
        raise SettingInvalid(f"tls_key must be a key without a password; {config.tls_key} has one.")

    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(config.tls_cert, config.tls_key, password=refuse_password)
    except ssl.SSLError as error:
        raise SettingInvalid(
            f"tls_cert and tls_key must be PEM files of a certificate and its key; {config.tls_cert} and"
            f" {config.tls_key} are not ({error.reason or error})."
        ) from error
    except OSError as error:
        raise SettingInvalid(
            f"tls_cert and tls_key must be files that can be read; {config.tls_cert} and {config.tls_key} can't be"
            f" ({error.strerror})."
        ) from error
