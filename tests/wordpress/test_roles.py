"""What images are for: decorative ones, suggestions, the reasons why a text is needed, long descriptions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from imgproc_local.domain.result import NeedsTextReason, RoleSuggestion, SuggestedRole, TextSource
from imgproc_local.engine.analyze import Analyzer
from tests.support import pictures
from tests.support.service import Running
from tests.wordpress.admin import Admin
from tests.wordpress.library import OLD, alt_texts, page_images, queue, wait_finished
from tests.wordpress.site import Site

PANEL = ".imgproc-local-panel"
SEEMS = "This image seems to be decorative. It is one plain line."
CHANGES: dict[str, dict[str, Any]] = {
    "foreign": {"source": TextSource.FACTS, "needs_text_reason": NeedsTextReason.OTHER_LANGUAGE},
    "chart": {"long_description": "Sales rose each year."},
}
"""How the texts of the pictures of these names differ from those of the other ones."""


@pytest.fixture(autouse=True)
def analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes `line.jpg` for decoration, and writes the texts of `CHANGES`."""
    run = Analyzer.run

    def analyzed(self: Analyzer, work: Any, check_stop: Any) -> Any:
        output, name = run(self, work, check_stop), work.original_filename.partition(".")[0]
        suggestion = RoleSuggestion(SuggestedRole.DECORATIVE, "It is one plain line.") if name == "line" else None
        texts = tuple(structs.replace(text, **CHANGES.get(name, {})) for text in output.texts)
        return structs.replace(output, texts=texts, suggestion=suggestion)

    monkeypatch.setattr(Analyzer, "run", analyzed)


def processed(site: Site, *names: str) -> list[int]:
    ids = site.add_pictures({f"{name}.jpg": pictures.jpeg(320, 240, seed=len(name)) for name in names})
    queue(site, ids)
    wait_finished(site, ids)
    return ids


def again(site: Site, number: int) -> None:
    """Send an image again, as after a change of its file."""
    site.php("return Imgproc_Local_Queue::add( $args['id'], array( 'force' => true ) );", id=number)
    wait_finished(site, [number])


def test_decoration_is_suggested_marked_by_an_editor_and_undone(site: Site, admin: Admin, service: Running) -> None:
    (line,) = processed(site, "line")
    assert alt_texts(site)[line] == "line in en", "a suggestion changes nothing"
    admin.open("upload.php?mode=list")
    page, row = admin.page, admin.page.locator(f"#post-{line}")
    assert SEEMS in row.inner_text()
    row.hover()
    page.get_by_role("link", name="Review the alt text of “line.jpg”").click()
    page.get_by_role("button", name="Mark as decorative").click()
    page.get_by_role("button", name="Not decorative").wait_for()
    assert "Decorative" in row.inner_text()
    assert SEEMS not in row.inner_text()
    assert alt_texts(site)[line] == ""
    assert site.php("return Imgproc_Local_Library::count( 'no_alt' );") == 0, "it lacks no alt text"

    again(site, line)
    roles = [job["image"]["details"]["role"] for job in service.client.get("/jobs?include=details").json()["data"]]
    assert roles == ["decorative", "informative"]
    assert alt_texts(site)[line] == ""
    admin.open(f"post.php?post={line}&action=edit")
    page.get_by_role("button", name="Not decorative").click()
    page.get_by_role("button", name="Mark as decorative").wait_for()
    assert alt_texts(site)[line] == "line in en"
    again(site, line)
    assert alt_texts(site)[line] == "line in en"


def test_an_alt_text_that_an_editor_writes_ends_the_mark(site: Site, service: Running) -> None:
    (line,) = processed(site, "line")
    mark = "Imgproc_Local_Attachment::set_decorative( $args['id'], true );"
    site.php(f"{mark} {mark} update_post_meta( $args['id'], '_wp_attachment_image_alt', 'A line' );", id=line)
    assert site.php("return Imgproc_Local_Attachment::is_decorative( $args['id'] );", id=line) is False
    assert alt_texts(site)[line] == "A line"


def test_an_image_that_its_block_marks_as_decorative_stays_without_a_text(site: Site, service: Running) -> None:
    (boat,) = processed(site, "boat")
    tags = "".join(f'<img class="wp-image-{boat}" alt="" src="/{boat}.jpg" {mark}>' for mark in MARKS)
    post = {"post_title": "Decoration", "post_content": tags, "post_status": "publish"}
    number = site.php("return wp_insert_post( $args['post'] );", post=post)
    shown = [image["alt"] for image in page_images(site, f"/?p={number}", OLD) if "wp-image" in image.get("class", "")]
    assert shown == ["", "", "", "boat in en"]


MARKS = ('role="none"', 'role="presentation"', 'aria-hidden="true"', "")
"""The attributes by which versions of WordPress and editors mark decoration; the last image is not marked."""


def test_the_library_says_why_a_text_is_needed(site: Site, admin: Admin, service: Running) -> None:
    ids = processed(site, "foreign", "plain-wall")
    admin.open("upload.php?mode=list&imgproc_local=needs_text")
    rows = [admin.page.locator(f"#post-{number}") for number in ids]
    assert "What is known is in another language." in rows[0].inner_text()
    assert "Nothing is known but kind and date." in rows[1].inner_text()
    rows[0].hover()
    admin.page.get_by_role("link", name="Review the alt text of “foreign.jpg”").click()
    admin.page.locator(
        PANEL, has_text="A person has to write this text. What is known is in another language."
    ).wait_for()


def test_a_text_of_a_person_is_written_again_only_after_a_question(site: Site, admin: Admin, service: Running) -> None:
    (boat,) = processed(site, "boat")
    site.php("return Imgproc_Local_Attachment::accept_text( $args['id'], 'en', 'My boat.' );", id=boat)
    again(site, boat)
    assert alt_texts(site)[boat] == "My boat.", "also when the image is sent again for another reason"
    page, questions = admin.page, []

    def answer(dialog: Any) -> None:
        questions.append(dialog.message)
        dialog.accept() if len(questions) == 2 else dialog.dismiss()

    page.on("dialog", answer)
    admin.open(f"post.php?post={boat}&action=edit")
    write = page.get_by_role("button", name="Write the text again")
    write.click()
    page.wait_for_function("document.querySelector('.imgproc-local-panel').ariaBusy === 'false'")
    assert questions == ["A person wrote these texts: My boat. Replace them by proposals?"]
    assert not page.locator(f"{PANEL}[data-pending]").count()
    write.click()
    page.get_by_label("Proposed alt text").wait_for()
    assert page.get_by_label("Proposed alt text").input_value() == "boat in en"
    assert alt_texts(site)[boat] == "My boat.", "a proposal replaces no text in use"


def test_a_long_description_becomes_the_description_that_is_empty(site: Site, service: Running) -> None:
    chart, boat = processed(site, "chart", "boat")

    def description(number: int) -> str:
        (row,) = site.sql(f"SELECT post_content FROM wp_posts WHERE ID={number}")
        return row[0]

    assert (description(chart), description(boat)) == ("Sales rose each year.", "")
    for own in ("My own words.", ""):  # what an editor writes or removes stays
        site.php(
            "return wp_update_post( array( 'ID' => $args['id'], 'post_content' => $args['own'] ) );", id=chart, own=own
        )
        again(site, chart)
        assert description(chart) == own
