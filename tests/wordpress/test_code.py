"""The plugin's files follow the rules of WordPress' directory, as far as they can be checked without a network."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.wordpress.plugin_rules import findings
from tests.wordpress.site import PLUGIN

HERE = Path(__file__).parent
FILES = sorted(PLUGIN.rglob("*.php"))
PHP = [path for name in ("php", "php7.4", *(f"php8.{minor}" for minor in range(6))) if (path := shutil.which(name))]
SUFFIXES = {".php", ".js", ".css", ".txt", ".pot", ""}
TIMEOUT_S = 60
BAD = {
    "output of $title": "echo $title;",
    "output of get_the_title": "echo '<p>' . get_the_title() . '</p>';",
    "output of $y": "echo $x ? esc_html( $x ) : $y;",
    "output of $name": "printf( '%s', $name );",
    "does not escape": "_e( 'Hello', 'imgproc-local' );",
    "text domain": "$x = __( 'Hello', 'other' );",
    "not sanitized": "check_admin_referer( 'x' ); $v = $_POST['x'];",
    "not unslashed": "check_admin_referer( 'x' ); $v = sanitize_text_field( $_POST['x'] );",
    "check of a nonce": "$v = sanitize_text_field( wp_unslash( $_POST['x'] ) );",
    "not prepared": "$wpdb->query( \"DELETE FROM $wpdb->options WHERE option_name = '$name'\" );",
    "loose": "if ( $a == $b ) { return; }",
    "prefix": "function other() {}",
    "output of $reason": "echo $reason; // phpcs:ignore",
}
"""A line of code for each rule of plugin_rules.py, and a part of what is reported for it."""


def run(*command: str | Path) -> str:
    """What a program prints, without an exception where it ends with another status than 0."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return done.stdout + done.stderr


def require(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


@pytest.mark.parametrize("php", PHP)
def test_every_file_is_valid(php: str) -> None:
    for file in FILES:
        assert "No syntax errors" in run(php, "-l", file)


def test_the_code_follows_the_rules() -> None:
    assert FILES
    assert [finding for file in FILES for finding in findings(file)] == []


def test_each_rule_finds_what_it_forbids(tmp_path: Path) -> None:
    file = tmp_path / "bad.php"
    for reported, line in BAD.items():
        file.write_text(f"<?php\ndefined( 'ABSPATH' ) || exit;\n{line}\n")
        [found] = findings(file)
        assert found.startswith(f"{file}:3: "), found
        assert reported in found


def test_the_texts_for_translators_are_those_of_the_code(tmp_path: Path) -> None:
    require("xgettext")
    made = tmp_path / "made.pot"
    assert run(PLUGIN.parent / "make-pot", made) == ""
    stored = PLUGIN / "languages/imgproc-local.pot"

    def texts(file: Path) -> list[str]:  # without the header and the places of the texts
        return [line for line in file.read_text().partition("\n\n")[2].splitlines() if not line.startswith("#:")]

    assert texts(made) == texts(stored), "run packaging/wordpress/make-pot"


def test_the_code_is_laid_out_as_wordpress_wants_it(tmp_path: Path) -> None:
    phpcs = (require("phpcs"), f"--standard={HERE / 'phpcs.xml'}", "--report=emacs", "-q")
    assert run(*phpcs, PLUGIN) == ""
    bad = tmp_path / "bad.php"
    bad.write_text("<?php\nunlink( $f );\n$x = @file( 'x' );\n")
    found = run(*phpcs, bad)
    assert "use wp_delete_file() instead" in found
    assert "Silencing errors is discouraged" in found


def test_readme_and_header_agree() -> None:
    main, readme = (PLUGIN / "imgproc-local.php").read_text(), (PLUGIN / "readme.txt").read_text()

    def fields(text: str) -> dict[str, str]:
        return dict(re.findall(r"^(?: \* )?([A-Z][\w ]+?): +(.+)$", text, re.MULTILINE))

    header, top = fields(main), fields(readme.partition("\n== ")[0])
    assert top["Stable tag"] == header["Version"]
    assert header["Text Domain"] == PLUGIN.name
    for name in ("Requires at least", "Requires PHP", "License", "License URI"):
        assert top[name] == header[name], name
    assert re.fullmatch(r"\d+\.\d+", top["Tested up to"])
    assert {"Contributors", "Tags"} <= set(top)
    assert len(top["Tags"].split(",")) <= 5
    assert readme.startswith(f"=== {header['Plugin Name']} ===\n")
    short = readme.partition("\n== ")[0].strip().splitlines()[-1]
    assert 0 < len(short) <= 150
    for section in ("Description", "Installation", "Frequently Asked Questions", "Changelog"):
        assert f"== {section} ==" in readme, section
    assert f"= {header['Version']} =" in readme.partition("== Changelog ==")[2]
    assert (PLUGIN / "LICENSE").is_file()


def test_the_folder_holds_only_what_the_directory_accepts() -> None:
    for file in PLUGIN.rglob("*"):
        assert re.fullmatch(r"[\w.-]+", file.name), file
        assert not file.name.startswith("."), file
        assert file.suffix in SUFFIXES, file


def test_scripts_and_styles_load_nothing_from_elsewhere() -> None:
    for file in (*PLUGIN.rglob("*.js"), *PLUGIN.rglob("*.css")):
        text = file.read_text()
        found = re.findall(r"https?://\S+|@import|\beval\(|new Function|console\.\w+|document\.write", text)
        assert found == [], file
