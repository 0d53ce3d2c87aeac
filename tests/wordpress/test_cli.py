"""The commands `wp imgproc`, called with a stand-in for WP-CLI, which Debian does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support import pictures
from tests.support.service import Running
from tests.wordpress.library import alt_texts, configure, jobs_and_balance, queue, small, states
from tests.wordpress.site import Site, free_port

RUN = """
require_once $args['stub'];
define( 'WP_CLI', true );
ob_start();
$error = '';
try {
    ( new Imgproc_Local_CLI() )->{$args['command']}( $args['positional'], $args['options'] );
} catch ( RuntimeException $exception ) {
    $error = $exception->getMessage();
}
return array( ob_get_clean(), $error );
"""


def wp(site: Site, command: str, *positional: object, **options: Any) -> tuple[str, str]:
    """What `wp imgproc COMMAND` prints, and its error or an empty string."""
    stub = str(Path(__file__).with_name("wp-cli.php"))
    words = {name.replace("_", "-"): value for name, value in options.items()}
    printed, error = site.php(RUN, stub=stub, command=command, positional=list(positional), options=words)
    return printed, error


def test_process_adds_what_was_not_processed_and_waits(site: Site, service: Running) -> None:
    ids = site.add_pictures(small(5))
    printed, error = wp(site, "process", dry_run=True)
    assert (printed, error) == ("5 images would be added to the queue.\n", "")
    assert states(site) == {}

    printed, error = wp(site, "process")
    assert error == ""
    assert printed.startswith("5 images were added to the queue.\nbar 5\n")
    assert printed.count("tick") == 5
    assert printed.endswith("Success: 5 images were finished.\n")
    assert set(alt_texts(site)) == set(ids)
    assert wp(site, "process")[0].startswith("0 images were added")
    assert jobs_and_balance(service)[0] == 5


def test_process_resumes_and_names_failures(site: Site, service: Running) -> None:
    ids = site.add_pictures({"broken.jpg": pictures.broken_jpeg(), **small(2)})
    queue(site, ids)
    printed, error = wp(site, "process", resume=True)
    assert error == "1 image failed."
    assert f"Warning: {ids[0]} broken.jpg: " in printed
    status, _ = wp(site, "status")
    assert "done: 2\nfailed: 1\n" in status


def test_trouble_ends_process_and_stop_empties_the_queue(site: Site) -> None:
    configure(site, f"http://127.0.0.1:{free_port()}", "imgp_0")
    ids = site.add_pictures(small(2))
    site.php(
        "update_option( 'imgproc_local_pause', array( 'reason' => 'no_credits', 'message' => 'Too few credits.',"
        " 'until' => time() + 600, 'count' => 3 ) );"
    )
    printed, error = wp(site, "process", *ids)
    assert printed.startswith("2 images were added")
    assert error.startswith("Too few credits. 2 images wait. The next try is at ")
    assert wp(site, "stop") == ("Success: The queue was stopped.\n", "")
    assert states(site) == {}
    assert wp(site, "process", "999999")[1] == "999999 is not the id of an image."
    assert "can’t be reached" in wp(site, "test")[1]
