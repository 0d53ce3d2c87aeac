// The thumbnail of a picture. It is requested when it has been visible for a moment, so that fast scrolling loads nothing.

import { html, useEffect, useRef, useState } from "./preact.js";
import { fileUrl } from "./files.js";
import { connections } from "./service.js";

const VISIBLE_MS = 60;

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
    const timer = setTimeout(async () => {
      try {
        release = await connections.take({ urgent: false, signal: abort.signal });
      } catch {
        return;
      }
      if (abort.signal.aborted) {
        release();
        return;
      }
      image.onload = () => ended("shown");
      image.onerror = () => ended("missing");
      image.src = fileUrl(imageId, "thumbnail");
    }, VISIBLE_MS);
    return () => {
      clearTimeout(timer);
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
