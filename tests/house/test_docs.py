"""The documents and the code agree: what exists is documented, and what is documented exists."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from litestar.routes import HTTPRoute

from imgproc_local.api import app as api_app
from imgproc_local.api import errors as api_errors
from imgproc_local.cli import main
from imgproc_local.config import SETTINGS
from imgproc_local.domain.errors import ServiceError, how_to_install
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import MAX_LANGUAGES
from tests.conftest import SLOW
from tests.house.test_imports import FLOORS
from tests.support.service import Running

ROOT = Path(__file__).parents[2]
FOLDERS = ("imgproc_local", "tests", "build", "packaging", "models", ".github", ".ci")
FILES = [
    file
    for file in (*ROOT.glob("*"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*")))
    if file.is_file() and "__pycache__" not in file.parts
]
DOCUMENTS = [file for file in FILES if file.suffix == ".md"]
INTERFACE = (ROOT / "imgproc_local/api/README.md").read_text(encoding="utf-8")
PACKAGING = (ROOT / "packaging/README.md").read_text(encoding="utf-8")
VISION = (ROOT / "imgproc_local/vision/README.md").read_text(encoding="utf-8")

MAX_LINES = {"README.md": 150, ".github/CONTRIBUTING.md": 60}
TOP = r"(?:imgproc_local|tests|build|packaging|models|\.github|\.ci)"
PATH = re.compile(rf"(?<![\w./-]){TOP}[/\\][\w./\\-]*\w")
SCRIPT = re.compile(r"(?<![\w./-])\w[\w/-]*\.(?:py|sql|sh|spec)\b")
MODULE = re.compile(r"python -m (tests\.[\w.]+)")
MENTION = re.compile(r"[\w./-]*\w\.md\b")
CITATION = re.compile(r'(\w+)/README\.md, "([^"]+)"')
ELSEWHERE = {"THIRD-PARTY-NOTICES.md", "gguf.md", "OLD.md", "errors.md", "USING_ADVANCED.md"}
"""Documents of other projects that this repository mentions, and one that a test invents."""


# ---- what exists is documented ----


def first_cells(document: str, heading: str) -> list[str]:
    """The code spans that open the rows of the tables below `heading`."""
    section = re.split(rf"^#+ {re.escape(heading)}$", document, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", section, flags=re.MULTILINE)[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def test_settings_and_their_table_agree() -> None:
    assert sorted(first_cells(PACKAGING, "Settings")) == sorted(SETTINGS)


def test_endpoints_and_their_tables_agree() -> None:
    paths = json.loads(api_app.document())["paths"]
    built = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods if method != "servers"}
    assert set(re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", INTERFACE, re.MULTILINE)) == built


def test_endpoints_of_the_page_and_their_table_agree(service: Running) -> None:
    built = {
        f"{method} {re.sub(r':[a-z]+}', '}', route.path)}"
        for route in service.app.routes
        if isinstance(route, HTTPRoute) and route.path.startswith("/local/")
        for method in route.methods - {"HEAD", "OPTIONS"}
    }
    page = (ROOT / "imgproc_local/web/README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([A-Z]+ /local/[^`]*)` \|", page, re.MULTILINE)) == built


def test_rooms_and_their_table_agree() -> None:
    architecture = (ROOT / "imgproc_local/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| `(\w+)` \|", architecture, re.MULTILINE)
    assert {room: int(floor) for floor, room in rows} == FLOORS


def test_every_command_is_documented() -> None:
    def names(group: click.Group, parent: str) -> Iterator[str]:
        for name in group.list_commands(click.Context(group)):
            command = group.get_command(click.Context(group), name)
            if command is None or command.hidden:
                continue
            yield f"{parent} {name}"
            if isinstance(command, click.Group):
                yield from names(command, name)

    assert [name for name in names(main, "imgproc-local") if name not in PACKAGING + VISION] == []


def every_error(kind: type[ServiceError] = ServiceError) -> Iterator[type[ServiceError]]:
    for child in kind.__subclasses__():
        yield child
        yield from every_error(child)


def test_every_error_is_documented_with_its_status() -> None:
    rows = {code: int(status) for status, code in re.findall(r"^\| (\d{3}) \| `(\w+)` \|", INTERFACE, re.M)}
    sent = {
        kind.code: next(api_errors.TABLE[parent][0] for parent in kind.__mro__ if parent in api_errors.TABLE)
        for kind in every_error()
        if any(parent in api_errors.TABLE for parent in kind.__mro__)
    }
    assert rows == sent
    never_sent = {kind.code for kind in every_error()} - sent.keys()
    assert set(first_cells(INTERFACE, "Errors")) == never_sent


def test_every_status_of_the_openapi_document_is_documented() -> None:
    paths = json.loads(api_app.document())["paths"]
    statuses = {
        status
        for methods in paths.values()
        for method, operation in methods.items()
        if method != "servers"
        for status in operation["responses"]
        if int(status) >= 400
    }
    assert statuses <= set(re.findall(r"^\| (\d{3}) \|", INTERFACE, re.MULTILINE))


def test_the_openapi_document_and_the_routes_are_the_same(service: Running) -> None:
    document = json.loads(api_app.document())
    documented = {
        (method.upper(), re.sub(r"\{\w+\}", "{id}", path))
        for path, methods in document["paths"].items()
        for method in methods
        if path not in ("/docs", "/healthz", "/metrics")
    }
    app = service.app
    served = set()
    for route in app.routes:
        if not route.path.startswith("/api/v1/"):
            continue
        path = re.sub(r"\{\w+(:\w+)?\}", "{id}", route.path.removeprefix("/api/v1"))
        served |= {(method, path) for method in route.methods - {"OPTIONS", "HEAD"}}
    assert documented == served


def test_every_reference_of_the_openapi_document_resolves_and_every_field_is_documented() -> None:
    document = json.loads(api_app.document())
    schemas = document["components"]["schemas"]
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert references <= set(schemas)
    assert set(schemas) <= references
    for name, schema in schemas.items():
        for field, shape in schema["properties"].items():
            is_sent_by_clients = name.endswith(("Fields", "Edit"))
            assert "description" in shape or not is_sent_by_clients, f"{name}.{field} has no description"
            documented = f"`{field}`" in INTERFACE or f'"{field}"' in INTERFACE
            assert documented, f"{name}.{field} is not in the interface's page"
    assert "http://" not in json.dumps(document)


# ---- what is documented exists ----


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub makes of a document's headings."""
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), f"{target}: there is no such file"
        assert file.is_dir() or file in FILES, f"{target}: the file is not in the repository"
        assert not anchor or anchor in anchors(file), f"{target}: there is no such heading"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_paths_and_modules_in_documents_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```.*?^```|`[^`\n]+`|^    .+$", text, re.MULTILINE | re.DOTALL))
    assert [path for path in PATH.findall(code) if not (ROOT / path.replace("\\", "/")).exists()] == []
    names = tuple(f"/{file.relative_to(ROOT).as_posix()}" for file in FILES)
    assert [name for name in SCRIPT.findall(code) if not any(path.endswith(f"/{name}") for path in names)] == []
    assert [name for name in MODULE.findall(code) if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []


def test_documents_run_pytest_so_that_it_prints_how_many_passed() -> None:
    """The project's settings have one `-q`; with two, pytest prints no line of counts."""
    assert [str(file) for file in DOCUMENTS if "pytest -q" in file.read_text(encoding="utf-8")] == []


def test_every_slow_test_exists() -> None:
    for name in SLOW:
        path, _, function = name.partition("::")
        file = ROOT / "tests" / path
        assert file.exists(), name
        assert not function or f"def {function.partition('[')[0]}" in file.read_text(encoding="utf-8"), name


def test_every_bench_is_documented() -> None:
    benches = [file for file in (ROOT / "tests/bench").glob("*.py") if "argparse" in file.read_text(encoding="utf-8")]
    page = (ROOT / "tests/README.md").read_text(encoding="utf-8")
    assert [file.stem for file in benches if f"`python -m tests.bench.{file.stem}" not in page] == []


