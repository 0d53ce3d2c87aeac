// One button that has every picture described that needs a text, and how far that is.
//
// What is still to be written is known from the pictures alone, so that a reload and a second tab show the same.

import { html } from "./preact.js";
import { counted, duration, number } from "./format.js";
import { preserved, useObservable } from "./observable.js";
import { isOpen } from "./progress.js";
import { allPictures, arrangement, latestText, textsOf } from "./store.js";
import { cancelWriting, regenerateAll } from "./texts.js";

const MEASURED_PICTURES = 5;

/** How long this machine takes for a picture, measured with `model`. Preserved between visits. */
const pace = preserved("imgproc-local.describing", { model: "", pictureMs: null });

/** The seconds that `model` took for a picture when this browser last had many described with it; null if it never had. */
export const secondsPerPicture = (model) => (pace.value.model === model ? pace.value.pictureMs / 1000 : null);

/** The run as this page has seen it: how many pictures were `left` when it began or was first seen, at `beganAt`. */
let run = null;

/** The texts that a model can write: those that need a text, are not being written, and belong to no picture in progress. */
const missingTexts = () => textsOf(allPictures().filter((picture) => picture.needsText && !isOpen(picture)))
  .filter(({ needs_text: needsText, regenerating }) => needsText && !regenerating);

const waitingTexts = () => textsOf(allPictures().filter(({ isWriting }) => isWriting)).filter(({ id, code }) => latestText(id, code)?.regenerating);

const pictureCount = (texts) => new Set(texts.map(({ id }) => id)).size;

/** Follow the run: `left` pictures are still to be described. Returns how many this page has seen described. */
function measure(left, model) {
  if (left === 0) run = null;
  else if (run === null || left > run.left) run = { left, beganAt: performance.now() };
  const described = run === null ? 0 : run.left - left;
  if (described >= MEASURED_PICTURES) {
    const pictureMs = Math.round((performance.now() - run.beganAt) / described);
    if (pace.value.model !== model || Math.abs(pictureMs - pace.value.pictureMs) > 0.1 * pictureMs) queueMicrotask(() => pace.set({ model, pictureMs }));
  }
  return described;
}

/** While a model is in use: the button, or the progress with a button that stops. `describedBy` is that of GET /local/overview. */
export function Describe({ describedBy: { model, problem } }) {
  const { loaded } = useObservable(arrangement);
  useObservable(pace);
  if (!loaded || model === null || problem !== null) return null;
  const waiting = waitingTexts();
  const missing = missingTexts();
  const left = pictureCount(waiting);
  const described = measure(left, model);
  const seconds = secondsPerPicture(model);
  const time = (pictures) => (seconds === null ? ". The first ones show how long it takes" : `, ${duration(pictures * seconds)} on this machine`);
  if (left > 0) {
    return html`
      <div class="describe">
        <progress aria-label="Described pictures" max=${described + left} value=${described}></progress>
        <p class="number">Describing: ${counted(left, "picture")} left${time(left)}.</p>
        <button type="button" class="small" onClick=${() => cancelWriting(waiting)}>Stop</button>
      </div>`;
  }
  const count = pictureCount(missing);
  if (count === 0) return null;
  return html`
    <div class="describe">
      <button type="button" onClick=${() => regenerateAll(missing)}>Describe ${count === 1 ? "the picture that needs" : `${number(count)} pictures that need`} a text</button>
      <span class="hint number">by the model ${model}${time(count)}.</span>
    </div>`;
}
