"""Runs a command under strace, and lists its connections and messages to addresses outside this machine.

This includes those of child processes and libraries, and attempts that failed. The command may be the frozen program or
the source:

    python tests/support/connect_guard.py [--timeout S] COMMAND [ARGUMENT…]

Exit status: 0 if no address outside this machine was used; 1 if one was (one line each on standard error); 3 if strace
can't run here; otherwise that of the command, if it failed. Only Python and strace are needed.
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
"""System calls that name a peer; and io_uring_setup, after which a program can connect without system calls."""
LOCAL_FAMILIES = ("UNIX", "LOCAL", "NETLINK", "UNSPEC")
"""Address families whose peers are on this machine. AF_UNSPEC only disconnects a socket."""
HOST = re.compile(r'inet_addr\("([^"]*)"\)|inet_pton\(AF_INET6, "([^"]*)"')
EXIT_OUTSIDE, EXIT_UNAVAILABLE = 1, 3


class Watched(NamedTuple):
    """The command's exit status, its output, and strace's line for each use of an outside address."""

    returncode: int
    output: str
    outside: list[str]


def why_unavailable() -> str | None:
    """The reason why strace can't run here, or None."""
    if sys.platform != "linux":
        return "strace is a Linux program"
    strace = shutil.which("strace")
    if strace is None:
        return "strace is not installed"
    tried = subprocess.run(
        [strace, "-qq", "-f", "-e", "trace=connect", "true"], capture_output=True, text=True, timeout=30, check=False
    )
    return f"strace can't trace here: {tried.stderr.strip()[-200:]}" if tried.returncode else None


def watch(
    command: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Watched:
    """Run `command` to its end. Raises: subprocess.TimeoutExpired, after killing it and its children."""
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
    """The lines of strace's output that name a peer outside this machine or set up io_uring."""
    for call in calls:
        if "io_uring_setup(" in call and "= -1" not in call:
            yield call
        for family, address in re.findall(r"sa_family=AF_(\w+)([^}]*)", call):
            if family not in LOCAL_FAMILIES and not _is_local(address):
                yield call


def _is_local(address: str) -> bool:
    named = HOST.search(address)
    if named is None:
        return False
    host = ipaddress.ip_address(named[1] or named[2])
    if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped is not None:
        host = host.ipv4_mapped
    return host.is_loopback or host.is_unspecified


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timeout", type=float, default=600.0, metavar="S")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    arguments = parser.parse_args()
    reason = why_unavailable()
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
