"""A server that runs on the data folder, or did not start: finding it, and what the browser shows of it."""

from __future__ import annotations

import html
import threading
import time
import webbrowser
from pathlib import Path

from imgproc_local.cli.log_file import LOG_FILE, log_refused_start, without_secrets
from imgproc_local.system.files import write_atomically
from imgproc_local.system.folder_lock import Owner, current_owner

STARTING_S = 10.0
"""How long a server that has locked the data folder may take until it publishes its address."""
POLL_S = 0.1
BROWSER_TIMEOUT_S = 10.0
"""How long a command waits for the thread of `open_in_browser` before it ends."""
_LINK_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>imgproc-local</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={link}">
<p><a href="{link}">Open imgproc-local</a></p>
</html>
"""
NOT_STARTED_FILE = "not-started.html"
_NOT_STARTED_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>imgproc-local did not start</title>
<h1>imgproc-local did not start</h1>
<p>{reason}</p>
<p>The log file is {log}.</p>
</html>
"""


def running_server(folder: Path) -> Owner | None:
    """The server that owns the data folder, with its address; None if another command owns it.

    Waits at most `STARTING_S` until a server that is starting publishes its address, for a folder that is locked.
    """
    began = time.monotonic()
    while time.monotonic() - began < STARTING_S:
        owner = current_owner(folder)  # None between the lock and the first publication
        if owner is not None and owner.address is not None:
            return owner
        if owner is not None and owner.doing != "serve":
            return None
        time.sleep(POLL_S)
    return None


def open_in_browser(url: str) -> threading.Thread:
    """Open `url` on a new thread, because some browsers block until they are closed. Returns the thread.

    Every user of the machine can read it among the arguments of the browser's command.
    """
    thread = threading.Thread(target=webbrowser.open, args=(url,), name="imgproc-browser", daemon=True)
    thread.start()
    return thread


def open_link(folder: Path, link: str) -> threading.Thread:
    """Open a sign-in link to the server on `folder` as `open_in_browser` does, but from a file that only this user can
    read. Raises: OSError.
    """
    from imgproc_local.storage.accounts import link_page

    page = link_page(folder)
    write_atomically(page, _LINK_PAGE.format(link=html.escape(link)).encode(), mode=0o600)
    return open_in_browser(page.as_uri())


def report_refused_start(data_dir: Path, reason: str, *, in_browser: bool) -> None:
    """Write `reason` to the log file in `data_dir`; with `in_browser`, also show it as a page.

    Does nothing if the log file can't be opened. The caller prints the reason to standard error in any case.
    """
    folder = log_refused_start(data_dir, reason)
    if folder is None or not in_browser:
        return
    reason, log = html.escape(without_secrets(reason)), html.escape(str(folder / LOG_FILE))
    try:
        page = folder / NOT_STARTED_FILE
        page.write_text(_NOT_STARTED_PAGE.format(reason=reason, log=log), encoding="utf-8", errors="replace")
    except OSError:
        return
    open_in_browser(page.as_uri()).join(BROWSER_TIMEOUT_S)
