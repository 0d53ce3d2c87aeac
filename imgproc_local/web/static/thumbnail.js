// The thumbnail of a picture. It is requested when it has been visible for a moment and the list is not scrolled fast: nobody
// sees what passes, and loading and drawing it would take the time in which frames are drawn.

import { html, useEffect, useRef, useState } from "./preact.js";
import { fileUrl } from "./files.js";
import { connections } from "./service.js";

const VISIBLE_MS = 60;
const FAST_PX_PER_MS = 1.5;
const CALM_AFTER_MS = 100;

let calmAt_ms = 0; // when the list is no longer scrolled fast, unless it is scrolled again
let last = { top: 0, at_ms: 0 };

/** Record that the list was scrolled to `top`, in pixels. */
export function recordScroll(top) {
  const at_ms = performance.now();
  if (Math.abs(top - last.top) > FAST_PX_PER_MS * (at_ms - last.at_ms)) calmAt_ms = at_ms + CALM_AFTER_MS;
  last = { top, at_ms };
}

/** Resolves when the list is not scrolled fast. Throws the error of `signal`. */
async function calm(signal) {
  for (let wait_ms = VISIBLE_MS; wait_ms > 0; wait_ms = calmAt_ms - performance.now()) {
    await new Promise((resolve) => { setTimeout(resolve, wait_ms); });
    signal.throwIfAborted();
  }
}

/** The thumbnail of an image, or the extension of its name where there is none (yet). It is decoration for what names it. */
export function Thumbnail({ imageId, name }) {
  const frame = useRef(null);
  const [state, setState] = useState("waiting");
  useEffect(() => {
    const image = frame.current;
    const abort = new AbortController();
    let release = () => {};
    const ended = (how) => {
      release();
      setState(how);
    };
    const load = async () => {
      await calm(abort.signal);
      release = await connections.take({ urgent: false, signal: abort.signal });
      if (abort.signal.aborted) {
        release();
        return;
      }
      image.onload = () => ended("shown");
      image.onerror = () => ended("missing");
      image.src = fileUrl(imageId, "thumbnail");
    };
    load().catch((error) => { if (error !== abort.signal.reason) throw error; });
    return () => {
      abort.abort();
      image.onload = image.onerror = null;
      image.removeAttribute("src");
      release();
    };
  }, [imageId]);
  return html`
    <span class="thumb" data-state=${state} aria-hidden="true">
      <img ref=${frame} alt="" decoding="async" draggable=${false} />
      ${state === "missing" && html`<span class="extension">${name.split(".").pop().slice(0, 4).toUpperCase()}</span>`}
    </span>`;
}
