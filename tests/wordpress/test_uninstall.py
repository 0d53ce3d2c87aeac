"""Deleting the plugin on the page Plugins removes what it stored."""

from __future__ import annotations

import time

import httpx

from tests.support.service import Running
from tests.wordpress.admin import Admin, Uploader
from tests.wordpress.conftest import SiteDescriber
from tests.wordpress.library import configure, states, twelve, wait_finished, wait_until
from tests.wordpress.site import Site

LONGEST_WAIT_S = 15
"""A request of the plugin that waits for the service ends within 10 s, and then stores nothing."""
OF_WORDPRESS = {"finished_updating_comment_type", "https_detection_errors", "recovery_keys", "recently_activated"}
"""Options that WordPress itself stores after a while, or when a plugin is deactivated or deleted."""


def snapshot(site: Site) -> dict[str, list[list[str]]]:
    """What WordPress has stored, by kind: names of options, meta keys, scheduled events, tables, users' meta keys."""
    hooks = site.php(
        "return array_values( array_unique( array_merge( ...array_map( 'array_keys', _get_cron_array() ) ) ) );"
    )
    return {
        "options": site.sql(
            "SELECT option_name FROM wp_options WHERE option_name NOT LIKE '%transient%' ORDER BY option_name"
        ),
        "post meta": site.sql("SELECT DISTINCT meta_key FROM wp_postmeta ORDER BY meta_key"),
        "user meta": site.sql("SELECT DISTINCT meta_key FROM wp_usermeta ORDER BY meta_key"),
        "tables": site.sql("SHOW TABLES"),
        "hooks": [[hook] for hook in sorted(hooks)],
        "own": site.sql(
            "SELECT option_name FROM wp_options WHERE option_name LIKE '%imgproc%'"
            " UNION SELECT meta_key FROM wp_postmeta WHERE meta_key LIKE '%imgproc%'"
            " UNION SELECT meta_key FROM wp_usermeta WHERE meta_key LIKE '%imgproc%'"
        ),
    }


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
    wait_finished(site, [uploader.upload(name, content)[0] for name, content in uploads.items()])
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
    after = snapshot(site)
    assert after["own"] == []
    # alt texts are the site's own
    after["post meta"] = [row for row in after["post meta"] if row != ["_wp_attachment_image_alt"]]
    for kind in ("options", "post meta", "tables", "hooks"):
        left = {row[0] for row in after[kind] if row not in before[kind]}
        assert left <= OF_WORDPRESS, f"{kind}: {left}"
    assert not site.plugin.exists()
    # the originals are back, and the copies are gone
    assert (site.uploads / "photo.jpg").read_bytes() == uploads["photo.jpg"]
    assert [file.name for file in site.uploads.rglob("*") if "imgproc" in file.name or file.suffix == ".webp"] == []
