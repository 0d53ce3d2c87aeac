"""A server that already runs on the data folder: finding it, and opening its page in a browser."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from imgproc_local.system.folder_lock import Owner, current_owner

STARTING_S = 10.0
"""How long a server that has locked the data folder may take until it publishes its address."""
LOCKING_S = 5.0
"""How long a server that listens already may take until it locks the data folder."""
POLL_S = 0.1
ANSWER_TIMEOUT_S = 5.0
BROWSER_TIMEOUT_S = 10.0


def running_server(folder: Path, wait_for_lock_s: float = 0.0) -> Owner | None:
    """The server on the data folder `folder`, with its address; None if no server runs.

    Waits for a server that is starting: `wait_for_lock_s` at most until it locks the folder, `STARTING_S` at most until
    its address is known.
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


def open_in_browser(link: str) -> threading.Thread:
    """Open `link` on a new thread and return the thread: some browsers block until they are closed."""
    import webbrowser

    thread = threading.Thread(target=webbrowser.open, args=(link,), name="imgproc-browser", daemon=True)
    thread.start()
    return thread


def open_page_of(address: str, folder: Path) -> str | None:
    """Open the page of the server at `address`. Returns None, or the reason why the page can't be opened."""
    import http.client

    try:
        ticket = _new_ticket(address, folder)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__
    open_in_browser(f"{address}/?token={ticket}").join(BROWSER_TIMEOUT_S)
    return None


def _new_ticket(address: str, folder: Path) -> str:
    """A token that opens the page only once: it is passed on the browser's command line, which other users can read."""
    import http.client

    import msgspec

    from imgproc_local.storage.sessions import PageSession, page_token

    session = PageSession(page_token(folder))
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=ANSWER_TIMEOUT_S)
    try:
        headers = {"Cookie": f"{session.cookie_name}={session.token}", "Origin": address}
        connection.request("POST", "/local/ticket", headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.client.CREATED:
            raise ValueError(f"{address} answered with status {answer.status}")
        return str(msgspec.json.decode(body)["data"]["ticket"])
    finally:
        connection.close()
