"""Files: sizes that are made anew, and metadata and answers that would lead out of the folder of uploads."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.support import pictures
from tests.support.service import Running
from tests.wordpress.admin import Uploader
from tests.wordpress.library import WEBP, addresses, fetch, jobs_and_balance, meta, queue, wait_finished, wait_until
from tests.wordpress.site import Site
from tests.wordpress.test_upload import insert_into_post, shown

REGENERATE = """
$path = wp_get_original_image_path( $args['id'] );
foreach ( wp_get_attachment_metadata( $args['id'] )['sizes'] as $size ) {
    wp_delete_file( dirname( $path ) . '/' . $size['file'] );
}
return wp_update_attachment_metadata( $args['id'], wp_generate_attachment_metadata( $args['id'], $path ) );
"""
"""What `wp media regenerate` does with an image."""
HOSTILE_STATE = """
$state = Imgproc_Local_Queue::state( $args['id'] );
$hash  = hash_file( 'sha256', get_attached_file( $args['id'] ) );
$state['files']     = array( 'boat.jpg' => array( 'copy' => '../copy.webp', 'bytes' => 1 ) );
$state['originals'] = array( 'boat.jpg' => array( 'path' => '../original.jpg', 'replaced_by' => $hash ) );
update_post_meta( $args['id'], '_imgproc_local', $state );
return Imgproc_Local_Attachment::request( $args['id'], array(), Imgproc_Local_Queue::state( $args['id'] ) )['path'];
"""
HOSTILE_SERVICE = """
add_filter( 'pre_http_request', function ( $answer, $options ) {
    file_put_contents( $options['filename'], '<?php' );
    return array(
        'headers'  => array( 'etag' => hash( 'sha256', '<?php' ) ),
        'body'     => '',
        'response' => array( 'code' => 200 ),
        'filename' => $options['filename'],
    );
}, 99, 2 );
$state = Imgproc_Local_Queue::state( $args['id'] );
$image = array( 'id' => 'x', 'converted_format' => 'php', 'converted_size' => 5 );
return Imgproc_Local_Files::add_copies( $args['id'], new Imgproc_Local_Client(), $image, $state );
"""
LARGER_COPY = """
add_filter( 'pre_http_request', function ( $answer, $options ) {
    $content = str_repeat( 'x', 1000000 );
    file_put_contents( $options['filename'], $content );
    return array(
        'headers'  => array( 'etag' => hash( 'sha256', $content ) ),
        'body'     => '',
        'response' => array( 'code' => 200 ),
        'filename' => $options['filename'],
    );
}, 99, 2 );
$state = Imgproc_Local_Queue::state( $args['id'] );
$image = array( 'id' => 'x', 'converted_format' => 'webp', 'converted_size' => 5 );
Imgproc_Local_Files::add_copies( $args['id'], new Imgproc_Local_Client(), $image, $state );
Imgproc_Local_Queue::save( $args['id'], $state );
return $state['files'];
"""
SERVED = """
wp_set_current_user( 1 );
set_current_screen( 'upload' );
return Imgproc_Local_Library::add_field( array(), get_post( $args['id'] ) )['imgproc_local']['tr'];
"""
"""The panel of an image, as HTML."""


@pytest.mark.parametrize("size", [(2800, 1800), (1200, 900)], ids=["scaled", "as uploaded"])
def test_sizes_that_are_made_anew_keep_the_smaller_file_and_all_are_deleted_with_their_attachment(
    site: Site, service: Running, uploader: Uploader, size: tuple[int, int]
) -> None:
    number, _ = uploader.upload("bay.jpg", pictures.jpeg(*size, seed=31, quality=92))
    wait_finished(site, [number])
    published = Path(site.php("return get_attached_file( $args['id'] );", id=number))
    before = published.read_bytes()
    assert int(meta(site, "_imgproc_local_saved")[number]) > 0
    balance = jobs_and_balance(service)
    path = insert_into_post(site, number, "bay")
    served = addresses(shown(site, path, number))

    site.php(REGENERATE, id=number)
    wait_until(site, lambda: number not in meta(site, "_imgproc_local_due"), "processed again")
    assert published.read_bytes() == before
    assert jobs_and_balance(service) == balance
    assert int(meta(site, "_imgproc_local_saved")[number]) > 0
    again = addresses(shown(site, path, number, WEBP))
    assert again == served
    assert "WEBP" in {fetch(address).format for address in again}
    assert len(list(site.uploads.glob("bay*"))) > 3
    site.php("wp_delete_attachment( $args['id'], true );", id=number)
    assert [file.name for file in site.uploads.rglob("*bay*")] == []


def test_metadata_do_not_lead_out_of_the_uploads(site: Site, service: Running) -> None:
    (boat,) = site.add_pictures({"boat.jpg": pictures.jpeg(320, 240, seed=32)})
    queue(site, [boat])
    wait_finished(site, [boat])
    outside = [site.uploads.parent / name for name in ("copy.webp", "original.jpg")]
    for file in outside:
        file.write_bytes(b"of another program")
    assert site.php(HOSTILE_STATE, id=boat) == str(site.uploads / "boat.jpg")
    site.php("return Imgproc_Local_Queue::add( $args['id'], array( 'force' => true ) );", id=boat)
    wait_finished(site, [boat])
    site.php(HOSTILE_STATE, id=boat)
    site.php("wp_delete_attachment( $args['id'], true );", id=boat)
    assert [file.read_bytes() for file in outside] == [b"of another program"] * 2


def test_a_file_out_of_the_uploads_is_not_sent(site: Site, service: Running) -> None:
    (number,) = site.add_pictures({"inside.jpg": pictures.jpeg(seed=33)})
    (site.uploads.parent / "outside.jpg").write_bytes(pictures.jpeg(seed=34))
    site.php("update_post_meta( $args['id'], '_wp_attached_file', '../outside.jpg' );", id=number)
    queue(site, [number])
    assert wait_finished(site, [number]) == {number: "failed"}
    assert jobs_and_balance(service)[0] == 0
    error = site.php("return Imgproc_Local_Queue::state( $args['id'] )['error'];", id=number)
    assert error == "The file outside.jpg is not in the folder of uploads of this server."


def test_a_service_can_not_choose_the_ending_of_a_file(site: Site) -> None:
    (number,) = site.add_pictures({"ending.jpg": pictures.jpeg(seed=35)})
    site.php(HOSTILE_SERVICE, id=number)
    assert [file.name for file in site.uploads.rglob("*.php*")] == []


def test_a_copy_that_would_be_larger_costs_no_credit(site: Site, service: Running) -> None:
    noise = Image.effect_noise((160, 120), 100).convert("RGB")
    (number,) = site.add_pictures({"coarse.jpg": pictures.encoded(noise, quality=20)})
    _, before = jobs_and_balance(service)
    queue(site, [number])
    assert wait_finished(site, [number]) == {number: "done"}
    assert before - jobs_and_balance(service)[1] == 2, "for the text and the optimized file"
    assert "as WEBP it would not be smaller" in site.php(SERVED, id=number)


def test_a_copy_that_is_larger_is_never_served(site: Site, service: Running) -> None:
    (number,) = site.add_pictures({"larger.jpg": pictures.jpeg(320, 240, seed=36)})
    post = insert_into_post(site, number, "larger")
    assert "larger.jpg" not in site.php(LARGER_COPY, id=number), "made anew after the plugin has read its size"
    assert "as WEBP it would not be smaller" in site.php(SERVED, id=number)
    copy = site.uploads / "larger.jpg.webp"
    assert not copy.exists()
    copy.write_bytes(bytes(1_000_000))
    record = {"larger.jpg": {"copy": copy.name, "bytes": (site.uploads / "larger.jpg").stat().st_size}}
    state = "array( 'files' => $args['files'] ) + Imgproc_Local_Queue::state( $args['id'] )"
    site.php(f"return Imgproc_Local_Queue::save( $args['id'], {state} );", id=number, files=record)
    assert not [each for each in addresses(shown(site, post, number, WEBP)) if each.endswith(copy.name)]
    copy.write_bytes(bytes(10))
    assert [each for each in addresses(shown(site, post, number, WEBP)) if each.endswith(copy.name)]
    assert "a smaller copy as WEBP" in site.php(SERVED, id=number)


def test_files_of_other_types_are_skipped(site: Site, service: Running) -> None:
    types = {"drawing.svg": "image/svg+xml", "leaflet.pdf": "application/pdf", "film.mp4": "video/mp4"}
    ids = []
    for name, kind in types.items():
        (site.uploads / name).write_bytes(b"<svg/>")
        post = {"post_title": name, "post_mime_type": kind}
        code = "return wp_insert_attachment( $args['post'], wp_upload_dir()['path'] . '/' . $args['name'] );"
        ids.append(site.php(code, post=post, name=name))
    assert meta(site, "_imgproc_local_state") == {ids[0]: "skipped", ids[1]: "skipped"}
    assert meta(site, "_imgproc_local_due") == {}
