"""Reports why the server did not start, in the log file and, for a start from a desktop, in a browser."""

from __future__ import annotations

import html
from pathlib import Path

from imgproc_local.cli.log_file import LOG_FILE, log_refused_start, without_secrets
from imgproc_local.cli.serve.running import BROWSER_TIMEOUT_S, open_in_browser

PAGE_FILE = "not-started.html"
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>imgproc-local did not start</title>
<h1>imgproc-local did not start</h1>
<p>{reason}</p>
<p>The log file is {log}.</p>
</html>
"""


def report_refused_start(data_dir: Path, reason: str, *, in_browser: bool) -> None:
    """Write `reason` to the log file in `data_dir`; with `in_browser`, also show it as a page.

    Does nothing if the log file can't be opened. The caller prints the reason to standard error in any case.
    """
    folder = log_refused_start(data_dir, reason)
    if folder is None or not in_browser:
        return
    page = folder / PAGE_FILE
    reason, log = html.escape(without_secrets(reason)), html.escape(str(folder / LOG_FILE))
    try:
        page.write_text(_PAGE.format(reason=reason, log=log), encoding="utf-8", errors="replace")
    except OSError:
        return
    open_in_browser(page.as_uri()).join(BROWSER_TIMEOUT_S)
