"""The pictures of a test site, and what became of them: read from the database, from pages and from the service."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import httpx
from PIL import Image

from tests.support import pictures
from tests.support.service import Running
from tests.wordpress.site import Site

FINAL = ("done", "failed", "skipped")
CRON_EVERY_S = 5
"""How often `wait_until` calls wp-cron.php, as visitors or a cron job of the system do."""
WEBP, AVIF, OLD = (f"text/html,{kinds}*/*;q=0.8" for kinds in ("image/webp,", "image/avif,image/webp,", ""))
"""The header Accept of browsers that show WebP, WebP and AVIF, or neither."""


def small(count: int, first: int = 0) -> dict[str, bytes]:
    """Small JPEGs that all differ, by file name: `picture-0.jpg` …"""
    return {f"picture-{n}.jpg": pictures.jpeg(96, 72, seed=n, quality=90) for n in range(first, first + count)}


def twelve() -> dict[str, bytes]:
    """A picture of each kind that WordPress accepts, by file name. Two have no content to describe: "plain"."""
    photo = pictures.photo(800, 600, seed=3)
    turned = Image.Exif()
    turned[0x0112] = 6
    alpha = photo.convert("RGBA")
    alpha.putalpha(Image.linear_gradient("L").resize(photo.size))
    frames = [pictures.photo(160, 120, seed) for seed in range(4)]
    return {
        "photo.jpg": pictures.encoded(photo, quality=95),
        "progressive.jpg": pictures.encoded(pictures.photo(800, 600, 4), quality=92, progressive=True),
        "turned.jpg": pictures.encoded(pictures.photo(800, 600, 5), quality=92, exif=turned.tobytes()),
        "cmyk.jpg": pictures.encoded(pictures.photo(640, 480, 6).convert("CMYK"), quality=92),
        "plain-grey.jpg": pictures.encoded(pictures.photo(640, 480, 7).convert("L"), quality=92),
        "larger-than-2560.jpg": pictures.encoded(pictures.photo(2800, 1800, 8), quality=90),
        "Brücke über den Fluß.jpg": pictures.encoded(pictures.photo(640, 480, 9), quality=92),
        "still.png": pictures.encoded(pictures.photo(400, 300, 10), "PNG"),
        "plain-alpha.png": pictures.encoded(alpha.resize((400, 300)), "PNG"),
        "palette.png": pictures.encoded(pictures.photo(640, 480, 11).quantize(32), "PNG"),
        "animation.gif": pictures.encoded(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=120),
        "harbour.webp": pictures.encoded(pictures.photo(640, 480, 12), "WEBP", quality=95),
    }


# ---- the state in WordPress ----


def meta(site: Site, key: str) -> dict[int, str]:
    """The values of one meta key, by attachment."""
    return {
        int(row[0]): row[1] for row in site.sql(f"SELECT post_id, meta_value FROM wp_postmeta WHERE meta_key='{key}'")
    }


def states(site: Site) -> dict[int, str]:
    return meta(site, "_imgproc_local_state")


def alt_texts(site: Site) -> dict[int, str]:
    return meta(site, "_wp_attachment_image_alt")


def own_names(site: Site, *tables: str) -> list[str]:
    """The names that the plugin has given to options and meta values, in the database tables of these names."""
    columns = [(table, "option_name" if table.endswith("options") else "meta_key") for table in tables]
    queries = [f"SELECT {column} FROM wp_{table} WHERE {column} LIKE '%imgproc%'" for table, column in columns]
    return [row[0] for row in site.sql(" UNION ".join(queries))]


def attachments(site: Site) -> dict[str, int]:
    """The id of each attachment by its title, which WordPress makes of the file's name."""
    rows = site.sql("SELECT ID, post_title FROM wp_posts WHERE post_type='attachment' ORDER BY ID")
    return {title: int(number) for number, title in rows}


