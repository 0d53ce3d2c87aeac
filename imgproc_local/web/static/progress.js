// How much of the current run is done, and how long the rest takes.

const WINDOW_MS = 60_000; // speeds are averages over this time
const MIN_MEASURED_MS = 3000;
const GAP_MS = 10 * 60_000; // uploads that are further apart belong to different runs

const STAGES = {
  optimize: ({ optimized_size: size }) => size !== null,
  convert: ({ converted_size: size }) => size !== null,
  analyze: ({ translations }) => translations.length > 0,
};

/** The stages that an operation has. */
const stagesOf = (operation) => (operation in STAGES ? [operation] : Object.keys(STAGES));

/**
 * Measures the current run: the pictures from the first one that was not finished when work began. A run that was going on
 * when the page was loaded begins with the first of its uploads.
 */
export class Progress {
  #first = null; // the identifier of the first picture of the run
  #open = 0;
  #samples = []; // { at, left } with the number of stages that are left, by stage

  /**
   * The totals of the run among `pictures`: `total`, `finished`, `failed` and `open` pictures, `originalBytes` and `savedBytes`
   * of those that have results, and `secondsLeft`, null while it can't be estimated.
   */
  state(pictures) {
    const open = pictures.filter(({ state }) => state === "waiting" || state === "running");
    if (open.length > 0 && this.#open === 0) this.#begin(pictures, open);
    this.#open = open.length;
    const run = this.#first === null ? [] : pictures.filter(({ id }) => id >= this.#first);
    return {
      total: run.length,
      finished: run.length - open.length,
      open: open.length,
      failed: run.filter(({ state }) => state === "failed").length,
      ...savings(run),
      secondsLeft: this.#secondsLeft(open),
    };
  }

  #begin(pictures, open) {
    const sorted = [...pictures].sort((a, b) => (a.id < b.id ? -1 : 1));
    let first = sorted.indexOf(open.reduce((a, b) => (a.id < b.id ? a : b)));
    if (this.#first === null) {
      while (first > 0 && sorted[first].createdAt - sorted[first - 1].createdAt < GAP_MS) first -= 1;
    }
    this.#first = sorted[first].id;
    this.#samples = [];
  }

  /** The time that the slowest stage needs for what is left of it. The stages run concurrently. */
  #secondsLeft(open) {
    if (open.length === 0) return null;
    const left = { optimize: 0, convert: 0, analyze: 0 };
    for (const { image, details } of open) {
      for (const stage of stagesOf(details.operation)) if (!STAGES[stage](image)) left[stage] += 1;
    }
    const at = performance.now();
    this.#samples.push({ at, left });
    while (at - this.#samples[0].at > WINDOW_MS) this.#samples.shift();
    // uploads add to what is left: only a decrease counts as work
    const done = { optimize: 0, convert: 0, analyze: 0 };
    for (let place = 1; place < this.#samples.length; place += 1) {
      for (const stage of Object.keys(done)) {
        done[stage] += Math.max(0, this.#samples[place - 1].left[stage] - this.#samples[place].left[stage]);
      }
    }
    const measured = at - this.#samples[0].at;
    if (measured < MIN_MEASURED_MS) return null;
    const seconds = Object.keys(left).filter((stage) => left[stage] > 0).map((stage) => (left[stage] * measured) / 1000 / done[stage]);
    const longest = Math.max(0, ...seconds);
    return Number.isFinite(longest) ? longest : null;
  }
}

/** The bytes of the originals that have a result, and how many of them the smallest results save. */
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
