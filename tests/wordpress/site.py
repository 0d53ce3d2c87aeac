"""A real WordPress in a temporary folder: Debian's package, MariaDB, and the web server of PHP, on this machine only.

`python -m tests.wordpress.site`

installs one with the plugin, prints its address and runs until Ctrl+C. Nothing remains of it: no system service, no
user and no file outside the folder is used, and WordPress is not allowed to send requests to other machines. It runs as
root or as any user. The environment variable IMGPROC_WORDPRESS names the folder of another WordPress than that of the
package, which may be a newer one.

Packages of Debian or Ubuntu that it needs: wordpress, wordpress-theme-twentytwentythree, mariadb-server, php-cli,
php-mysql, php-gd, php-imagick, php-curl, php-xml, php-mbstring, php-intl.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SOURCE = Path(os.environ.get("IMGPROC_WORDPRESS", "/usr/share/wordpress"))
PLUGIN = Path(__file__).parents[2] / "packaging/wordpress/imgproc-local"
HERE = Path(__file__).parent
USER, PASSWORD = "admin", "a test password"
START_TIMEOUT_S, STOP_TIMEOUT_S, SCRIPT_TIMEOUT_S = 60, 20, 120
PHP_WORKERS = 8
"""Requests that PHP answers at once: those of a browser, and those that WordPress sends to itself."""
PHP_SETTINGS = {
    "memory_limit": "256M",
    "upload_max_filesize": "30M",
    "post_max_size": "32M",
    "max_execution_time": "60",
    "sendmail_path": "/bin/true",
}
CONFIG = """<?php
define( 'DB_NAME', 'wordpress' );
define( 'DB_USER', 'root' );
define( 'DB_PASSWORD', '' );
define( 'DB_HOST', 'localhost:{base}/db.sock' );
define( 'DB_CHARSET', 'utf8mb4' );
define( 'DB_COLLATE', '' );
define( 'WP_HTTP_BLOCK_EXTERNAL', true );
define( 'AUTOMATIC_UPDATER_DISABLED', true );
define( 'WP_DEBUG', true );
define( 'WP_DEBUG_LOG', true );
define( 'WP_DEBUG_DISPLAY', false );
define( 'IMGPROC_TEST_FOLDER', '{base}' );
define( 'FS_METHOD', 'direct' );
{constants}
$table_prefix = 'wp_';
if ( ! defined( 'ABSPATH' ) ) {{
	define( 'ABSPATH', __DIR__ . '/' );
}}
require_once ABSPATH . 'wp-settings.php';
"""
"""wp-config.php. WordPress itself stores the secrets that are not defined here."""
RESET = """
global $wpdb;
foreach ( $wpdb->get_col( "SELECT ID FROM $wpdb->posts WHERE post_type IN ('attachment', 'post', 'page')" ) as $id ) {
    wp_delete_post( $id, true );
}
foreach ( _get_cron_array() as $hooks ) {
    foreach ( preg_grep( '/imgproc/', array_keys( $hooks ) ) as $hook ) {
        wp_unschedule_hook( $hook );
    }
}
$wpdb->query( "DELETE FROM $wpdb->options WHERE option_name LIKE '%imgproc%'" );
"""
ADD_PICTURES = """
return array_map( function ( $name ) {
    $file = wp_upload_dir()['path'] . '/' . $name;
    $type = wp_check_filetype( $file )['type'];
    $id   = wp_insert_attachment( array( 'post_title' => $name, 'post_mime_type' => $type ), $file );
    wp_update_attachment_metadata( $id, wp_generate_attachment_metadata( $id, $file ) );
    return $id;
}, $args['names'] );
"""
MAKE_NETWORK = """
define( 'WP_INSTALLING_NETWORK', true );
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
global $wpdb;
$wpdb->set_prefix( $wpdb->base_prefix, true );
foreach ( $wpdb->tables( 'ms_global' ) as $name => $table ) {
    $wpdb->$name = $table;
}
install_network();
return populate_network( 1, $args['domain'], 'admin@example.org', 'A network', '/', false );
"""

PROGRAMS = {
    name: shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin") or ""
    for name in ("mariadbd", "mariadb-install-db", "mariadb", "php")
}
"""The paths of the programs, also of those that only root has in its path; "" for one that is not installed."""


def missing() -> list[str]:
    """What a site needs and this machine does not have; empty if one can be installed."""
    lacking = [name for name, path in PROGRAMS.items() if not path]
    if not (SOURCE / "wp-settings.php").is_file():
        lacking.append("wordpress")
    return lacking


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Site:
    """A running WordPress. `url` has no slash at its end. `folder` is that of WordPress itself."""

    def __init__(self, base: Path, port: int) -> None:
        self.base = base
        self.folder = base / "wordpress"
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.plugin = self.folder / "wp-content/plugins/imgproc-local"
        self.uploads = self.folder / "wp-content/uploads"

    def configure(self, **constants: str) -> None:
        """Write wp-config.php with these constants, whose values are PHP, besides those of every site."""
        lines = "\n".join(f"define( '{name}', {value} );" for name, value in constants.items())
        (self.folder / "wp-config.php").write_text(CONFIG.format(base=self.base, constants=lines))

    def php(self, code: str, **arguments: Any) -> Any:
        """What `code` returns, run inside WordPress as its administrator; `$args` holds `arguments`.

        Raises: AssertionError, with the output, if the code fails or prints a warning.
        """
        done = subprocess.run(
            [*php_command(self.base), str(self.base / "run.php")],
            input=json.dumps({"code": code, "args": arguments, "host": f"127.0.0.1:{self.port}"}),
            capture_output=True,
            text=True,
            timeout=SCRIPT_TIMEOUT_S,
            check=False,
        )
        answer = done.stdout.rpartition("\x00")[2]
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert "\x00" in done.stdout, f"the code ended WordPress: {done.stdout[-1000:]}"
        return json.loads(answer)

    def sql(self, query: str, database: str = "wordpress") -> list[list[str]]:
        """The rows that the database answers."""
        done = subprocess.run(
            [PROGRAMS["mariadb"], "--no-defaults", f"--socket={self.base}/db.sock", "-uroot", "-NB", database],
            input=query,
            capture_output=True,
            text=True,
            timeout=SCRIPT_TIMEOUT_S,
            check=True,
        )
        return [line.split("\t") for line in done.stdout.splitlines()]

    def errors(self) -> list[str]:
        """Errors, warnings and notices of PHP so far, but not of WordPress' own deprecations and update checks."""
        log = self.folder / "wp-content/debug.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        own = re.compile(
            r"PHP Deprecated: .* in \S*/(wp-includes|wp-admin)/"
            r"| in \S*/wp-includes/update\.php |Something may be wrong with WordPress\.org"
        )
        return [line for line in lines if "PHP " in line and not own.search(line)]

    def reset(self) -> None:
        """Delete all pictures and posts, the settings and state of the plugin, and the logs."""
        self.php(RESET)
        for log in ("wordpress/wp-content/debug.log", "refused.txt"):
            (self.base / log).unlink(missing_ok=True)

    def add_pictures(self, pictures: Mapping[str, bytes]) -> list[int]:
        """Put pictures into the media library as if the plugin was installed after them. Returns their ids."""
        for name, content in pictures.items():
            (self.uploads / name).write_bytes(content)
        ids: list[int] = self.php(ADD_PICTURES, names=list(pictures), without_plugins=True)
        return ids

    def refused(self) -> str:
        """The addresses on other machines to which the plugin has sent a request, which was refused."""
        log = self.base / "refused.txt"
        return log.read_text() if log.exists() else ""


