"""Configuration of the programs of a test site: nginx, PHP-FPM, PHP on the command line, and WordPress."""

from __future__ import annotations

import os
from pathlib import Path

PHP_WORKERS = 5
"""Requests that PHP answers at once: those of a browser, and those that WordPress sends to itself."""
PHP_SETTINGS = {
    "memory_limit": "256M",
    "upload_max_filesize": "30M",
    "post_max_size": "32M",
    "max_execution_time": "60",
    "sendmail_path": "/bin/true",
    "opcache.validate_timestamps": "1",
    "opcache.revalidate_freq": "0",
}


def php_options(base: Path) -> list[str]:
    """The options of a PHP that reads no configuration of the machine but its list of extensions."""
    options = {**PHP_SETTINGS, "error_log": str(base / "php-cli.log"), "sys_temp_dir": str(base / "tmp")}
    return [part for name, value in options.items() for part in ("-d", f"{name}={value}")]


OF_SITES_OF_A_NETWORK = r"""
    if (!-e $request_filename) {
      rewrite ^/[^/]+(/wp-(content|admin|includes).*) $1 last;
      rewrite ^/[^/]+(/.*\.php)$ $1 last;
    }
"""
"""Rules of nginx for a network whose sites are folders, as the manual of WordPress has them."""


def nginx_config(base: Path, folder: Path, port: int, network: bool) -> str:
    user = "user root;" if os.geteuid() == 0 else ""
    temporary = "\n".join(
        f"  {kind}_temp_path {base}/tmp/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""
{user}
daemon off;
worker_processes 1;
pid {base}/nginx.pid;
error_log {base}/nginx.log warn;
events {{ worker_connections 512; }}
http {{
  include /etc/nginx/mime.types;
  access_log {base}/access.log;
{temporary}
  client_max_body_size 40m;
  server {{
    listen 127.0.0.1:{port};
    root {folder};
    index index.php;
    {OF_SITES_OF_A_NETWORK if network else ""}
    location / {{ try_files $uri $uri/ /index.php?$args; }}
    location ~ \\.php$ {{
      try_files $uri =404;
      fastcgi_pass unix:{base}/fpm.sock;
      fastcgi_read_timeout 120s;
      include /etc/nginx/fastcgi_params;
      fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
      fastcgi_param HTTP_HOST 127.0.0.1:{port};
    }}
  }}
}}
"""


def fpm_config(base: Path) -> str:
    settings = "\n".join(f"php_admin_value[{name}] = {value}" for name, value in PHP_SETTINGS.items())
    user = "user = root\ngroup = root" if os.geteuid() == 0 else ""
    return f"""
[global]
error_log = {base}/fpm.log
daemonize = no
[www]
{user}
listen = {base}/fpm.sock
pm = static
pm.max_children = {PHP_WORKERS}
catch_workers_output = yes
clear_env = yes
{settings}
php_admin_value[sys_temp_dir] = {base}/tmp
php_admin_value[upload_tmp_dir] = {base}/tmp
"""


def wp_config(base: Path, url: str) -> str:
    keys = ("AUTH_KEY", "SECURE_AUTH_KEY", "LOGGED_IN_KEY", "NONCE_KEY")
    salts = ("AUTH_SALT", "SECURE_AUTH_SALT", "LOGGED_IN_SALT", "NONCE_SALT")
    secrets = "\n".join(f"define( '{name}', '{os.urandom(24).hex()}' );" for name in keys + salts)
    return f"""<?php
define( 'DB_NAME', 'wordpress' );
define( 'DB_USER', 'root' );
define( 'DB_PASSWORD', '' );
define( 'DB_HOST', 'localhost:{base}/db.sock' );
define( 'DB_CHARSET', 'utf8mb4' );
define( 'DB_COLLATE', '' );
{secrets}
$table_prefix = 'wp_';
define( 'WP_HOME', '{url}' );
define( 'WP_SITEURL', '{url}' );
define( 'WP_HTTP_BLOCK_EXTERNAL', true );
define( 'AUTOMATIC_UPDATER_DISABLED', true );
define( 'WP_DEBUG', true );
define( 'WP_DEBUG_LOG', true );
define( 'WP_DEBUG_DISPLAY', false );
define( 'IMGPROC_TEST_FOLDER', '{base}' );
define( 'FS_METHOD', 'direct' );
if ( ! defined( 'ABSPATH' ) ) {{
	define( 'ABSPATH', __DIR__ . '/' );
}}
require_once ABSPATH . 'wp-settings.php';
"""
