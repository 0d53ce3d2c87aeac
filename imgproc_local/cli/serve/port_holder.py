"""Which program listens on a port: told where the system lets it be read, which is Linux's /proc here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

PROC = Path("/proc")
_LISTENING = "0A"


class Holder(Struct, frozen=True):
    """`words` name the program; `may_be_this_program` where it is called as this one, or can't be seen."""

    words: str = "another program"
    may_be_this_program: bool = True


def port_holder(port: int, proc: Path = PROC) -> Holder:
    """The program that listens on `port`. Source: proc_net_tcp(5)."""
    sockets = dict(_listening(port, proc))
    if not sockets:
        return Holder()
    for process in sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal()):
        if not sockets.keys().isdisjoint(_sockets_of(process, proc)):
            name = _name(process, proc)
            return Holder(f"{name} (process {process})", name == _name(os.getpid(), proc))
    # of another user, whose processes can't be looked into; this user's own would have been found
    return Holder(f"a program of {_user(next(iter(sockets.values())))}", may_be_this_program=False)


def _listening(port: int, proc: Path) -> Iterator[tuple[str, int]]:
    """Inode and user number of each socket that listens on `port`."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:  # no such system, or no IPv6
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9], int(fields[7])


def _sockets_of(process: int, proc: Path) -> Iterator[str]:
    try:
        descriptors = list((proc / str(process) / "fd").iterdir())
    except OSError:  # another user's, or it has just ended
        return
    for descriptor in descriptors:
        with suppress(OSError):  # closed meanwhile
            link = str(descriptor.readlink())
            if link.startswith("socket:["):
                yield link[len("socket:[") : -1]


def _name(process: int, proc: Path) -> str:
    try:
        return (proc / str(process) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "a program"


def _user(number: int) -> str:
    import pwd

    try:
        return f"the user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
