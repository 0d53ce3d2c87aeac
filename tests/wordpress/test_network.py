"""A network of two sites: the plugin is activated, works, is deactivated and deleted for both of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.support import pictures
from tests.support.service import Running
from tests.wordpress import site as sites
from tests.wordpress.admin import sign_in
from tests.wordpress.library import jobs_and_balance, own_names
from tests.wordpress.site import ADD_PICTURES, Site

PLUGIN = "imgproc-local/imgproc-local.php"
SECOND = 2
WAIT_S = 120
TABLES = ("options", "postmeta", f"{SECOND}_options", f"{SECOND}_postmeta", "usermeta", "sitemeta")


@pytest.fixture(scope="module")
def network() -> Iterator[Site]:
    if lacking := sites.missing():
        pytest.skip(f"not installed: {', '.join(lacking)}")
    with sites.installed(network=True) as site:
        yield site
        assert site.errors() == []
        assert site.refused() == ""


def on_second(site: Site, code: str, **arguments: object) -> object:
    """What PHP code returns on the second site."""
    return site.php(f"switch_to_blog( {SECOND} ); {code}", **arguments)


def add_pictures(site: Site, names: list[str]) -> list[int]:
    """Put pictures into the library of the second site. The plugin does not queue them: it has no key yet."""
    folder = on_second(site, "return wp_upload_dir()['path'];")
    for seed, name in enumerate(names):
        (site.base / str(folder) / name).write_bytes(pictures.jpeg(320, 240, seed=seed))
    ids = on_second(site, ADD_PICTURES, names=names)
    assert isinstance(ids, list)
    return ids


def events(site: Site) -> list[bool]:
    """Whether the first and the second site have an event of the plugin."""
    code = "return (bool) wp_next_scheduled( 'imgproc_local_cron' );"
    return [bool(site.php(code)), bool(on_second(site, code))]


def test_the_second_site_has_its_own_settings_and_queue(network: Site, described: Running) -> None:
    ids = add_pictures(network, ["ferry.jpg", "lock.jpg"])
    settings = {"address": described.root, "key": described.key}
    on_second(network, "update_option( 'imgproc_local_settings', $args['settings'] );", settings=settings)
    assert network.php("return Imgproc_Local_Settings::is_ready();") is False
    on_second(network, "return Imgproc_Local_Queue::add_many( $args['ids'] );", ids=ids)
    deadline = time.monotonic() + WAIT_S
    done: list[list[str]] = []
    while len(done) < len(ids):
        assert time.monotonic() < deadline, on_second(network, "return Imgproc_Local_Queue::status();")
        httpx.get(f"{network.url}/second/wp-cron.php", timeout=60)
        time.sleep(1)
        done = network.sql(
            f"SELECT post_id FROM wp_{SECOND}_postmeta WHERE meta_key='_imgproc_local_state' AND meta_value='done'"
        )
    texts = on_second(
        network,
        "return array_map( fn( $id ) => get_post_meta( $id, '_wp_attachment_image_alt', true ), $args['ids'] );",
        ids=ids,
    )
    assert texts == ["ferry in en", "lock in en"]
    assert jobs_and_balance(described)[0] == len(ids)
    assert list((network.uploads / "sites" / str(SECOND)).rglob("*.jpg.webp")) != []


def test_the_administrator_of_one_site_can_not_choose_the_address(network: Site) -> None:
    user = {"user_login": "second", "user_pass": "pw", "user_email": "second@example.org"}
    on_second(
        network,
        "return add_user_to_blog( get_current_blog_id(), wp_insert_user( $args['user'] ), 'administrator' );",
        user=user,
    )
    with contextlib.closing(sign_in(f"{network.url}/second", "second", "pw")) as client:
        assert client.get("/wp-admin/options-general.php").status_code == 200
        assert client.get("/wp-admin/options-general.php?page=imgproc-local").status_code == 403
        assert client.get("/wp-admin/upload.php?page=imgproc-local-bulk").status_code == 200


def test_an_activation_continues_the_queues_of_all_sites_and_a_deletion_leaves_nothing_on_any(network: Site) -> None:
    ids = add_pictures(network, ["dyke.jpg"])
    settings = {"address": f"http://127.0.0.1:{sites.free_port()}", "key": "imgp_0"}
    on_second(network, "update_option( 'imgproc_local_settings', $args['settings'] );", settings=settings)
    on_second(network, "return Imgproc_Local_Queue::add_many( $args['ids'] );", ids=ids)
    assert events(network) == [False, True]
    network.php(f"deactivate_plugins( '{PLUGIN}', false, true );")
    assert events(network) == [False, False]
    network.php(f"return activate_plugin( '{PLUGIN}', '', true );")
    assert events(network) == [False, True]

    assert own_names(network, *TABLES) != []
    network.php(f"deactivate_plugins( '{PLUGIN}', false, true );")
    network.php(f"uninstall_plugin( '{PLUGIN}' );")
    assert own_names(network, *TABLES) == []
    assert events(network) == [False, False]
    assert [file.name for file in network.uploads.rglob("*") if "imgproc" in file.name or file.suffix == ".webp"] == []
