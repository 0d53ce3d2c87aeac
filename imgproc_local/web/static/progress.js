// How much of the current run is done, and how long the rest takes.

import { preserved } from "./observable.js";

const GAP_MS = 10 * 60_000; // uploads that are further apart belong to different runs
const MIN_MEASURED_MS = 15_000;
const SAMPLE_EVERY_MS = 2000;
const WINDOW_MS = 3 * 60_000; // the speed is that of the last minutes
const STALLED_MS = 60_000; // where nothing was done for so long, no time is estimated
const REMEMBERED_S = 20; // the speed of the last run counts as so many seconds of this one
// a recorded run of 71 pictures: with these, the estimate is within 30 % from the second minute on
const FIXED_WORK = 0.2; // of a file of any size, in the work of a million pixels
const PNG_FACTOR = 2;

/** The speed of the latest run in work per second, by lane. */
const speeds = preserved("imgproc-local.speeds", { texts: null, files: null });

/** Whether a picture waits or is processed. */
export const isOpen = ({ state }) => state === "waiting" || state === "running";

/**
 * Measures the current run. It begins when there is work again after a pause, be it files that are still to be sent: with the
 * first picture that is not finished, or the next to come. A run that was going on when the page was loaded begins with the first
 * of its uploads.
 */
export class Progress {
  #before = null; // the identifier of the picture before the first of the run, "" if there is none
  #left = 0; // how many pictures were not finished at the last measurement, or not sent
  #isLoaded = false; // whether pictures were measured before
  #samples = []; // { at, texts, files }: the work that was done, oldest first
  #movedAt = 0;
  #remembered = speeds.value;

  /**
   * Measure at the time `now`, in milliseconds. Returns of the run among `pictures` and `unsent` files the `total`, `finished` and
   * `open` pictures, and `secondsLeft`, null while it can't be estimated; of all pictures, how many have `failed`, and the
   * `originalBytes` and `savedBytes` of those that have results.
   */
  measure(pictures, unsent, now = performance.now()) {
    const open = pictures.filter(isOpen).length;
    const left = open + unsent;
    if (left > 0 && this.#left === 0) this.#begin(pictures, now);
    this.#left = left;
    this.#isLoaded ||= pictures.length > 0;
    const run = this.#before === null ? [] : pictures.filter(({ id }) => id > this.#before);
    return {
      total: run.length + unsent,
      finished: run.length - open,
      open: left,
      failed: pictures.filter(({ state }) => state === "failed").length,
      ...savings(pictures),
      secondsLeft: open === 0 ? null : this.#secondsLeft(run, unsent, now),
    };
  }

  #begin(pictures, now) {
    const sorted = [...pictures].sort((a, b) => (a.id < b.id ? -1 : 1));
    let first = sorted.findIndex(isOpen);
    if (first === -1) first = sorted.length;
    else if (!this.#isLoaded) {
      while (first > 0 && sorted[first].createdAt - sorted[first - 1].createdAt < GAP_MS) first -= 1;
    }
    this.#before = sorted[first - 1]?.id ?? "";
    this.#samples = [];
    this.#movedAt = now;
    this.#remembered = speeds.value;
  }

  /** The lanes work at the same time: the longer of their times. */
  #secondsLeft(run, unsent, now) {
    const { done, left } = workOf(run, unsent);
    const last = this.#samples.at(-1);
    if (last && (done.texts < last.texts || done.files < last.files)) this.#samples = [{ at: now, ...done }]; // pictures were deleted
    if (last && (done.texts > last.texts || done.files > last.files)) this.#movedAt = now;
    if (!last || now - last.at >= SAMPLE_EVERY_MS) this.#samples.push({ at: now, ...done });
    while (now - this.#samples[0].at > WINDOW_MS) this.#samples.shift();
    const [from] = this.#samples;
    const seconds = (now - from.at) / 1000;
    const times = Object.keys(left).filter((lane) => left[lane] > 0).map((lane) => {
      const known = this.#remembered[lane] ? REMEMBERED_S : 0;
      const speed = (done[lane] - from[lane] + known * this.#remembered[lane]) / (seconds + known);
      if (seconds > REMEMBERED_S && speed > 0 && now === this.#samples.at(-1).at) speeds.set({ ...speeds.value, [lane]: speed });
      return speed > 0 && (known > 0 || now - from.at >= MIN_MEASURED_MS) ? left[lane] / speed : null;
    });
    return times.includes(null) || now - this.#movedAt > STALLED_MS ? null : Math.max(...times);
  }
}

/** The work that is `done` and `left` in each lane: texts count alike, files by their pixels. Files to come are like those of the run. */
function workOf(run, unsent) {
  const done = { texts: 0, files: 0 };
  const left = { texts: 0, files: 0 };
  for (const picture of run) {
    const { details, image } = picture;
    const pixels = (details.width_px * details.height_px) / 1_000_000;
    const fileWork = FIXED_WORK + pixels * (details.format === "png" ? PNG_FACTOR : 1);
    const steps = {
      analyze: ["texts", 1, image.translations.length > 0],
      optimize: ["files", fileWork, image.optimized_size !== null],
      convert: ["files", fileWork, image.converted_size !== null],
    };
    for (const [stage, [lane, work, isDone]] of Object.entries(steps)) {
      if (details.operation === stage || details.operation === "process") (isDone || !isOpen(picture) ? done : left)[lane] += work;
    }
  }
  for (const lane of Object.keys(left)) left[lane] += (unsent * (done[lane] + left[lane])) / run.length;
  return { done, left };
}

/** The bytes of the originals that have a result, and how many bytes the smallest results save. */
function savings(pictures) {
  const done = pictures.filter(({ image }) => image.optimized_size !== null || image.converted_size !== null);
  return {
    originalBytes: done.reduce((sum, { size }) => sum + size, 0),
    savedBytes: done.reduce((sum, { saved }) => sum + saved, 0),
  };
}
