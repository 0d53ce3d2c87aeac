"""The Chromium that is installed, driven by Playwright."""

from __future__ import annotations

import shutil

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""Its path; None if there is none."""
