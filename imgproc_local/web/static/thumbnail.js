// The thumbnail of a picture. It is requested when it has been visible for a moment and the list is not scrolled fast: loading
// thumbnails that only pass by would delay the frames of the scrolling.

import { html, useEffect, useRef, useState } from "./preact.js";
import { fileOf } from "./service.js";

const VISIBLE_MS = 60;
const MAX_SIDE_PX = 512; // the longest side of the service's thumbnails
const FAST_PX_PER_MS = 1.5;
const CALM_AFTER_MS = 100;

let calmAt_ms = 0; // when the list is no longer scrolled fast, unless it is scrolled again
let lastScroll = { top: 0, at_ms: 0 };

/** Record that the list was scrolled to `top`, in pixels. */
export function recordScroll(top) {
  const at_ms = performance.now();
  if (Math.abs(top - lastScroll.top) > FAST_PX_PER_MS * (at_ms - lastScroll.at_ms)) calmAt_ms = at_ms + CALM_AFTER_MS;
  lastScroll = { top, at_ms };
}

/** Resolves after `VISIBLE_MS`, or later when the list is no longer scrolled fast. Throws the error of `signal`. */
async function untilCalm(signal) {
  for (let wait_ms = VISIBLE_MS; wait_ms > 0; wait_ms = calmAt_ms - performance.now()) {
    await new Promise((resolve) => { setTimeout(resolve, wait_ms); });
    signal.throwIfAborted();
  }
}

/**
 * Draw the thumbnail of an image on `canvas`, in the device pixels that it occupies in its box. `aspect` is the width divided by
 * the height. Throws if there is no thumbnail.
 */
async function draw(canvas, { imageId, aspect }, signal) {
  const blob = await fileOf(imageId, "thumbnail", { urgent: false, signal });
  const box = canvas.parentElement.getBoundingClientRect();
  const width = Math.ceil(devicePixelRatio * Math.min(box.width, box.height * aspect));
  const bitmap = await createImageBitmap(blob, { resizeWidth: Math.min(MAX_SIDE_PX, Math.max(1, width)), resizeQuality: "medium" });
  if (!signal.aborted) {
    canvas.width = bitmap.width;
    canvas.height = bitmap.height;
    // willReadFrequently places the canvas in main memory: a GPU layer for each thumbnail would be slow
    canvas.getContext("2d", { willReadFrequently: true }).drawImage(bitmap, 0, 0);
  }
  bitmap.close();
}

/**
 * The thumbnail of a picture, or the extension of its file name if there is none. Assistive technology ignores it: the name of
 * the picture is beside it.
 *
 * It is a canvas of the size that is shown. Browsers hold the decoded pixels of `<img>` elements long after their removal:
 * 400 MB after some 1000 thumbnails.
 */
export function Thumbnail({ picture: { image, name, details } }) {
  const canvas = useRef(null);
  const [state, setState] = useState("waiting");
  useEffect(() => {
    const element = canvas.current;
    const abort = new AbortController();
    const aspect = details.width_px ? details.width_px / details.height_px : 1;
    untilCalm(abort.signal)
      .then(() => draw(element, { imageId: image.id, aspect }, abort.signal))
      .then(() => setState("shown"), () => { if (!abort.signal.aborted) setState("missing"); });
    return () => {
      abort.abort();
      element.width = element.height = 0;
    };
  }, [image.id]);
  return html`
    <span class="thumb" data-state=${state} aria-hidden="true">
      <canvas ref=${canvas} width="0" height="0"></canvas>
      ${state === "missing" && html`<span class="extension">${name.split(".").pop().slice(0, 4).toUpperCase()}</span>`}
    </span>`;
}
