// Compares the original with a result: both in one place, divided by a movable line, fitted or at 100 %.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { fileOf } from "./service.js";

const LOAD_AFTER_MS = 150; // a picture that is only passed with j or k loads nothing but its thumbnail
const SPLIT_STEP_PERCENT = 2;
const PAN_STEP_PX = 80;

const clamp = (value, minimum, maximum) => Math.min(maximum, Math.max(minimum, value));

/**
 * Load a file of an image, after `delay_ms`. Returns its `status`, and its `url`, `width` and `height` when it is "loaded". It is
 * "missing" if there is no such file (`which` null), or the browser can't show it; and "waiting" also while the service can't be
 * reached.
 */
function useImage(imageId, which, delay_ms = LOAD_AFTER_MS) {
  const [state, setState] = useState({});
  useEffect(() => {
    if (which === null) return undefined;
    const abort = new AbortController();
    const loader = new Image();
    const load = async () => {
      let status = "loaded";
      try {
        const file = await fileOf(imageId, which, { signal: abort.signal });
        await new Promise((resolve, reject) => {
          loader.onload = resolve;
          loader.onerror = reject;
          loader.src = URL.createObjectURL(file);
        });
      } catch {
        status = "missing";
      }
      if (!abort.signal.aborted) setState({ which, status, url: loader.src, width: loader.naturalWidth, height: loader.naturalHeight });
    };
    const timer = setTimeout(load, delay_ms);
    return () => {
      clearTimeout(timer);
      abort.abort();
      URL.revokeObjectURL(loader.src);
      setState({});
    };
  }, [imageId, which]);
  return state.which === which ? state : { status: which === null ? "missing" : "waiting" };
}

/**
 * `variant` is the result that is compared with the original: optimized, converted, or null if there is none yet. For another
 * image, render it with another `key`: the line and the picture begin in the middle again.
 */
export function Compare({ imageId, name, variant, variantLabel, zoomed, onZoom }) {
  const stage = useRef(null);
  const [box, setBox] = useState({ width: 0, height: 0 });
  const [split, setSplit] = useState(0.5);
  const [pan, setPan] = useState({ x: 0.5, y: 0.5 }); // the point of the picture in the middle of the stage
  const preview = useImage(imageId, "thumbnail", 0);
  const before = useImage(imageId, "original");
  const after = useImage(imageId, variant);
  const shown = after.status === "loaded" ? after : before;
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => setBox({ width: contentRect.width, height: contentRect.height }));
    observer.observe(stage.current);
    return () => observer.disconnect();
  }, []);

  // the thumbnail has a frame of 3 to 2 until the size is known
  const natural = { width: shown.width || 3, height: shown.height || 2 };
  const fittedScale = Math.min(box.width / natural.width, box.height / natural.height);
  const fullScale = 1 / devicePixelRatio; // 100 %: one pixel of the picture is one of the screen
  const scale = shown.width === undefined ? fittedScale : zoomed ? fullScale : Math.min(fittedScale, fullScale);
  const size = { width: natural.width * scale, height: natural.height * scale };
  const overflow = { x: Math.max(0, size.width - box.width), y: Math.max(0, size.height - box.height) };
  const offset = (hidden, extent, at) => (hidden > 0 ? -clamp(at * extent - (extent - hidden) / 2, 0, hidden) : null);
  const left = offset(overflow.x, size.width, pan.x) ?? (box.width - size.width) / 2;
  const top = offset(overflow.y, size.height, pan.y) ?? (box.height - size.height) / 2;
  const both = before.status === "loaded" && after.status === "loaded";
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
    if (!zoomed || event.target !== stage.current || !(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    panBy(...steps[event.key].map((step) => step * PAN_STEP_PX));
  };

  return html`
    <div ref=${stage} class=${zoomed ? "compare zoomed" : "compare"} tabindex=${zoomed ? "0" : null} role="group"
      aria-label=${zoomed ? "Comparison at 100 %: arrow keys move the picture" : "Comparison"}
      onPointerDown=${onPointerDown} onDblClick=${onZoom} onKeyDown=${onStageKey}>
      <div class="compare-layer">
        ${shown.status === "waiting" && preview.status === "loaded" && html`<img class="preview-image" src=${preview.url} alt="" style=${placed} draggable=${false} />`}
        ${before.status === "loaded" && html`<img src=${before.url} alt=${`${name}, original`} style=${placed} draggable=${false} />`}
      </div>
      ${after.status === "loaded" && html`
        <div class="compare-layer" style=${{ clipPath: both ? `inset(0 0 0 ${100 * split}%)` : "none" }}>
          <img src=${after.url} alt=${`${name}, ${variantLabel}`} style=${placed} draggable=${false} />
        </div>`}
      ${both && html`
        <input type="range" class="visually-hidden" aria-label="Share of the original" aria-valuetext=${`${Math.round(100 * split)} % original`}
          step=${SPLIT_STEP_PERCENT} value=${100 * split} onInput=${(event) => setSplit(event.target.value / 100)} />
        <div class="compare-handle" style=${{ left: `${100 * split}%` }}></div>
        <span class="compare-label before" aria-hidden="true">Original</span>
        <span class="compare-label after" aria-hidden="true">${variantLabel}</span>`}
      ${before.status === "missing" && after.status === "loaded" && html`<p class="compare-note">This browser can't show the original. This is the result.</p>`}
      ${before.status === "missing" && after.status === "missing" && html`<p class="compare-note">There is no picture that this browser can show.</p>`}
    </div>`;
}
