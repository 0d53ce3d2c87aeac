// How much of the current run is done, and how long the rest takes.

const MIN_MEASURED_MS = 3000;
const GAP_MS = 10 * 60_000; // uploads that are further apart belong to different runs

/** Whether a picture waits or is processed. */
export const isOpen = ({ state }) => state === "waiting" || state === "running";

/**
 * Measures the current run. It begins when there is work again after a pause, be it files that are still to be sent: with the
 * first picture that is not finished, or the next to come. A run that was going on when the page was loaded begins with the first
 * of its uploads.
 */
export class Progress {
  #before = null; // the identifier of the picture before the first of the run, "" if there is none
  #left = 0; // how many pictures were not finished at the last measurement, or not sent,
  #finished = 0; // and how many were finished
  #finishedBefore = 0; // of these, those that were when the run began
  #beganAt = 0;

  /**
   * Measure now. Returns the totals of the run among `pictures` and `unsent` files: `total`, `finished`, `failed` and `open`
   * pictures, `originalBytes` and `savedBytes` of those that have results, and `secondsLeft`, null while it can't be estimated.
   */
  measure(pictures, unsent) {
    const open = pictures.filter(isOpen);
    const left = open.length + unsent;
    const isNew = left > 0 && this.#left === 0;
    if (isNew) this.#begin(pictures);
    const run = this.#before === null ? [] : pictures.filter(({ id }) => id > this.#before);
    const finished = run.length - open.length;
    if (isNew) this.#finishedBefore = finished;
    this.#left = left;
    this.#finished = finished;
    return {
      total: run.length + unsent,
      finished,
      open: left,
      failed: run.filter(({ state }) => state === "failed").length,
      ...savings(run),
      secondsLeft: open.length === 0 ? null : this.#secondsLeft(left),
    };
  }

  #begin(pictures) {
    const sorted = [...pictures].sort((a, b) => (a.id < b.id ? -1 : 1));
    let first = sorted.findIndex(isOpen);
    if (first === -1) first = sorted.length;
    else if (this.#before === null) {
      while (first > 0 && sorted[first].createdAt - sorted[first - 1].createdAt < GAP_MS) first -= 1;
    }
    this.#before = sorted[first - 1]?.id ?? "";
    this.#beganAt = performance.now();
  }

  /** The time that the `left` pictures take. */
  #secondsLeft(left) {
    const measured = performance.now() - this.#beganAt;
    const count = this.#finished - this.#finishedBefore;
    return count <= 0 || measured < MIN_MEASURED_MS ? null : (left * measured) / count / 1000;
  }
}

/** The bytes of the originals that have a result, and how many bytes the smallest results save. */
function savings(pictures) {
  const done = pictures.filter(({ image }) => image.optimized_size !== null || image.converted_size !== null);
  return {
    originalBytes: done.reduce((sum, { size }) => sum + size, 0),
    savedBytes: done.reduce((sum, { saved }) => sum + saved, 0),
  };
}
