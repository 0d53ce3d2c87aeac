"""Uploads: nothing waits for the service; texts and files are there later, and an editor's own text is not replaced."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import httpx
from PIL import Image

from tests.support import pictures
from tests.support.service import Running
from tests.wordpress.admin import Admin, Uploader
from tests.wordpress.conftest import SiteDescriber
from tests.wordpress.library import (
    AVIF,
    OLD,
    WEBP,
    addresses,
    alt_texts,
    attachments,
    configure,
    fetch,
    jobs_and_balance,
    meta,
    page_images,
    states,
    twelve,
    wait_finished,
    wait_until,
)
from tests.wordpress.site import Site

TEXTS_WAIT_S = 240
SAMPLE = Path(__file__).parents[1] / "sample" / "IMG_4711.jpg"
POST = """
<!-- wp:image {{"id":{number},"sizeSlug":"medium"}} -->
<figure class="wp-block-image size-medium"><img src="{address}" alt="" class="wp-image-{number}"/></figure>
<!-- /wp:image -->
"""


def insert_into_post(site: Site, number: int, title: str = "Bridges") -> str:
    """Publish a post with an image as the block editor writes it, without a text. Returns the path of its page."""
    address = site.php("return wp_get_attachment_image_url( $args['id'], 'medium' );", id=number)
    content = POST.format(number=number, address=address)
    post = {"post_title": title, "post_name": title.lower(), "post_content": content, "post_status": "publish"}
    site.php("return wp_insert_post( $args['post'] );", post=post)
    return f"/{title.lower()}/"


def shown(site: Site, path: str, number: int, accept: str = WEBP) -> dict[str, str]:
    """The image of an attachment in a page."""
    return next(image for image in page_images(site, path, accept) if f"wp-image-{number}" in image.get("class", ""))


def test_twelve_pictures_get_texts_and_smaller_files_and_every_size_is_served_intact(
    site: Site, admin: Admin, service: Running, describer: SiteDescriber, tmp_path: Path
) -> None:
    files = twelve()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    describer.open.clear()
    admin.open("media-new.php")
    admin.page.set_input_files("input[type=file]", [tmp_path / name for name in files])
    wait_until(site, lambda: len(attachments(site)) == len(files), "uploaded")
    time.sleep(1)
    assert alt_texts(site) == {}

    describer.open.set()
    found = attachments(site)
    assert set(wait_finished(site, found.values(), TEXTS_WAIT_S).values()) == {"done"}
    texts = alt_texts(site)
    for title, number in found.items():
        if "plain" in title:
            assert number not in texts
            assert meta(site, "_imgproc_local_needs_text")[number] == "1"
        else:
            assert texts[number].endswith(" in en"), title
            assert meta(site, "_imgproc_local_needs_text").get(number, "0") == "0"
    saved = meta(site, "_imgproc_local_saved")
    assert int(saved[found["photo"]]) > 0
    assert jobs_and_balance(service)[0] == len(files)

    admin.open("upload.php?mode=list")
    page = admin.text()
    assert "photo in en" in page

    for name in files:
        number = found[name.rpartition(".")[0]]
        kinds = [*site.php("return get_intermediate_image_sizes();"), "full"]
        code = "return array_map( fn( $size ) => wp_get_attachment_image_src( $args['id'], $size ), $args['sizes'] );"
        for address, width, height, _ in site.php(code, id=number, sizes=kinds):
            assert fetch(address).size == (width, height), f"{name}: {address}"
        main = Path(site.php("return get_attached_file( $args['id'] );", id=number))
        assert main.stat().st_size <= len(files[name])
    with Image.open(site.php("return get_attached_file( $args['id'] );", id=found["turned"])) as turned:
        assert turned.getexif().get(0x0112, 1) == 1
        assert turned.size == (600, 800)


def test_an_upload_does_not_wait_for_a_service_that_does_not_answer(site: Site, uploader: Uploader) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure(site, f"http://127.0.0.1:{silent.getsockname()[1]}", "imgp_0")
        number, seconds = uploader.upload("one.jpg", pictures.jpeg(640, 480))
        assert seconds < 5
        assert states(site)[number] in ("waiting", "sending", "sent")


def test_a_picture_in_a_post_gets_its_text_on_display_and_the_words_of_an_editor_win(
    site: Site, service: Running, describer: SiteDescriber, uploader: Uploader
) -> None:
    describer.open.clear()
    number, _ = uploader.upload("Elbe.jpg", pictures.jpeg(1200, 900, seed=20))
    edited, _ = uploader.upload("early.jpg", pictures.jpeg(seed=21))
    site.php("update_post_meta( $args['id'], '_wp_attachment_image_alt', 'Own words' );", id=edited)
    path = insert_into_post(site, number)
    assert shown(site, path, number).get("alt", "") == ""
    describer.open.set()
    wait_finished(site, [number, edited])
    assert shown(site, path, number)["alt"] == "Elbe in en"
    assert alt_texts(site)[edited] == "Own words"
    # also when it is processed again
    site.php("return Imgproc_Local_Queue::add( $args['id'], array( 'force' => true ) );", id=edited)
    wait_finished(site, [edited])
    assert alt_texts(site)[edited] == "Own words"
    # a text in the post wins over that of the attachment
    address = site.php("return wp_get_attachment_url( $args['id'] );", id=number)
    content = f'<p><img src="{address}" alt="For this post" class="wp-image-{number}"/></p>'
    post = {"post_title": "Rivers", "post_name": "rivers", "post_content": content, "post_status": "publish"}
    site.php("return wp_insert_post( $args['post'] );", post=post)
    assert shown(site, "/rivers/", number)["alt"] == "For this post"


def test_browsers_get_the_formats_that_they_accept(site: Site, described: Running, uploader: Uploader) -> None:
    with Image.open(SAMPLE) as sample:
        sample.thumbnail((1600, 1600))
        content = pictures.encoded(sample.convert("RGB"), quality=92)
    for kind, accept in (("webp", WEBP), ("avif", AVIF)):
        configure(site, described.root, described.key, format=kind)
        number, _ = uploader.upload(f"harbour-{kind}.jpg", content + kind.encode())
        wait_finished(site, [number])
        path = insert_into_post(site, number, f"harbour{kind}")

        image = shown(site, path, number, accept)
        assert len(addresses(image)) >= 3, image
        # a size without a copy, because that would be larger, remains a JPEG
        found = {address.rpartition("/")[2]: fetch(address).format for address in addresses(image)}
        assert kind.upper() in found.values(), found
        assert set(found.values()) <= {"AVIF", "WEBP", "JPEG"}, found
        assert [name for name in found if found[name] == "JPEG" and list(site.uploads.glob(f"{name}.*"))] == []
        old = shown(site, path, number, OLD)
        assert {fetch(address).format for address in addresses(old)} == {"JPEG"}
        assert "AVIF" not in {fetch(address).format for address in addresses(shown(site, path, number, WEBP))}
        answer = httpx.get(f"{site.url}{path}", headers={"Accept": accept})
        assert "accept" in answer.headers.get("Vary", "").lower()

        # the files are gone: the page shows the originals again
        for copy in (*site.uploads.glob(f"harbour-{kind}*.webp"), *site.uploads.glob(f"harbour-{kind}*.avif")):
            copy.unlink()
        image = shown(site, path, number, accept)
        assert {fetch(address).format for address in addresses(image)} == {"JPEG"}


def test_a_picture_in_a_post_is_described_in_its_context(
    site: Site, service: Running, describer: SiteDescriber
) -> None:
    post = site.php(
        "return wp_insert_post( array( 'post_title' => 'Ferries of Hamburg', 'post_excerpt' => 'A day on the Elbe',"
        " 'post_status' => 'publish' ) );"
    )
    (number,) = site.add_pictures({"ferry.jpg": pictures.jpeg(seed=25)})
    site.php("wp_update_post( array( 'ID' => $args['id'], 'post_parent' => $args['post'] ) );", id=number, post=post)
    site.php("return Imgproc_Local_Queue::add( $args['id'] );", id=number)
    wait_finished(site, [number])
    assert "Ferries of Hamburg" in describer.contexts["ferry"]
    assert "A day on the Elbe" in describer.contexts["ferry"]
