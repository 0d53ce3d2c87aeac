"""The analyze stage: what it returns besides the describer's texts, in a worker process as in the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from imgproc_local.domain.plan import Role
from imgproc_local.domain.result import SuggestedRole, TextSource, Translation
from imgproc_local.engine.analyze import Analyzer
from imgproc_local.engine.stage import Output
from tests.support.service import GatedDescriber
from tests.support.worker_pool import work_item, worker_pool


class Recorder(GatedDescriber):
    """A describer that notes the hints that it received."""

    def __init__(self) -> None:
        super().__init__()
        self.hints: Any = None

    def describe(self, image: Any, languages: Any, hints: Any, check_stop: Any) -> tuple[Translation, ...]:
        self.hints = hints
        return super().describe(image, languages, hints, check_stop)


class Analyzed:
    """Runs the stage on a picture for a role. `describer` records what it was asked."""

    def __init__(self, analyzer: Analyzer, describer: Recorder, folder: Path) -> None:
        self._analyzer = analyzer
        self.describer = describer
        self._folder = folder

    def run(self, role: Role, name: str = "harbour-crane-hamburg.jpg") -> Output:
        work = work_item(self._folder)
        plan = replace(work.plan, role=role, languages=("en", "de"))
        return self._analyzer.run(replace(work, plan=plan, original_filename=name), lambda: None)


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyzed]:
    folder, describer = tmp_path_factory.mktemp("analyze"), Recorder()
    with worker_pool(folder) as workers:
        make_describer: Any = lambda: describer  # noqa: E731
        analyzer = Analyzer(workers, make_describer)
        yield Analyzed(analyzer, describer, folder)
        analyzer.close()


def test_a_decorative_picture_has_an_empty_alt_text_and_a_file_name_and_no_model_sees_it(analyzed: Analyzed) -> None:
    described = analyzed.describer.described
    english, german = analyzed.run(Role.DECORATIVE).texts
    assert analyzed.describer.described == described
    for text in (english, german):
        assert (text.seo_alt_text, text.needs_text, text.source) == ("", False, TextSource.PERSON)
        assert text.seo_filename.startswith("harbour-crane-hamburg")
        assert not text.belongs_in_files


@pytest.mark.parametrize("role", [Role.INFORMATIVE, Role.LINK, Role.BUTTON])
def test_the_describer_knows_the_role_of_other_pictures(analyzed: Analyzed, role: Role) -> None:
    output = analyzed.run(role)
    assert output.texts[0].seo_alt_text == "Text in en."
    assert analyzed.describer.hints.role is role
    assert output.suggestion is not None
    assert output.suggestion.role is SuggestedRole.INFORMATIVE
