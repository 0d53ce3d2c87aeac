"""A server that already runs on the data folder: finding it, and opening its page in a browser."""

from __future__ import annotations

import html
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.system.files import write_atomically
from imgproc_local.system.folder_lock import Owner, current_owner

if TYPE_CHECKING:
    from imgproc_local.config import Config

STARTING_S = 10.0
"""How long a server that has locked the data folder may take until it publishes its address."""
LOCKING_S = 5.0
"""How long a server that listens already may take until it locks the data folder."""
POLL_S = 0.1
BROWSER_TIMEOUT_S = 10.0
"""How long a command waits for the thread of `open_in_browser` before it ends."""
_LINK_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>imgproc-local</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={link}">
<p><a href="{link}">Open imgproc-local</a></p>
</html>
"""


def running_server(folder: Path, wait_for_lock_s: float = 0.0) -> Owner | None:
    """The server on the data folder `folder`, with its address; None if no server runs or its address remains unknown.

    Waits for a server that is starting: at most `wait_for_lock_s` until it locks the folder, and at most `STARTING_S`
    until it publishes its address, both counted from the call.
    """
    began = time.monotonic()
    while True:
        owner = current_owner(folder)
        if owner is not None and owner.address is not None:
            return owner
        starting = owner is not None and owner.doing == "serve"
        if time.monotonic() - began >= (STARTING_S if starting else wait_for_lock_s):
            return None
        time.sleep(POLL_S)


def open_in_browser(url: str) -> threading.Thread:
    """Open `url` on a new thread, because some browsers block until they are closed. Returns the thread.

    Every user of the machine can read it among the arguments of the browser's command.
    """
    import webbrowser

    thread = threading.Thread(target=webbrowser.open, args=(url,), name="imgproc-browser", daemon=True)
    thread.start()
    return thread


def open_link(folder: Path, link: str) -> threading.Thread:
    """Open a sign-in link to the server on `folder` as `open_in_browser` does, but from a file that only this user can
    read. Raises: OSError.
    """
    from imgproc_local.storage.sessions import link_page

    page = link_page(folder)
    write_atomically(page, _LINK_PAGE.format(link=html.escape(link)).encode(), mode=0o600)
    return open_in_browser(page.as_uri())


def open_page_of(address: str, config: Config) -> str | None:
    """Open the page of the server at `address` in a browser.

    Returns why no link to the page could be made, or None. Whether a browser shows the page is not known.
    """
    from imgproc_local.cli.access import page_link

    try:
        open_link(config.data_dir, page_link(config, address)).join(BROWSER_TIMEOUT_S)
    except (StorageFailed, OSError) as error:
        return str(error)
    return None
