"""llama.cpp is kept from processors that would end the process, whoever tells what the processor can do."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.llm import cpu as processor
from imgproc_local.vision.llm.cpu import NEEDED, processor_problem
from imgproc_local.vision.llm.library import Library
from imgproc_local.vision.llm.selftest import known_problem, require_self_test
from imgproc_local.vision.llm.status import model_status
from imgproc_local.vision.models.store import ModelStore
from tests.support.installed import install

HASWELL = "flags\t\t: fpu sse4_2 avx f16c fma avx2 bmi1 bmi2\n"
NEHALEM = "flags\t\t: fpu sse4_1 sse4_2 popcnt\n"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What is known of this processor is asked for anew, here and by the tests after these."""
    processor_problem.cache_clear()
    yield
    processor_problem.cache_clear()


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An x86-64 machine of which only this file, not there yet, tells anything."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "_from_glibc", lambda: None)
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


def test_what_the_c_library_says_goes_before_the_kernels_word(cpuinfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpuinfo.write_text(HASWELL)
    monkeypatch.setattr(processor, "_from_glibc", set)
    assert "lacks avx2, fma, f16c, bmi2" in (processor_problem() or "")


def test_the_kernel_is_asked_where_the_c_library_says_nothing(cpuinfo: Path) -> None:
    cpuinfo.write_text(HASWELL.replace(" avx2", ""))
    assert "lacks avx2." in (processor_problem() or "")


def test_a_haswell_will_do(cpuinfo: Path) -> None:
    cpuinfo.write_text(HASWELL)
    assert processor_problem() is None


@pytest.mark.parametrize("told", [None, "", "processor: 0\n"])
def test_nothing_known_is_nothing_against_it(cpuinfo: Path, told: str | None) -> None:
    if told is not None:
        cpuinfo.write_text(told)
    assert processor_problem() is None


@pytest.mark.parametrize("machine", ["aarch64", "arm64", "ppc64le"])
def test_other_architectures_have_other_flags(cpuinfo: Path, monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    cpuinfo.write_text(NEHALEM)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert processor_problem() is None


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="only Linux has both to compare")
def test_both_say_the_same_of_this_processor() -> None:
    told = processor._from_glibc()
    if told is None:
        pytest.skip("this C library tells nothing of the processor")
    kernel = processor._from_cpuinfo()
    assert kernel is not None
    assert told == kernel & set(NEEDED)


def test_without_avx2_a_model_is_refused_in_words_before_anything_is_loaded(
    cpuinfo: Path, models: ModelStore, tmp_path: Path
) -> None:
    cpuinfo.write_text(NEHALEM)
    install(models, "a")
    models.select("a")
    ran = tmp_path / "ran"
    with pytest.raises(ModelUnusable, match="needs a processor with AVX2"):
        require_self_test(models.model("a"), command=["touch", str(ran)])
    with pytest.raises(ModelUnusable, match="needs a processor with AVX2"):
        Library()
    assert not ran.exists()
    assert known_problem(models.model("a")) is None
    assert "needs a processor with AVX2" in (model_status(models, "").problem or "")
