"""Runs a command under strace and lists to whom it and all its children turned beyond this machine, whatever library
asked: connections, and messages without one. What was tried and refused is listed too.

Any command will do, from source or frozen. By hand:

    python tests/support/connect_guard.py [--timeout S] COMMAND [ARGUMENT…]

ends with 0 where nothing went outside, 1 where something did (each address on a line of standard error), 3 where the
guard can't watch here, and with the command's own status where that failed. It needs nothing but Python and strace.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

CALLS = ("connect", "sendto", "sendmsg", "sendmmsg", "io_uring_setup")
"""Every system call that names a peer, and the one behind which strace sees none."""
LOCAL_FAMILIES = ("UNIX", "LOCAL", "NETLINK", "UNSPEC")
"""Sockets that end in this machine: files, the kernel. UNSPEC only takes a peer away."""
HOST = re.compile(r'inet_addr\("([^"]*)"\)|inet_pton\(AF_INET6, "([^"]*)"')
EXIT_OUTSIDE, EXIT_UNAVAILABLE = 1, 3


class Watched(NamedTuple):
    """How the command ended, what it wrote to both its streams, and each turn to the outside in strace's words."""

    returncode: int
    output: str
    outside: list[str]


def unavailable() -> str | None:
    """Why nothing can be watched here; None where it can."""
    if sys.platform != "linux":
        return "strace is a Linux program"
    strace = shutil.which("strace")
    if strace is None:
        return "strace is not installed"
    tried = subprocess.run(
        [strace, "-qq", "-f", "-e", "trace=connect", "true"], capture_output=True, text=True, timeout=30, check=False
    )
    return f"strace may not watch here: {tried.stderr.strip()[-200:]}" if tried.returncode else None


def watch(
    command: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Watched:
    """Run `command` to its end. Raises: subprocess.TimeoutExpired; then it and its children are gone."""
    with tempfile.TemporaryDirectory(prefix="connect-guard-") as folder:
        log = Path(folder) / "calls"
        strace = ["strace", "-f", "-qq", "-e", f"trace={','.join(CALLS)}", "-e", "signal=none", "-o", str(log)]
        process = subprocess.Popen(
            [*strace, "--", *command],
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        calls = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return Watched(process.returncode, output.decode("utf-8", "replace"), list(outside(calls)))


def outside(calls: Sequence[str]) -> Iterator[str]:
    """Those of strace's lines that name a peer beyond this machine, or hide one."""
    for call in calls:
        if "io_uring_setup(" in call and "= -1" not in call:
            yield call
        for family, address in re.findall(r"sa_family=AF_(\w+)([^}]*)", call):
            if family not in LOCAL_FAMILIES and not _is_here(address):
                yield call


def _is_here(address: str) -> bool:
    found = HOST.search(address)
    if found is None:
        return False
    host = ipaddress.ip_address(found[1] or found[2])
    if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped is not None:
        host = host.ipv4_mapped
    return host.is_loopback or host.is_unspecified


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timeout", type=float, default=600.0, metavar="S")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    arguments = parser.parse_args()
    reason = unavailable()
    if reason is not None:
        print(reason, file=sys.stderr)
        return EXIT_UNAVAILABLE
    watched = watch(arguments.command, timeout_s=arguments.timeout)
    print(watched.output, end="")
    for call in watched.outside:
        print(f"outside: {call}", file=sys.stderr)
    return EXIT_OUTSIDE if watched.outside else watched.returncode


if __name__ == "__main__":
    sys.exit(main())
