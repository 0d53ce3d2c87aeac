// How much of the current run is done, and how long the rest takes.

const WINDOW_MS = 60_000; // speeds are averages over this time,
const MIN_STEPS = 6; // or over this many steps where they take longer
const MIN_MEASURED_MS = 3000;
const SETTLE_MS = 10_000; // time constant of the smoothed estimate: after it, 63 % of a change is in it
const GAP_MS = 10 * 60_000; // uploads that are further apart belong to different runs

/** Whether a stage of an image is done, by stage. */
const IS_DONE = {
  optimize: ({ optimized_size: size }) => size !== null,
  convert: ({ converted_size: size }) => size !== null,
  analyze: ({ translations }) => translations.length > 0,
};

/** The stages that an operation has. */
const stagesOf = (operation) => (operation in IS_DONE ? [operation] : Object.keys(IS_DONE));

/** Measures the speed of one stage. */
class Speed {
  #left = 0;
  #steps; // { at, count }: how many pictures were finished, and when; the first entry is the beginning

  constructor(at) {
    this.#steps = [{ at, count: 0 }];
  }

  /** Record that `left` pictures are left for this stage. Uploads increase what is left: only a decrease counts as work. */
  record(at, left) {
    if (left < this.#left) this.#steps.push({ at, count: this.#left - left });
    this.#left = left;
    while (this.#steps.length > MIN_STEPS && at - this.#steps[1].at > WINDOW_MS) this.#steps.shift();
  }

  /** The milliseconds that the rest takes from `at` on; Infinity before anything is finished. */
  msLeft(at) {
    if (this.#left === 0) return 0;
    const first = this.#steps[0];
    const last = this.#steps.at(-1);
    const count = this.#steps.slice(1).reduce((sum, step) => sum + step.count, 0);
    const each = (last.at - first.at) / count;
    // the picture in progress was begun when the one before it was finished
    return count === 0 ? Infinity : this.#left * each - Math.min(each, at - last.at);
  }
}

/**
 * Measures the current run. It begins when there is work again after a pause, with the first picture that is not finished. A run
 * that was going on when the page was loaded begins with the first of its uploads.
 */
export class Progress {
  #first = null; // the identifier of the first picture of the run
  #open = 0;
  #beganAt = 0;
  #speeds = {}; // by stage
  #end = null; // { at, estimatedAt } of the end that was estimated last

  /**
   * Measure now. Returns the totals of the run among `pictures` and `unsent` files: `total`, `finished`, `failed` and `open`
   * pictures, `originalBytes` and `savedBytes` of those that have results, and `secondsLeft`, null while it can't be estimated.
   */
  measure(pictures, unsent) {
    const open = pictures.filter(({ state }) => state === "waiting" || state === "running");
    if (open.length > 0 && this.#open === 0) this.#begin(pictures, open);
    this.#open = open.length;
    const run = this.#first === null ? [] : pictures.filter(({ id }) => id >= this.#first);
    return {
      total: run.length + unsent,
      finished: run.length - open.length,
      open: open.length + unsent,
      failed: run.filter(({ state }) => state === "failed").length,
      ...savings(run),
      secondsLeft: open.length === 0 ? null : this.#secondsLeft(open, unsent),
    };
  }

  #begin(pictures, open) {
    const sorted = [...pictures].sort((a, b) => (a.id < b.id ? -1 : 1));
    let first = sorted.indexOf(open.reduce((a, b) => (a.id < b.id ? a : b)));
    if (this.#first === null) {
      while (first > 0 && sorted[first].createdAt - sorted[first - 1].createdAt < GAP_MS) first -= 1;
    }
    this.#first = sorted[first].id;
    this.#beganAt = performance.now();
    this.#speeds = Object.fromEntries(Object.keys(IS_DONE).map((stage) => [stage, new Speed(this.#beganAt)]));
    this.#end = null;
  }

  /** The time that the slowest stage needs for the pictures that it has left: stages run concurrently. Smoothed. */
  #secondsLeft(open, unsent) {
    const left = Object.fromEntries(Object.keys(IS_DONE).map((stage) => [stage, 0]));
    for (const { image, details } of open) {
      for (const stage of stagesOf(details.operation)) if (!IS_DONE[stage](image)) left[stage] += 1;
    }
    const at = performance.now();
    for (const [stage, speed] of Object.entries(this.#speeds)) speed.record(at, left[stage] + unsent);
    const longest = Math.max(...Object.values(this.#speeds).map((speed) => speed.msLeft(at)));
    if (at - this.#beganAt < MIN_MEASURED_MS || !Number.isFinite(longest)) return null;
    const share = this.#end === null ? 1 : 1 - Math.exp((this.#end.estimatedAt - at) / SETTLE_MS);
    const before = this.#end?.at ?? 0;
    this.#end = { at: before + share * (at + longest - before), estimatedAt: at };
    return Math.max(0, this.#end.at - at) / 1000;
  }
}

/** The bytes of the originals that have a result, and how many bytes the smallest results save. */
export function savings(pictures) {
  let originalBytes = 0;
  let savedBytes = 0;
  for (const { image, size, saved } of pictures) {
    if (image.optimized_size === null && image.converted_size === null) continue;
    originalBytes += size;
    savedBytes += saved;
  }
  return { originalBytes, savedBytes };
}
