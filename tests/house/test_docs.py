"""What exists is written down, and what is written down exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from imgproc_local.api import openapi
from imgproc_local.cli import main
from imgproc_local.config import SETTINGS
from tests.support.service import Running

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_setting_is_in_the_readme() -> None:
    assert [name for name in SETTINGS if f"`{name}`" not in README] == []


def test_every_endpoint_is_in_the_readme() -> None:
    paths = json.loads(openapi.build())["paths"]
    missing = [
        f"{method.upper()} {path}"
        for path, methods in paths.items()
        for method in methods
        if method != "servers" and f"{method.upper()} {path}" not in README
    ]
    assert missing == []


def test_every_command_is_in_the_readme() -> None:
    with click.Context(main) as context:
        assert [name for name in main.list_commands(context) if f"imgproc-local {name}" not in README] == []


def test_the_document_and_the_routes_are_the_same(service: Running) -> None:
    document = json.loads(openapi.build())
    documented = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if path != "/healthz"
    }
    app = service.app
    served = set()
    for route in app.routes:
        if not route.path.startswith("/api/v1/"):
            continue
        path = re.sub(r"\{\w+(:\w+)?\}", "{id}", route.path.removeprefix("/api/v1"))
        served |= {(method, path) for method in route.methods if method != "OPTIONS"}
    assert documented == served


def test_every_reference_of_the_document_resolves_and_every_field_is_described() -> None:
    document = json.loads(openapi.build())
    schemas = document["components"]["schemas"]
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert references <= set(schemas)
    assert set(schemas) <= references
    for name, schema in schemas.items():
        for field, shape in schema["properties"].items():
            wrapped = "$ref" in shape or "$ref" in shape.get("items", {})
            assert "description" in shape or wrapped, f"{name}.{field} has no description"
    assert "http://" not in json.dumps(document)


def test_no_address_of_a_package_host_and_no_path_of_a_machine_is_written_down() -> None:
    for name in ("requirements.lock", "requirements-dev.lock", "README.md", "pyproject.toml", "CHANGELOG.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"index.url|https?://[^ )\"]*/(simple|packages)/|/root/|/home/", text), name
