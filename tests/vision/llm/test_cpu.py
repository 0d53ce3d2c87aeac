"""llama.cpp is not loaded on processors that it would crash on, whatever reports their features."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.llm import cpu
from imgproc_local.vision.llm.bindings import Bindings
from imgproc_local.vision.llm.cpu import REQUIRED, processor_problem
from imgproc_local.vision.llm.selftest import known_problem, require_self_test
from imgproc_local.vision.llm.status import model_status
from imgproc_local.vision.models.store import ModelStore
from tests.support.installed import install

HASWELL = "flags\t\t: fpu sse4_2 avx f16c fma avx2 bmi1 bmi2\n"
NEHALEM = "flags\t\t: fpu sse4_1 sse4_2 popcnt\n"


@pytest.fixture(autouse=True)
def uncached() -> Iterator[None]:
    """Clears the cache of `processor_problem` before and after each test."""
    processor_problem.cache_clear()
    yield
    processor_problem.cache_clear()


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An x86-64 machine whose features are only in this file, which does not exist yet."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(cpu, "_features_from_glibc", lambda: None)
    monkeypatch.setattr(cpu, "CPUINFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


def test_glibc_takes_precedence_over_cpuinfo(cpuinfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpuinfo.write_text(HASWELL)
    monkeypatch.setattr(cpu, "_features_from_glibc", set)
    assert "lacks avx2, fma, f16c, bmi2" in (processor_problem() or "")


def test_without_glibc_cpuinfo_is_read(cpuinfo: Path) -> None:
    cpuinfo.write_text(HASWELL.replace(" avx2", ""))
    assert "lacks avx2." in (processor_problem() or "")


def test_haswell_is_sufficient(cpuinfo: Path) -> None:
    cpuinfo.write_text(HASWELL)
    assert processor_problem() is None


@pytest.mark.parametrize("content", [None, "", "processor: 0\n"])
def test_an_unknown_processor_is_accepted(cpuinfo: Path, content: str | None) -> None:
    if content is not None:
        cpuinfo.write_text(content)
    assert processor_problem() is None


@pytest.mark.parametrize("machine", ["aarch64", "arm64", "ppc64le"])
def test_other_architectures_are_accepted(cpuinfo: Path, monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    cpuinfo.write_text(NEHALEM)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert processor_problem() is None


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="only Linux has both to compare")
def test_glibc_and_cpuinfo_agree_about_this_processor() -> None:
    features = cpu._features_from_glibc()
    if features is None:
        pytest.skip("this C library does not report features")
    kernel = cpu._features_from_cpuinfo()
    assert kernel is not None
    assert features == kernel & set(REQUIRED)


def test_without_avx2_a_model_is_refused_before_llama_cpp_is_loaded(
    cpuinfo: Path, models: ModelStore, tmp_path: Path
) -> None:
    cpuinfo.write_text(NEHALEM)
    install(models, "a")
    models.select("a")
    ran = tmp_path / "ran"
    with pytest.raises(ModelUnusable, match="needs a processor with AVX2"):
        require_self_test(models.model("a"), command=["touch", str(ran)])
    with pytest.raises(ModelUnusable, match="needs a processor with AVX2"):
        Bindings()
    assert not ran.exists()
    assert known_problem(models.model("a")) is None
    assert "needs a processor with AVX2" in (model_status(models, "").problem or "")
