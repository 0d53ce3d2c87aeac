"""The totals in the bar: the progress of a run, the time left, and what all pictures have saved."""

from __future__ import annotations

from typing import Any

from tests.browser.conftest import OpenTab, Tab
from tests.support import finished, pictures
from tests.support.service import GatedDescriber, Running

MEASURE = """async (times) => {
  const { Progress } = await import("/static/progress.js");
  let progress = new Progress();
  return times.map(({ at_s, sizes, finished, isReloaded }) => {
    if (isReloaded) progress = new Progress();
    const pictures = sizes.map((megapixels, place) => {
      const result = place < finished ? 1 : null;
      return {
        id: String(place).padStart(4, "0"), state: result ? "done" : "running", createdAt: 0, size: 1, saved: 0,
        details: { operation: "optimize", width_px: 1000, height_px: megapixels * 1000, format: "jpeg" },
        image: { translations: [], optimized_size: result, converted_size: null },
      };
    });
    return progress.measure(pictures, 0, 1000 * at_s).secondsLeft;
  });
}"""


def seconds_left(tab: Tab, *times: dict[str, Any]) -> list[float | None]:
    """The estimates at moments of a run: `at_s`, the `sizes` of its pictures, and how many of these are finished."""
    estimates: list[float | None] = tab.page.evaluate(MEASURE, list(times))
    return estimates


def test_the_time_left_counts_pixels_and_a_reload_remembers_the_speed(
    empty_service: Running, open_tab: OpenTab
) -> None:
    sizes = [10] * 10 + [1] * 30  # 100 s of large pictures, at 1 s for a million pixels, and 30 s of small ones
    run = [{"at_s": at_s, "sizes": sizes, "finished": at_s // 10} for at_s in range(0, 61, 2)]
    estimates = seconds_left(
        open_tab(empty_service),
        *run,
        {"at_s": 62, "sizes": sizes, "finished": 6, "isReloaded": True},
        {"at_s": 90, "sizes": sizes, "finished": 6},
        {"at_s": 130, "sizes": sizes, "finished": 6},
    )
    assert estimates[0] is None
    for estimate in (estimates[len(run) - 1], estimates[len(run)]):
        assert estimate is not None
        assert 0.7 * 70 < estimate < 1.3 * 70
    assert estimates[-1] is None, "nothing has moved for a minute"


def test_totals_of_all_pictures_remain_while_one_more_is_processed(
    gated: Running, describer: GatedDescriber, open_tab: OpenTab
) -> None:
    original, smaller = pictures.jpeg(96, 64), finished.Result(b"x" * 100, finished.Format.JPEG)
    for number in range(3):
        gated.run(finished.add_job(gated.services, original, name=f"{number}.jpg", optimized=smaller))
    tab = open_tab(gated)
    tab.wait("document.querySelector('.totals')?.textContent.includes('3 pictures')")
    saved = tab.text(".totals .saved")
    assert saved.endswith("% saved")
    describer.open.clear()
    gated.dispatch("analyze", pictures.jpeg(64, 48), "one-more.jpg")
    tab.wait("document.querySelector('.totals').textContent.includes('0 of 1')")
    assert tab.text(".totals .saved") == saved
    assert tab.page.get_by_role("progressbar", name="Finished pictures").count() == 1
    describer.open.set()
    tab.wait("document.querySelector('.totals').textContent.includes('4 pictures')")
    assert tab.page.get_by_role("progressbar").count() == 0, "the line leaves when the run is over"
