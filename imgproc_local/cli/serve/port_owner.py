"""Finds the program that listens on a port, from /proc on Linux. On other systems the program is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

PROC = Path("/proc")
_TCP_LISTEN = "0A"
"""The state of a listening socket. Source: include/net/tcp_states.h of Linux."""
_PROGRAM_NAMES = ("imgproc-local", "imgproc_local")
"""File names by which a command line starts this program; `python -m imgproc_local` has the second one."""


class PortOwner(Struct, frozen=True):
    """The program that listens on a port. `description` names it in messages.

    `may_be_starting` is true if it is, or may be, an `imgproc-local serve` that has not locked its data folder yet.
    """

    description: str = "another program"
    may_be_starting: bool = True


def port_owner(port: int, proc: Path = PROC) -> PortOwner:
    """The program that listens on `port`. `proc` is where procfs is mounted. Source: proc_net_tcp(5)."""
    uid_by_inode = dict(_listening_sockets(port, proc))
    if not uid_by_inode:
        return PortOwner()
    for pid in sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal()):
        if not uid_by_inode.keys().isdisjoint(_socket_inodes(pid, proc)):
            serves = _is_serve(pid, proc)
            return PortOwner(f"{'imgproc-local' if serves else _process_name(pid, proc)} (process {pid})", serves)
    # the descriptors of other users' processes can't be read, so the process belongs to another user
    return PortOwner(f"a program of {_user_name(next(iter(uid_by_inode.values())))}", may_be_starting=False)


def _listening_sockets(port: int, proc: Path) -> Iterator[tuple[str, int]]:
    """The inode and the UID of each socket that listens on `port`."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:  # not Linux, or a kernel without IPv6
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _TCP_LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9], int(fields[7])


def _socket_inodes(pid: int, proc: Path) -> Iterator[str]:
    try:
        descriptors = list((proc / str(pid) / "fd").iterdir())
    except OSError:  # a process of another user, or one that has just ended
        return
    for descriptor in descriptors:
        with suppress(OSError):  # closed since the folder was listed
            link = str(descriptor.readlink())
            if link.startswith("socket:["):
                yield link[len("socket:[") : -1]


def _is_serve(pid: int, proc: Path) -> bool:
    """Whether the command line of the process is one of `imgproc-local serve`."""
    arguments = _read(proc / str(pid) / "cmdline").split("\0")
    return "serve" in arguments and any(Path(argument).name in _PROGRAM_NAMES for argument in arguments)


def _process_name(pid: int, proc: Path) -> str:
    return _read(proc / str(pid) / "comm").strip() or "a program"


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _user_name(uid: int) -> str:
    import pwd

    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user with UID {uid}"
