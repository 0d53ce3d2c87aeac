"""The files for containers fit the program: what they name exists, and the service starts with their settings.

Nothing is built here, because base images come from a network.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml

from imgproc_local.cli import COMMANDS
from imgproc_local.cli.serve import _require_protection
from imgproc_local.config import load
from tests.support.scripts import PACKAGING, ROOT, script

CONTAINER = PACKAGING / "container"
INSTRUCTIONS = re.sub(r"\\\n|^#.*\n", "", (CONTAINER / "Containerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
COMPOSE = yaml.safe_load((CONTAINER / "compose.yaml").read_text(encoding="utf-8"))


def values(instruction: str) -> list[str]:
    return re.findall(rf"^{instruction} (.*)", INSTRUCTIONS, re.MULTILINE)


def test_the_image_runs_the_program_as_a_user_without_rights_on_a_volume() -> None:
    assert values("USER") == ["65532:65532"]
    (environment,) = values("ENV")
    variables = dict(pair.split("=", 1) for pair in shlex.split(environment))
    config = load({}, {name: value for name, value in variables.items() if name.startswith("IMGPROC_")}).config
    _require_protection(config)  # it listens on all interfaces, and would be refused without trusted networks
    assert (config.host, str(config.port)) == ("0.0.0.0", *values("EXPOSE"))
    assert config.behind_proxy == "10.0.2.0/24,10.88.0.0/15,172.16.0.0/12,192.168.65.0/24"
    (volume,) = values("VOLUME")
    assert config.data_dir.is_relative_to(volume)
    assert Path(variables["XDG_CONFIG_HOME"]).is_relative_to(volume)
    (check,) = values("HEALTHCHECK")
    assert shlex.split(check.partition("CMD ")[2].strip("[]").replace(",", ""))[1] in COMMANDS
    assert values("CMD") == ['["serve", "--no-browser"]']


def test_the_image_is_built_from_the_sources_of_the_program() -> None:
    copied = {name for value in values("COPY") if "--from" not in value for name in value.split()[:-1]}
    assert copied == {*script("build/freeze.py").SOURCES, "build", "requirements-build.lock"}
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_composed_services_are_closed_and_what_they_mount_exists() -> None:
    service = COMPOSE["services"]["imgproc-local"]
    assert (service["read_only"], service["cap_drop"], "ports" in service) == (True, ["ALL"], False)
    load({}, service["environment"] | {"IMGPROC_PUBLIC_URL": "https://img.example.org"})
    trusted = service["environment"]["IMGPROC_BEHIND_PROXY"]
    assert COMPOSE["networks"]["default"]["ipam"]["config"] == [{"subnet": trusted}]
    for name, each in COMPOSE["services"].items():
        assert set(each.get("networks", ())) <= COMPOSE["networks"].keys(), name
        for mount in each["volumes"]:
            source = mount.partition(":")[0]
            assert (CONTAINER / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], mount
    site = (CONTAINER / "Caddyfile").read_text(encoding="utf-8")
    (imported,) = re.findall(r"^import (\S+)$", site, re.MULTILINE)
    assert f"../proxy/Caddyfile:/etc/caddy/{imported}:ro" in COMPOSE["services"]["caddy"]["volumes"]
    variables = re.findall(r"\{\$(\w+)", site + (PACKAGING / "proxy" / "Caddyfile").read_text(encoding="utf-8"))
    assert set(variables) == COMPOSE["services"]["caddy"]["environment"].keys()
