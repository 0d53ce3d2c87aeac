"""Beyond loopback, requests and keys cross a network: `serve` then needs TLS, its own or that of a proxy."""

from __future__ import annotations

import ssl

from imgproc_local.config import Config
from imgproc_local.domain.addresses import is_loopback
from imgproc_local.domain.errors import SettingInvalid


def require_protection(config: Config) -> None:
    """Check that other machines connect only by TLS, and that the TLS file can be used. Raises: SettingInvalid."""
    if config.tls_cert:
        _check_file(config.tls_cert)
    elif not config.behind_proxy and not is_loopback(config.host):
        raise SettingInvalid(
            f"Other machines can reach {config.host}, and without TLS anyone on the network could read pictures and"
            " keys: give --tls-cert, or give the address of a proxy with"
            " TLS as --behind-proxy ADDRESS, or listen on 127.0.0.1."
        )


def _check_file(file: str) -> None:
    """Raises: SettingInvalid, if the file does not have a certificate and its key."""

    def refuse_password() -> str:
        raise SettingInvalid(f"tls_cert must have a key without a password; the one in {file} has one.")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file, password=refuse_password)
    except ssl.SSLError as error:
        raise SettingInvalid(
            f"tls_cert must be one PEM file of a certificate and its private key; {file} is not"
            f" ({error.reason or error}). If the key is a file of its own, append it to the certificate."
        ) from error
    except OSError as error:
        raise SettingInvalid(
            f"tls_cert must be a file that can be read; {file} can't be ({error.strerror})."
        ) from error
