"""The server that is already there: finding it by the data folder, and opening its page."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from imgproc_local.system.folder_lock import Owner, current_owner

STARTING_S = 10.0
"""How long a server that holds the folder may take until it has told its address."""
APPEARING_S = 5.0
"""How long one may take that listens already until it holds the folder."""
POLL_S = 0.1
ANSWER_TIMEOUT_S = 5.0
BROWSER_TIMEOUT_S = 10.0


def running_server(folder: Path, appears_s: float = 0.0) -> Owner | None:
    """The server on this data folder with its address, waited for while it starts; None where none runs.

    `appears_s` is how long one is waited for that has not taken the folder yet.
    """
    began = time.monotonic()
    while True:
        owner = current_owner(folder)
        if owner is not None and owner.address is not None:
            return owner
        starts = owner is not None and owner.doing == "serve"
        if time.monotonic() - began >= (STARTING_S if starts else appears_s):
            return None
        time.sleep(POLL_S)


def open_page(link: str) -> threading.Thread:
    """Open the page on a thread: some browsers are waited for."""
    import webbrowser

    thread = threading.Thread(target=webbrowser.open, args=(link,), name="imgproc-browser", daemon=True)
    thread.start()
    return thread


def open_page_of(address: str, folder: Path) -> str | None:
    """Open the page of a server that runs. Returns why it could not be; None where it was."""
    import http.client

    try:
        ticket = _ticket(address, folder)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__
    open_page(f"{address}/?token={ticket}").join(BROWSER_TIMEOUT_S)
    return None


def _ticket(address: str, folder: Path) -> str:
    """A token that opens the page once: the command line of a browser can be read by others."""
    import http.client

    import msgspec

    from imgproc_local.web.session import PageSession, page_token

    session = PageSession(page_token(folder))
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=ANSWER_TIMEOUT_S)
    try:
        headers = {"Cookie": f"{session.cookie_name}={session.token}", "Origin": address}
        connection.request("POST", "/local/ticket", headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.client.CREATED:
            raise ValueError(f"{address} answered with {answer.status}")
        return str(msgspec.json.decode(body)["data"]["ticket"])
    finally:
        connection.close()
