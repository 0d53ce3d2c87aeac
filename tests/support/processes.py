"""The children, memory and handles of processes, on Linux. Source: proc(5)."""

from __future__ import annotations

from pathlib import Path


def descendants(pid: int) -> list[int]:
    """The ids of the child processes of `pid` and of their children, and so on, without zombies."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:  # it ended meanwhile
                continue
            if state != "Z":
                parents[int(folder.name)] = int(parent)
    found, unseen = [], [pid]
    while unseen:
        parent = unseen.pop()
        children = [child for child, its_parent in parents.items() if its_parent == parent]
        found += children
        unseen += children
    return found


def rss_bytes(pid: int) -> int:
    """Resident memory of a process; 0 if it has ended."""
    return memory_bytes(pid, "VmRSS")


def memory_bytes(pid: int | str, field: str) -> int:
    """`VmRSS`, now, or `VmHWM`, its highest since the start or `reset_peak`. 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0)


def reset_peak(pid: int | str) -> None:
    """Let `VmHWM` count from now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def open_handles(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def command_line(pid: int) -> str:
    """The arguments of a process, separated by spaces; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
