"""Certificates for servers on this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def self_signed(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """The files `name`.pem with a certificate for `name` and 127.0.0.1, and `name`.key with its key.

    Skips the test where openssl is not installed.
    """
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", *kind, *names, "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key
