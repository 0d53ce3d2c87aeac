"""The media library: alt texts are reviewed in the list and in the grid, and only by those who may edit the image."""

from __future__ import annotations

import contextlib

import httpx

from tests.support import pictures
from tests.support.service import Running
from tests.wordpress.admin import Admin, sign_in_author
from tests.wordpress.library import alt_texts, queue, small, states, wait_finished, wait_until
from tests.wordpress.site import Site

PANEL = ".imgproc-local-panel"
NAMES = ("boat.jpg", "plain-wall.jpg")


def processed(site: Site) -> list[int]:
    """Two images with results of the connected service: the first has a text, the second needs one."""
    ids = site.add_pictures({name: pictures.jpeg(320, 240, seed=seed) for seed, name in enumerate(NAMES)})
    queue(site, ids)
    wait_finished(site, ids)
    return ids


def test_a_text_is_written_again_and_replaces_the_old_one_when_accepted(
    site: Site, admin: Admin, service: Running
) -> None:
    boat, _ = processed(site)
    site.php("update_post_meta( $args['id'], '_wp_attachment_image_alt', 'Own words' );", id=boat)
    admin.open("upload.php?mode=list")
    page = admin.page
    page.locator(f"#post-{boat}").hover()
    page.get_by_role("link", name="Review the alt text of “boat.jpg”").click()
    page.get_by_role("button", name="Write the text again").click()
    page.locator(f"{PANEL}[data-pending]").wait_for()
    field = page.get_by_label("Proposed alt text")
    field.wait_for()
    assert field.input_value() == "boat in en"
    assert alt_texts(site)[boat] == "Own words"

    field.fill("A boat on the Elbe")
    page.get_by_role("button", name="Replace the alt text").click()
    page.get_by_text("Alt text in use").wait_for()
    assert alt_texts(site)[boat] == "A boat on the Elbe"
    page.locator(f"#post-{boat} .imgproc-local-alt", has_text="A boat on the Elbe").wait_for()


def test_an_image_that_needs_a_text_is_found_and_gets_one(site: Site, admin: Admin, service: Running) -> None:
    _, wall = processed(site)
    admin.open("upload.php?mode=list&imgproc_local=needs_text")
    page = admin.page
    assert page.locator("#the-list tr[id]").count() == 1
    assert page.locator(f"#post-{wall}").inner_text().count("Needs a text") == 1

    admin.open("upload.php?mode=grid")
    page.get_by_label("Filter by alt text").select_option("Needs a text")
    page.wait_for_function("document.querySelectorAll('li.attachment').length === 1")
    page.locator(f"li.attachment[data-id='{wall}']").click()
    page.locator(f"{PANEL} textarea").fill("A white wall")
    page.get_by_role("button", name="Use as alt text").click()
    page.get_by_text("Alt text in use").wait_for()
    assert page.get_by_label("Alternative Text").input_value() == "A white wall"
    assert alt_texts(site)[wall] == "A white wall"
    admin.open("upload.php?mode=list&imgproc_local=needs_text")
    assert page.locator("#the-list tr[id]").count() == 0


def test_images_selected_in_list_and_grid_are_processed(site: Site, admin: Admin, service: Running) -> None:
    ids = site.add_pictures(small(4))
    admin.open("upload.php?mode=list")
    page = admin.page
    for number in ids[:2]:
        page.locator(f"#cb-select-{number}").check()
    page.locator("#bulk-action-selector-top").select_option("Process with Imgproc Local")
    page.click("#doaction")
    page.get_by_text("2 images were added").wait_for()
    wait_finished(site, ids[:2])
    page.wait_for_function("! document.querySelector('.imgproc-local-cell[data-pending]')")
    assert "picture-0 in en" in page.locator(f"#post-{ids[0]}").inner_text()

    admin.open("upload.php?mode=grid")
    page.get_by_role("button", name="Bulk select").click()
    for number in ids[2:]:
        page.locator(f"li.attachment[data-id='{number}']").click()
    page.get_by_role("button", name="Process with Imgproc Local").click()
    wait_until(site, lambda: len(states(site)) == len(ids), "added")
    wait_finished(site, ids)
    page.wait_for_function("! document.querySelector('li.attachment .imgproc-local-badge')")


def test_only_those_who_may_edit_an_image_change_its_text(site: Site, service: Running) -> None:
    boat, _ = processed(site)
    accept = {"action": "accept", "language": "en", "alt": "Not allowed"}
    assert httpx.post(f"{site.url}/wp-json/imgproc-local/v1/images/{boat}", json=accept).status_code == 401
    with contextlib.closing(sign_in_author(site)) as client:

        def post(path: str, body: object) -> int:
            return client.post(f"/wp-json/imgproc-local/v1{path}", json=body).status_code

        assert post(f"/images/{boat}", accept) == 401  # no nonce
        client.headers["X-WP-Nonce"] = client.get("/wp-admin/admin-ajax.php?action=rest-nonce").text
        assert post(f"/images/{boat}", accept) == 403
        assert post(f"/images/{boat}", {"action": "regenerate"}) == 403
        assert post("/queue/stop", {}) == 403
        assert post("/queue", {"filter": "all"}) == 403
        added = client.post("/wp-json/imgproc-local/v1/queue", json={"ids": [boat]})
        assert added.json()["added"] == 0
    assert alt_texts(site)[boat] == "boat in en"
