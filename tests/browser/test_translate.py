"""One text of a person in the other languages."""

from __future__ import annotations

import json
from typing import Any

from imgproc_local.domain.result import TextSource, Translation
from tests.browser.conftest import OpenTab, jobs, show, wait_until
from tests.support import finished, pictures
from tests.support.service import Running


def test_a_text_is_translated_into_the_others_but_those_of_persons(empty_service: Running, open_tab: OpenTab) -> None:
    texts = [Translation(code, f"boats-{code}", f"Boats, {code}.", TextSource.VISION) for code in ("en", "de", "fr")]
    texts[2] = Translation("fr", "bateaux", "Des bateaux.", TextSource.PERSON)
    service = empty_service
    service.run(finished.add_job(service.services, pictures.jpeg(160, 120), name="1.jpg", texts=texts))
    tab = open_tab(service)
    show(tab, "1.jpg")
    image_id = jobs(service)["1.jpg"]["image"]["id"]
    asked: list[Any] = []

    def answer(route: Any) -> None:
        asked.append(json.loads(route.request.post_data))
        route.fulfill(json={"data": [{**each, "status": 409, "problem": "Not today."} for each in asked[-1]["texts"]]})

    tab.page.route("**/translations/regenerate", answer)
    tab.page.get_by_role("button", name="Translate English into the others").click()
    dialog = tab.page.locator("dialog")
    assert "No model is in use" in dialog.locator("p").inner_text()
    dialog.get_by_role("button", name="Cancel").click()
    tab.press("x")
    dialog.get_by_role("button", name="Use it").click()
    wait_until(lambda: tab.page.wait_for_timeout(20) or asked, "a request")
    german = {"image_id": image_id, "language_code": "de"}
    assert [(each["texts"], each["from_language"]) for each in asked] == [([german], "en")]
    assert not asked[0]["replace"]
    tab.page.locator(".notice").filter(has_text="Not today.").wait_for()
