"""The reference of the interface in a browser: it is rendered, loads nothing, and can't read what the page stores."""

from __future__ import annotations

from typing import Any

from tests.support.service import Running


def test_the_reference_shows_operations_with_examples_and_connects_to_nothing(chromium: Any, service: Running) -> None:
    page = chromium.new_page()
    requests: list[str] = []
    answered: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("response", lambda response: answered.append(response.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{service.root}/docs")
    page.get_by_role("heading", name="A job and its results").wait_for()
    text = page.inner_text("body")
    assert "A job that waits" in text
    assert '"01kbh3v9x2m4q8r6t0w7y5z100"' in text
    for operation in ("/images/process", "/jobs/{id}/events", "/translations/regenerate", "/healthz"):
        assert operation in text
    assert answered == [f"{service.root}/docs"]
    assert {url for url in requests if not url.startswith(service.root)} <= {"https://cdn.redoc.ly/redoc/logo-mini.svg"}
    assert errors == []
    assert page.evaluate("window.origin") == "null"
    page.close()
