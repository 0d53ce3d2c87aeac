"""llama.cpp is not loaded on a processor on which it would crash."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.llm.bindings import Bindings
from imgproc_local.vision.llm.cpu import REQUIRED, features_from_cpuinfo, features_from_glibc, find_problem
from imgproc_local.vision.llm.selftest import known_problem, require_self_test
from imgproc_local.vision.llm.status import model_status
from imgproc_local.vision.models.store import ModelStore
from tests.support.installed import install

HASWELL = "flags\t\t: fpu sse4_2 avx f16c fma avx2 bmi1 bmi2\n"
NEHALEM = "flags\t\t: fpu sse4_1 sse4_2 popcnt\n"


def unknown() -> None:
    """A source that can't determine the features, as with a C library other than glibc."""


def problem(folder: Path, cpuinfo: str | None, machine: str = "x86_64") -> str | None:
    """The problem of a processor whose features are known only from `cpuinfo`, or unknown if that is None."""
    path = folder / "cpuinfo"
    if cpuinfo is not None:
        path.write_text(cpuinfo)
    return find_problem(machine, (unknown, partial(features_from_cpuinfo, path)))


def test_the_first_source_that_knows_any_features_decides() -> None:
    assert "lacks avx2, fma, f16c, bmi2" in (find_problem("x86_64", (set, lambda: set(REQUIRED))) or "")
    assert find_problem("x86_64", (unknown, lambda: set(REQUIRED), set)) is None


def test_missing_features_in_cpuinfo_are_named(tmp_path: Path) -> None:
    assert "lacks avx2." in (problem(tmp_path, HASWELL.replace(" avx2", "")) or "")


def test_haswell_is_sufficient(tmp_path: Path) -> None:
    assert problem(tmp_path, HASWELL) is None


@pytest.mark.parametrize("cpuinfo", [None, "", "processor: 0\n"])
def test_an_unknown_processor_is_accepted(tmp_path: Path, cpuinfo: str | None) -> None:
    assert problem(tmp_path, cpuinfo) is None


@pytest.mark.parametrize("machine", ["aarch64", "arm64", "ppc64le"])
def test_other_architectures_are_accepted(tmp_path: Path, machine: str) -> None:
    assert problem(tmp_path, NEHALEM, machine) is None


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="only Linux has both to compare")
def test_glibc_and_cpuinfo_agree_about_this_processor() -> None:
    features = features_from_glibc()
    if features is None:
        pytest.skip("this C library does not report features")
    from_kernel = features_from_cpuinfo()
    assert from_kernel is not None
    assert features == from_kernel & set(REQUIRED)


def test_without_avx2_a_model_is_refused_before_llama_cpp_is_loaded(
    models: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("bindings", "selftest", "status"):
        monkeypatch.setattr(f"imgproc_local.vision.llm.{module}.processor_problem", lambda: problem(tmp_path, NEHALEM))
    install(models, "a")
    models.select("a")
    started = tmp_path / "started"
    with pytest.raises(ModelUnusable, match="needs a processor with AVX2"):
        require_self_test(models.model("a"), command=["touch", str(started)])
    with pytest.raises(ModelUnusable, match="needs a processor with AVX2"):
        Bindings()
    assert not started.exists()
    assert known_problem(models.model("a")) is None
    assert "needs a processor with AVX2" in (model_status(models, "", lambda _: None).problem or "")