def _make_network(site: Site) -> None:
    """Turn the site into a network of two sites."""
    domain = f"127.0.0.1:{site.port}"
    site.php(MAKE_NETWORK, domain=domain)
    site.configure(
        MULTISITE="true",
        SUBDOMAIN_INSTALL="false",
        DOMAIN_CURRENT_SITE=f"'{domain}'",
        PATH_CURRENT_SITE="'/'",
        SITE_ID_CURRENT_SITE="1",
        BLOG_ID_CURRENT_SITE="1",
    )
    second = {"domain": domain, "path": "/second/", "title": "The second site", "network_id": 1, "user_id": 1}
    site.php("return wp_insert_site( $args['site'] );", site=second)
    # WordPress drops the colon before the port
    site.sql(
        f"UPDATE wp_blogs SET domain = '{domain}'; UPDATE wp_2_options SET option_value = '{site.url}/second'"
        " WHERE option_name IN ('home', 'siteurl');"
    )


def php_command(base: Path) -> list[str]:
    """A PHP that reads no configuration of the machine but its list of extensions."""
    settings = {
        **PHP_SETTINGS,
        "error_log": f"{base}/php.log",
        "sys_temp_dir": f"{base}/tmp",
        "upload_tmp_dir": f"{base}/tmp",
    }
    return [PROGRAMS["php"], *(part for name, value in settings.items() for part in ("-d", f"{name}={value}"))]