def wait_until(site: Site, condition: Callable[[], Any], what: str, timeout_s: float = 120, cron: bool = True) -> None:
    """Wait for a condition, which WordPress reaches without a browser. `cron`: wp-cron.php is called meanwhile."""
    deadline = time.monotonic() + timeout_s
    next_cron = time.monotonic() + CRON_EVERY_S
    while not condition():
        assert time.monotonic() < deadline, f"not {what} after {timeout_s} s: {status(site)} {states(site)}"
        if cron and time.monotonic() > next_cron:
            httpx.get(f"{site.url}/wp-cron.php", timeout=60)
            next_cron = time.monotonic() + CRON_EVERY_S
        time.sleep(0.3)


def wait_finished(site: Site, ids: Iterable[int], timeout_s: float = 120, cron: bool = True) -> dict[int, str]:
    """Wait until the plugin has finished these pictures. Returns their states."""
    wanted = set(ids)

    def finished() -> bool:
        now = states(site)
        return all(now.get(number) in FINAL for number in wanted)

    wait_until(site, finished, "finished", timeout_s, cron)
    return {number: state for number, state in states(site).items() if number in wanted}


def let_time_pass(site: Site, seconds: int) -> None:
    """Let the plugin believe that so many seconds have passed: pauses and waits for the next attempt end earlier."""
    site.php(
        "global $wpdb;"
        '$wpdb->query( $wpdb->prepare( "UPDATE $wpdb->postmeta SET meta_value = meta_value - %d'
        " WHERE meta_key = '_imgproc_local_due'\", $args['seconds'] ) );"
        "$pause = get_option( 'imgproc_local_pause' );"
        "if ( $pause ) { $pause['until'] -= $args['seconds']; update_option( 'imgproc_local_pause', $pause ); }",
        seconds=seconds,
    )


def status(site: Site) -> dict[str, Any]:
    """What the plugin says of its queue."""
    result: dict[str, Any] = site.php("return Imgproc_Local_Queue::status();")
    return result


def queue(site: Site, ids: Iterable[int]) -> None:
    site.php("return Imgproc_Local_Queue::add_many( $args['ids'] );", ids=list(ids))


def configure(site: Site, url: str, key: str, **settings: Any) -> None:
    """Save the plugin's settings without its page."""
    site.php(
        "$old = get_option( 'imgproc_local_settings', array() );"
        "update_option( 'imgproc_local_settings', array_merge( $old, $args['settings'] ) );",
        settings={"address": url, "key": key, **settings},
    )


# ---- what visitors see ----


def page_images(site: Site, path: str, accept: str) -> list[dict[str, str]]:
    """The attributes of each `<img>` in the page, as a browser with this header Accept receives it."""
    answer = httpx.get(f"{site.url}{path}", headers={"Accept": accept}, follow_redirects=True, timeout=60)
    assert answer.status_code == 200, answer.text[:500]
    return [dict(re.findall(r'([\w-]+)="([^"]*)"', tag)) for tag in re.findall(r"<img [^>]+>", answer.text)]


def addresses(image: Mapping[str, str]) -> list[str]:
    """All addresses in src and srcset of an image."""
    candidates = [entry.split()[0] for entry in image.get("srcset", "").split(",") if entry.strip()]
    return [image["src"], *candidates]


def fetch(address: str) -> Image.Image:
    """The picture at an address, decoded. Its format must be that of the header Content-Type."""
    answer = httpx.get(address, timeout=60)
    assert answer.status_code == 200, address
    picture = Image.open(io.BytesIO(answer.content))
    picture.load()
    assert answer.headers["Content-Type"] == Image.MIME[picture.format or ""], address
    return picture


# ---- the state in the service ----


def jobs_and_balance(service: Running) -> tuple[int, int]:
    """How many jobs the account has, and its credits."""
    jobs = service.client.get("/jobs", params={"limit": 1})
    balance = service.client.get("/credits/balance")
    return int(jobs.headers["X-Total-Count"]), balance.json()["data"]["balance"]
