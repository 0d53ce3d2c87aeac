"""Records the hosts to which a Python process and its child processes connect."""

from __future__ import annotations

import ipaddress
from pathlib import Path

SITECUSTOMIZE = """
import sys

def record(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo"):
        address = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
        with open({log!r}, "a") as log:
            log.write((address[0] if isinstance(address, tuple) else str(address)) + "\\n")

sys.addaudithook(record)
"""


def recording_environment(folder: Path) -> dict[str, str]:
    """Environment variables with which a Python process and its children record their connections in `folder`."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE.format(log=str(folder / "log")))
    return {"PYTHONPATH": str(folder)}


def connected_hosts(folder: Path) -> list[str]:
    """The recorded hosts outside this machine that were looked up or connected to."""
    log = folder / "log"
    hosts = log.read_text().split() if log.exists() else []
    return [host for host in hosts if not _is_local(host)]


def _is_local(host: str) -> bool:
    if host == "localhost" or host.startswith("/"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