def test_no_file_names_a_document_that_is_not_in_the_repository() -> None:
    names = {document.name for document in DOCUMENTS}
    for file in FILES:
        if file.suffix not in (".md", ".py", ".pyi", ".c", ".toml", ".sql", ".js", ".sh", ".yml", ".yaml", ".spec"):
            continue
        text = file.read_text(encoding="utf-8")
        for name in MENTION.findall(text):
            short = name.rpartition("/")[2]
            assert short in names | ELSEWHERE, f"{file.relative_to(ROOT)} names {name}"
        for folder, heading in CITATION.findall(text):
            cited = [document for document in DOCUMENTS if document.parent.name == folder]
            headings = {anchor for document in cited for anchor in anchors(document)}
            wanted = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            assert wanted in headings, f"{file.relative_to(ROOT)} cites {folder}/README.md, {heading!r}"


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "imgproc_local/api/README.md",
        "packaging/debian/control",
        "packaging/wordpress/imgproc-local/readme.txt",
    ],
)
def test_the_number_of_languages_is_right_where_it_is_stated(name: str) -> None:
    stated = re.findall(r"\b(\d+)\s+languages", (ROOT / name).read_text(encoding="utf-8"))
    numbers = {int(number) for number in stated} - {MAX_LANGUAGES}
    assert numbers == {len(LANGUAGES)}, f"{name} states {stated}"


@pytest.mark.parametrize("name", MAX_LINES)
def test_a_page_for_newcomers_is_short(name: str) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= MAX_LINES[name]


def test_no_address_of_a_package_host_and_no_path_of_a_machine_is_written_down() -> None:
    for file in [*DOCUMENTS, *ROOT.glob("*.lock"), ROOT / "pyproject.toml"]:
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"index.url|https?://[^ )\"]*/(simple|packages)/|/root/|/home/", text), file.name


def test_pre_commit_hooks_need_no_network() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system", hook["id"]
        assert hook["entry"].split()[0] in ("ruff", "python"), hook["id"]


# ---- what messages say about installing an optional part ----


def test_every_extra_has_the_lock_that_messages_name() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra in extras:
        assert f"-r requirements-{extra}.lock`" in how_to_install(extra)
        assert f"imgproc-local[{extra}]" in how_to_install(extra)
        assert (ROOT / f"requirements-{extra}.lock").is_file()


def test_no_message_sends_people_to_the_pip_of_the_system() -> None:
    for file in (ROOT / "imgproc_local").rglob("*.py"):
        assert "pip install 'imgproc-local" not in file.read_text(encoding="utf-8"), file
