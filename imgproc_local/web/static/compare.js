// The original and a result, one over the other, with a line between them that can be moved. Fitted or at 100 %.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { fileUrl } from "./files.js";
import { connections, reachable } from "./service.js";

const LOAD_AFTER_MS = 150; // pictures that are only passed with j and k load nothing but their thumbnail
const STEP = 0.02;
const PAN_STEP_PX = 80;

const clamp = (value, minimum, maximum) => Math.min(maximum, Math.max(minimum, value));

/**
 * Load `url` through the page's connections: the address to show or null, "waiting" | "shown" | "missing", and the size.
 * While the service can't be reached, the picture is waiting.
 */
function useImage(url) {
  const [state, setState] = useState({ url: null, how: "waiting" });
  useEffect(() => {
    if (url === null) return undefined;
    const abort = new AbortController();
    const loader = new Image();
    let release = () => {};
    const load = async () => {
      try {
        release = await connections.take({ signal: abort.signal });
      } catch {
        return;
      }
      const ended = async (how) => {
        release();
        if (how === "missing" && !(await reachable())) {
          if (!abort.signal.aborted) await load();
          return;
        }
        if (!abort.signal.aborted) setState({ url, how, width: loader.naturalWidth, height: loader.naturalHeight });
      };
      loader.onload = () => ended("shown");
      loader.onerror = () => ended("missing");
      loader.src = url;
    };
    const timer = setTimeout(load, LOAD_AFTER_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
      loader.onload = loader.onerror = null;
      loader.src = "";
      release();
    };
  }, [url]);
  return state.url === url ? state : { url: null, how: url === null ? "missing" : "waiting" };
}

/** `variant` is the result that is compared with the original: optimized, converted, or null if there is none yet. */
export function Compare({ imageId, name, variant, variantLabel, zoomed, onZoom }) {
  const stage = useRef(null);
  const [box, setBox] = useState({ width: 0, height: 0 });
  const [split, setSplit] = useState(0.5);
  const [pan, setPan] = useState({ x: 0.5, y: 0.5 }); // the point of the picture in the middle of the stage
  const before = useImage(fileUrl(imageId, "original"));
  const after = useImage(variant === null ? null : fileUrl(imageId, variant));
  const shown = after.how === "shown" ? after : before;
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => setBox({ width: contentRect.width, height: contentRect.height }));
    observer.observe(stage.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => setPan({ x: 0.5, y: 0.5 }), [imageId]);

  const natural = { width: shown.width || 3, height: shown.height || 2 };
  const fitted = Math.min(box.width / natural.width, box.height / natural.height);
  const full = 1 / devicePixelRatio;
  const scale = shown.width === undefined ? fitted : zoomed ? full : Math.min(fitted, full);
  const size = { width: natural.width * scale, height: natural.height * scale };
  const room = { x: Math.max(0, size.width - box.width), y: Math.max(0, size.height - box.height) };
  const offset = (space, extent, at) => (space > 0 ? -clamp(at * extent - (extent - space) / 2, 0, space) : null);
  const left = offset(room.x, size.width, pan.x) ?? (box.width - size.width) / 2;
  const top = offset(room.y, size.height, pan.y) ?? (box.height - size.height) / 2;
  const both = before.how === "shown" && after.how === "shown";
  const placed = { left: `${left}px`, top: `${top}px`, width: `${size.width}px`, height: `${size.height}px` };

  const moveSplit = (clientX) => {
    const { left: start, width } = stage.current.getBoundingClientRect();
    setSplit(clamp((clientX - start) / width, 0, 1));
  };
  const panBy = (x, y) => setPan((old) => ({
    x: clamp(old.x + x / size.width, box.width / 2 / size.width, 1 - box.width / 2 / size.width),
    y: clamp(old.y + y / size.height, box.height / 2 / size.height, 1 - box.height / 2 / size.height),
  }));
  const onPointerDown = (event) => {
    if (event.button !== 0) return;
    const panning = zoomed && event.target.closest(".compare-handle") === null;
    if (!panning && !both) return;
    let last = { x: event.clientX, y: event.clientY };
    stage.current.setPointerCapture(event.pointerId);
    const onMove = (moved) => {
      if (panning) panBy(last.x - moved.clientX, last.y - moved.clientY);
      else moveSplit(moved.clientX);
      last = { x: moved.clientX, y: moved.clientY };
    };
    const onEnd = () => {
      stage.current?.removeEventListener("pointermove", onMove);
      stage.current?.removeEventListener("pointerup", onEnd);
      stage.current?.removeEventListener("pointercancel", onEnd);
    };
    stage.current.addEventListener("pointermove", onMove);
    stage.current.addEventListener("pointerup", onEnd);
    stage.current.addEventListener("pointercancel", onEnd);
    if (!panning) moveSplit(event.clientX);
  };
  const onStageKey = (event) => {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!zoomed || !(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    panBy(...steps[event.key].map((step) => step * PAN_STEP_PX));
  };
  const onHandleKey = (event) => {
    const steps = { ArrowLeft: -STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowUp: STEP, PageDown: -0.1, PageUp: 0.1, Home: -1, End: 1 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    setSplit((old) => clamp(old + steps[event.key], 0, 1));
  };

  return html`
    <div ref=${stage} class=${zoomed ? "compare zoomed" : "compare"} tabindex=${zoomed ? "0" : null} role="group"
      aria-label=${zoomed ? "Comparison at 100 %: arrow keys move the picture" : "Comparison"}
      onPointerDown=${onPointerDown} onDblClick=${onZoom} onKeyDown=${onStageKey}>
      <div class="compare-layer">
        ${shown.how === "waiting" && html`<img class="preview-image" src=${fileUrl(imageId, "thumbnail")} alt="" style=${placed} draggable=${false} />`}
        ${before.how === "shown" && html`<img src=${before.url} alt=${`${name}, original`} style=${placed} draggable=${false} />`}
      </div>
      ${after.how === "shown" && html`
        <div class="compare-layer" style=${{ clipPath: both ? `inset(0 0 0 ${100 * split}%)` : "none" }}>
          <img src=${after.url} alt=${`${name}, ${variantLabel}`} style=${placed} draggable=${false} />
        </div>`}
      ${both && html`
        <div class="compare-handle" role="slider" tabindex="0" aria-label="Share of the original" aria-valuemin="0" aria-valuemax="100"
          aria-valuenow=${Math.round(100 * split)} aria-valuetext=${`${Math.round(100 * split)} % original`}
          style=${{ left: `${100 * split}%` }} onKeyDown=${onHandleKey}></div>
        <span class="compare-label before" aria-hidden="true">Original</span>
        <span class="compare-label after" aria-hidden="true">${variantLabel}</span>`}
      ${before.how === "missing" && variant !== null && after.how === "shown" && html`<p class="compare-note">This browser can't show the original. This is the result.</p>`}
      ${before.how === "missing" && after.how === "missing" && html`<p class="compare-note">There is no picture that this browser can show.</p>`}
    </div>`;
}