@contextlib.contextmanager
def _listening(arguments: list[str], family: socket.AddressFamily, address: Any, log: Path) -> Iterator[None]:
    """A program that listens at an address during the block."""
    environment = {**os.environ, "PHP_CLI_SERVER_WORKERS": str(PHP_WORKERS)}
    with log.open("ab") as output:
        process = subprocess.Popen(
            arguments, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _answers(family, address):
            assert time.monotonic() < deadline, f"nothing listens at {address}:\n{log.read_text()[-2000:]}"
            time.sleep(0.05)
        yield
    finally:
        # the workers of PHP's web server do not end with it
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(family: socket.AddressFamily, address: Any) -> bool:
    with socket.socket(family) as connection:
        return connection.connect_ex(address) == 0


@contextlib.contextmanager
def _database(base: Path) -> Iterator[None]:
    """MariaDB on a socket, without a port and without waiting for the disk."""
    own = [
        "--no-defaults",
        f"--datadir={base}/db",
        *(["--user=root"] if os.geteuid() == 0 else []),
    ]
    log = base / "db.log"
    with log.open("wb") as output:
        subprocess.run(
            [
                PROGRAMS["mariadb-install-db"],
                *own,
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--force",  # also where the name of the machine has no address, as in a chroot
            ],
            stdout=output,
            stderr=output,
            timeout=SCRIPT_TIMEOUT_S,
            check=True,
        )
    options = [
        *own,
        f"--socket={base}/db.sock",
        f"--pid-file={base}/db.pid",
        f"--tmpdir={base}/tmp",
        "--skip-networking",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-fast-shutdown=2",
    ]
    with _listening([PROGRAMS["mariadbd"], *options], socket.AF_UNIX, f"{base}/db.sock", log):
        yield


@contextlib.contextmanager
def installed(*, network: bool = False) -> Iterator[Site]:
    """A new site with the active plugin. It is removed after the block.

    The plugin is copied, because WordPress deletes the files of a plugin that is deleted on its page. `network` makes a
    network of two sites, for all of which the plugin is active.
    """
    # a time limit ends Python with SIGTERM; then too, the programs of the site must end
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # sockets may have paths of at most 107 bytes
    with tempfile.TemporaryDirectory(prefix="wp-", dir="/tmp") as name:
        base = Path(name)
        site = Site(base, free_port())
        (base / "tmp").mkdir()
        shutil.copytree(SOURCE, site.folder, ignore=shutil.ignore_patterns("languages", "akismet"))
        site.uploads.mkdir(exist_ok=True)
        site.configure(WP_HOME=f"'{site.url}'", WP_SITEURL=f"'{site.url}'")
        shutil.copytree(HERE / "mu-plugins", site.folder / "wp-content/mu-plugins")
        shutil.copy(HERE / "run.php", base)
        shutil.copytree(PLUGIN, site.plugin)
        address = "127.0.0.1", site.port
        server = [*php_command(base), "-S", f"127.0.0.1:{site.port}", "-t", str(site.folder)]
        router = [str(HERE / "network.php")] if network else []
        with _database(base):
            site.sql("CREATE DATABASE wordpress CHARACTER SET utf8mb4;", database="")
            site.php("", install=True, user=USER, password=PASSWORD)
            if network:
                _make_network(site)
            site.php("return activate_plugin( 'imgproc-local/imgproc-local.php', '', $args['all'] );", all=network)
            with _listening([*server, *router], socket.AF_INET, address, base / "server.log"):
                yield site


def main() -> None:
    if lacking := missing():
        raise SystemExit(f"not installed: {', '.join(lacking)}; see the first lines of this file")
    with installed() as site, contextlib.suppress(KeyboardInterrupt):
        print(
            f"{site.url}/wp-admin/  {USER} / {PASSWORD}\nfiles and logs: {site.base}\nCtrl+C ends and removes it",
            flush=True,
        )
        signal.pause()


if __name__ == "__main__":
    main()
