"""Signatures of manifests, which name the files of a model by their SHA-256. ssh-keygen of OpenSSH makes and verifies
them.

Source: ssh-keygen(1), `-Y` and ALLOWED SIGNERS.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.models.model import MANIFEST_FILE

SIGNATURE_FILE = f"{MANIFEST_FILE}.sig"
_PURPOSE = "imgproc-local"
"""The namespace of signatures and the name of their signer, so that no key or signature for something else counts."""
_TIMEOUT_S = 30.0


def require_signature(manifest: bytes, signature: Path, signers: Path) -> None:
    """Raises: ModelUnusable, unless the file `signature` signs `manifest` with a key in the file `signers`."""
    program = shutil.which("ssh-keygen")
    if program is None or not Path(program).is_absolute():  # Windows looks in the working directory, too
        raise ModelUnusable("The signature can't be verified: ssh-keygen is not installed. It is a part of OpenSSH.")
    command = [program, "-Y", "verify", "-n", _PURPOSE, "-I", _PURPOSE, "-s", str(signature), "-f", str(signers)]
    try:
        result = subprocess.run(command, input=manifest, capture_output=True, timeout=_TIMEOUT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelUnusable(f"The signature can't be verified ({error}).") from error
    if result.returncode != 0:
        reason = " ".join((result.stderr or result.stdout).decode(errors="replace").split())
        raise ModelUnusable(
            f"{MANIFEST_FILE} has no valid signature {SIGNATURE_FILE} by a key that {signers.name} lists for"
            f" {_PURPOSE} (ssh-keygen: {reason[:500]}). Nothing was installed."
        )
