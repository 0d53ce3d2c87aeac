"""What a worker gives up: its system calls are tried in a process of its own, because nothing of it can be undone."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.server_process import ROOT, clean_environment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="only Linux has a filter that a program can set for itself",
)

RESTRICTED = """
import ctypes, errno, os, resource, signal, socket, subprocess, sys
from pathlib import Path
from imgproc_local.system import sandbox

folder, outside = Path(sys.argv[1]), sys.argv[2].encode()
opened = os.open(outside, os.O_RDONLY)
other = int(sys.argv[3])
assert sandbox.restrict_to(folder) == ()
"""
CALLS = {
    "socketpair": ("1, 1, 0, None", "1, 2, 0, None", "1, 5, 0, None"),
    "chmod": ("outside, 0o777",),
    "fchmod": ("opened, 0o777",),
    "fchmodat": ("-100, outside, 0o777, 0",),
    "chown": ("outside, 1, 1",),
    "fchown": ("opened, 1, 1",),
    "lchown": ("outside, 1, 1",),
    "fchownat": ("-100, outside, 1, 1, 0",),
    "utime": ("outside, None",),
    "utimes": ("outside, None",),
    "futimesat": ("-100, outside, None",),
    "utimensat": ("-100, outside, None, 0",),
    "futimens": ("opened, None",),
    "setxattr": ("outside, b'user.x', b'x', 1, 0",),
    "lsetxattr": ("outside, b'user.x', b'x', 1, 0",),
    "fsetxattr": ("opened, b'user.x', b'x', 1, 0",),
    "removexattr": ("outside, b'user.x'",),
    "lremovexattr": ("outside, b'user.x'",),
    "fremovexattr": ("opened, b'user.x'",),
    "prlimit": ("other, resource.RLIMIT_NOFILE, bytes(16), None", "os.getpid(), 7, None, bytes(16)"),
    "setpriority": ("0, other, 19",),
    "sched_setparam": ("other, bytes(4)",),
    "sched_setscheduler": ("other, 3, bytes(4)",),
    "sched_setaffinity": ("other, 8, bytes([1] + 7 * [0])",),
    "ptrace": ("16, other, None, None",),
    "process_vm_readv": ("other, None, 0, None, 0, 0",),
    "process_vm_writev": ("other, None, 0, None, 0, 0",),
}
"""Functions of the C library. Outside of a worker, their arguments do something or give another error."""
WITHOUT_FUNCTION = [452, 463, 466, 438, *{"x86_64": (251, 314)}.get(platform.machine(), (30, 274))]
"""The numbers of fchmodat2, setxattrat, removexattrat, pidfd_getfd, ioprio_set and sched_setattr."""


def restricted(folder: Path, script: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run `script` in a restricted process, which may write in `folder`/own only. `other` is a process beside it."""
    own, outside = folder / "own", folder / "outside"
    own.mkdir()
    outside.write_text("x")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        done = subprocess.run(
            [sys.executable, "-c", before + RESTRICTED + script, str(own), str(outside), str(other.pid)],
            cwd=ROOT,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        other.kill()
    return done


def test_a_worker_gets_no_socket_and_changes_no_attributes_and_no_other_process(tmp_path: Path) -> None:
    attempts = [f"libc.{name}({arguments})" for name, tried in CALLS.items() for arguments in tried]
    attempts += [f"libc.syscall({number}, -1, -1, -1, 0, 0, 0)" for number in WITHOUT_FUNCTION]
    script = "libc = ctypes.CDLL(None, use_errno=True)\nallowed = []\n" + "".join(
        f"ctypes.set_errno(0)\nif {attempt} != -1 or ctypes.get_errno() != errno.EACCES:\n"
        f"    allowed.append({attempt!r})\n"
        for attempt in attempts
    )
    done = restricted(tmp_path, f"{script}print(allowed)\n")
    assert done.stdout == "[]\n", done.stdout + done.stderr
    assert (tmp_path / "outside").stat().st_mode & 0o777 != 0o777


def test_a_worker_can_do_what_libraries_need(tmp_path: Path) -> None:
    done = restricted(
        tmp_path,
        "sandbox.limit_data(1 << 30)\n"
        "assert resource.getrlimit(resource.RLIMIT_DATA)[0] == 1 << 30\n"
        "(folder / 'a').write_text('x')\n(folder / 'a').rename(folder / 'b')\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "child.kill()\nassert child.wait() == -signal.SIGKILL\n"
        "print('done', flush=True)\nos.abort()\n",
    )
    assert done.stdout == "done\n", done.stderr
    assert done.returncode == -6, "the signal says why a worker ended"


def test_a_worker_of_an_air_gapped_service_is_restricted_too(tmp_path: Path) -> None:
    attempt = "try:\n    socket.socketpair()\nexcept PermissionError:\n    print('refused')\n"
    done = restricted(tmp_path, attempt, before="from imgproc_local.system import air_gap\nair_gap.enable()\n")
    assert done.stdout == "refused\n", done.stderr
