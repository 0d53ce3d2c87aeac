"""Deleting the plugin on the page Plugins removes what it stored."""

from __future__ import annotations

import time

import httpx

from tests.support.service import Running
from tests.wordpress.admin import Admin, Uploader
from tests.wordpress.conftest import SiteDescriber
from tests.wordpress.library import configure, own_names, states, twelve, wait_finished, wait_until
from tests.wordpress.site import Site

LONGEST_WAIT_S = 15
"""A request of the plugin that waits for the service ends within 10 s, and then stores nothing."""
OF_WORDPRESS = {
    *("finished_updating_comment_type", "https_detection_errors", "recovery_keys", "recently_activated"),
    "_wp_attachment_image_alt",
}
"""Options that WordPress itself stores after a while, or when a plugin is deactivated or deleted, and alt texts."""


def snapshot(site: Site) -> set[str]:
    """The names of what WordPress has stored: options, meta values of posts, tables, and scheduled events."""
    hooks = site.php("return array_merge( ...array_map( 'array_keys', array_values( _get_cron_array() ) ) );")
    rows = [
        *site.sql("SELECT option_name FROM wp_options WHERE option_name NOT LIKE '%transient%'"),
        *site.sql("SELECT DISTINCT meta_key FROM wp_postmeta"),
        *site.sql("SHOW TABLES"),
    ]
    return {*hooks, *(row[0] for row in rows)}


def test_deleting_the_plugin_leaves_nothing(
    site: Site, admin: Admin, uploader: Uploader, described: Running, describer: SiteDescriber
) -> None:
    admin.open("plugins.php")
    httpx.get(f"{site.url}/wp-cron.php", timeout=60)  # WordPress stores what it stores at its first run
    site.php("deactivate_plugins( 'imgproc-local/imgproc-local.php' );")
    uploader.upload("before.jpg", twelve()["photo.jpg"])
    before = snapshot(site)
    site.php("return activate_plugin( 'imgproc-local/imgproc-local.php' );")
    configure(site, described.root, described.key)
    uploads = dict(list(twelve().items())[:3])
    finished = wait_finished(site, [uploader.upload(name, content)[0] for name, content in uploads.items()])
    site.php("return Imgproc_Local_Attachment::set_decorative( $args['id'], true );", id=max(finished))
    assert len(list(site.uploads.rglob("*.webp"))) > len(uploads)
    describer.open.clear()
    unfinished, _ = uploader.upload("unfinished.jpg", twelve()["photo.jpg"])
    wait_until(site, lambda: states(site)[unfinished] == "sent", "sent")

    admin.open("plugins.php")
    admin.page.on("dialog", lambda dialog: dialog.accept())
    admin.page.click("#deactivate-imgproc-local")
    admin.page.wait_for_selector("#delete-imgproc-local")
    admin.page.click("#delete-imgproc-local")
    admin.page.wait_for_selector("tr[data-slug=imgproc-local].deleted", state="attached")
    time.sleep(LONGEST_WAIT_S)
    assert own_names(site, "options", "postmeta", "usermeta") == []
    assert snapshot(site) - before <= OF_WORDPRESS
    assert not site.plugin.exists()
    # the originals are back, and the copies are gone
    assert (site.uploads / "photo.jpg").read_bytes() == uploads["photo.jpg"]
    assert [file.name for file in site.uploads.rglob("*") if "imgproc" in file.name or file.suffix == ".webp"] == []
