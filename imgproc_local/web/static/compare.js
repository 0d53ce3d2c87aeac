// Compares the original with a result: both in one place, divided by a movable line, from fitted to 400 %.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { variantLabel } from "./format.js";
import { Observable, useObservable } from "./observable.js";
import { fileOf } from "./service.js";
import { Segments } from "./view-parts.js";

const LOAD_AFTER_MS = 150; // a picture that is only passed with j or k loads nothing but its thumbnail
const SPLIT_STEP_PERCENT = 2;
const PAN_STEP_PX = 80;
const MAX_ZOOM = 4;
const ZOOM_STEP = 1.5; // of the buttons
const ZOOM_PER_PX = { wheel: 0.002, pinch: 0.01 }; // exponents; browsers report a pinch on a touchpad as a wheel with Ctrl
const PIXELS_FROM_ZOOM = 2; // from here on, the pixels of the picture are shown as squares

/** The result that a person chose to compare: optimized or converted; null for the one to serve. */
const chosenVariant = new Observable(null);
/** How many pixels of the screen are a pixel of the picture, such as 1 for 100 %; null for a picture that is fitted. */
const zoom = new Observable(null);

export const toggleZoom = () => zoom.set(zoom.value === null ? 1 : null);

/** The element that had the focus before full screen. */
export const unfocused = { current: null };

/** Show the comparison on the whole screen, or no longer. */
export function toggleFullScreen() {
  if (document.fullscreenElement) document.exitFullscreen();
  else {
    unfocused.current = document.activeElement; // browsers may move it before the event
    document.querySelector(".detail-picture")?.requestFullscreen();
  }
}

/** The results of a picture that can be compared: `available`, and the one that is, `variant`, or null if there is none yet. */
function variantsOf({ image, best }) {
  const available = ["optimized", "converted"].filter((which) => image[`${which}_size`] !== null);
  const variant = [chosenVariant.value, best].find((which) => available.includes(which)) ?? available[0] ?? null;
  return { available, variant };
}

/** As `variantsOf`; the component is rendered again after each choice. */
export function useVariants(picture) {
  useObservable(chosenVariant);
  return variantsOf(picture);
}

/** Compare the original of `picture`, if there is one, with its other result. */
export const compareOther = (picture) => picture && chosenVariant.set(variantsOf(picture).variant === "optimized" ? "converted" : "optimized");

const clamp = (value, minimum, maximum) => Math.min(maximum, Math.max(minimum, value));

/**
 * Load a file of an image, after `delay_ms`. Returns its `status`, and its `url`, `width` and `height` when it is "loaded". It is
 * "missing" if there is no such file (`which` null), the service does not send it, or the browser can't show it, for which
 * `problem` has the words; and "waiting" also while the service can't be reached.
 */
function useImage(imageId, which, delay_ms = LOAD_AFTER_MS) {
  const [state, setState] = useState({});
  useEffect(() => {
    if (which === null) return undefined;
    const abort = new AbortController();
    const loader = new Image();
    const load = async () => {
      let status = "loaded";
      let problem = "The service could not send";
      try {
        const file = await fileOf(imageId, which, { signal: abort.signal });
        problem = "This browser can't show";
        await new Promise((onload, onerror) => { Object.assign(loader, { onload, onerror, src: URL.createObjectURL(file) }); });
      } catch {
        status = "missing";
      }
      if (!abort.signal.aborted) setState({ imageId, which, status, problem, url: loader.src, width: loader.naturalWidth, height: loader.naturalHeight });
    };
    const timer = setTimeout(load, delay_ms);
    return () => {
      clearTimeout(timer);
      abort.abort();
      URL.revokeObjectURL(loader.src);
      setState({});
    };
  }, [imageId, which]);
  return state.imageId === imageId && state.which === which ? state : { status: which === null ? "missing" : "waiting" };
}

/** The middle of the first two of `points`, and their distance; of one, itself and 1. */
const gesture = ([first, second = first]) => ({ x: (first.x + second.x) / 2, y: (first.y + second.y) / 2, distance: Math.hypot(first.x - second.x, first.y - second.y) || 1 });

/**
 * Where a picture of `natural` size is in a box, in pixels of the page: `left`, `top`, `width` and `height`. `pan` is the point
 * of the picture in the middle of the box, in shares of its size; a picture never leaves an edge of the box free that it can fill.
 * `fitted` is the smallest zoom.
 */
function placement(natural, box, zoomed, pan) {
  const fitted = Math.min(1, devicePixelRatio * Math.min(box.width / natural.width, box.height / natural.height));
  const scale = Math.max(fitted, zoomed ?? 0) / devicePixelRatio;
  const [width, height] = [natural.width * scale, natural.height * scale];
  const start = (extent, room, at) => (extent > room ? clamp(room / 2 - at * extent, room - extent, 0) : (room - extent) / 2);
  return { fitted, width, height, left: start(width, box.width, pan.x), top: start(height, box.height, pan.y) };
}

/** The comparison of a picture with its results, and its buttons. */
export function Compare({ picture }) {
  const { image, name, details } = picture;
  const stage = useRef(null);
  const [box, setBox] = useState({ width: 0, height: 0 });
  const [split, setSplit] = useState(0.5);
  const [, setPan] = useState(null);
  const pan = useRef({ x: 0.5, y: 0.5 }); // several events may move the picture between two frames
  const pointers = useRef(new Map()); // the pressed ones, in pixels of the page
  const isSplitting = useRef(false); // whether the pointer moves the line, not the picture
  const zoomed = useObservable(zoom);
  const { available, variant } = useVariants(picture);
  const preview = useImage(image.id, "thumbnail", 0);
  const original = useImage(image.id, "original");
  const after = useImage(image.id, variant);
  // browsers show no TIFF and HEIC, and older ones no JPEG XL
  const before = original.status === "missing" && preview.status === "loaded" ? preview : original;
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => setBox({ width: contentRect.width, height: contentRect.height }));
    observer.observe(stage.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    pan.current = { x: 0.5, y: 0.5 };
    setSplit(0.5);
  }, [image.id]);

  const loaded = [after, original].find(({ status }) => status === "loaded");
  const natural = { width: loaded?.width || details.width_px || 3, height: loaded?.height || details.height_px || 2 };
  const placed = () => placement(natural, box, zoom.value, pan.current);
  const { fitted, left, top, width, height } = placed();
  const style = { transform: `translate(${left}px, ${top}px)`, width: `${width}px`, height: `${height}px` };
  // the picture is in the middle of the box, or fills it
  const inPicture = { margin: `0 ${Math.max(0, left)}px ${Math.max(0, top)}px` };
  const both = before.status === "loaded" && after.status === "loaded";

  const moveTo = (leftPx, topPx) => {
    const { width: newWidth, height: newHeight } = placed();
    pan.current = { x: (box.width / 2 - leftPx) / newWidth, y: (box.height / 2 - topPx) / newHeight };
    // what the picture can't reach is not to be moved back from
    const reached = placed();
    pan.current = { x: (box.width / 2 - reached.left) / newWidth, y: (box.height / 2 - reached.top) / newHeight };
    setPan(pan.current);
  };
  const panBy = (x, y) => moveTo(placed().left + x, placed().top + y);
  /** Zoom so that the point of the picture at `clientX` and `clientY` remains there; without them, the one in the middle. */
  const zoomTo = (wanted, { clientX, clientY } = {}) => {
    const edge = stage.current.getBoundingClientRect();
    const [x, y] = clientX === undefined ? [box.width / 2, box.height / 2] : [clientX - edge.left, clientY - edge.top];
    const old = placed();
    zoom.set(wanted > fitted ? Math.min(MAX_ZOOM, wanted) : null);
    const factor = placed().width / old.width;
    moveTo(x - (x - old.left) * factor, y - (y - old.top) * factor);
  };
  const zoomBy = (factor, at) => zoomTo((zoom.value ?? fitted) * factor, at);
  const moveSplit = (clientX) => {
    const { left: start, width: extent } = stage.current.getBoundingClientRect();
    setSplit(clamp((clientX - start) / extent, 0, 1));
  };

  const onPointerDown = (event) => {
    if (event.button !== 0) return;
    stage.current.setPointerCapture(event.pointerId);
    pointers.current.set(event.pointerId, { x: event.clientX, y: event.clientY });
    isSplitting.current = both && pointers.current.size === 1 && (zoomed === null || event.target.closest(".compare-handle") !== null);
    if (isSplitting.current) moveSplit(event.clientX);
  };
  const onPointerMove = (event) => {
    const held = pointers.current;
    if (!held.has(event.pointerId)) return;
    const last = gesture(held.values());
    held.set(event.pointerId, { x: event.clientX, y: event.clientY });
    const now = gesture(held.values());
    if (isSplitting.current) {
      moveSplit(event.clientX);
      return;
    }
    panBy(now.x - last.x, now.y - last.y);
    if (held.size > 1) zoomBy(now.distance / last.distance, { clientX: now.x, clientY: now.y });
  };
  const onPointerEnd = ({ pointerId }) => pointers.current.delete(pointerId);
  const onWheel = (event) => {
    event.preventDefault();
    const linePx = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    zoomBy(Math.exp(-event.deltaY * linePx * ZOOM_PER_PX[event.ctrlKey ? "pinch" : "wheel"]), event);
  };
  const onStageKey = (event) => {
    const steps = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (zoomed === null || event.target !== stage.current || !(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    panBy(...steps[event.key].map((step) => step * PAN_STEP_PX));
  };

  const percent = `${Math.round(100 * Math.max(fitted, zoomed ?? 0))} %`;
  const isPreview = before === preview;
  const className = `compare${zoomed === null ? "" : " zoomed"}${zoomed >= PIXELS_FROM_ZOOM ? " pixels" : ""}`;
  return html`
    <div ref=${stage} class=${className} tabindex=${zoomed === null ? null : "0"} role="group"
      aria-label=${zoomed === null ? "Comparison" : `Comparison at ${percent}: arrow keys move the picture`}
      onPointerDown=${onPointerDown} onPointerMove=${onPointerMove} onPointerUp=${onPointerEnd} onPointerCancel=${onPointerEnd}
      onWheel=${onWheel} onDblClick=${(event) => zoomTo(zoomed === null ? 1 : 0, event)} onKeyDown=${onStageKey}>
      <div class="compare-layer">
        ${loaded === undefined && preview.status === "loaded" && !isPreview && html`<img src=${preview.url} alt="" style=${style} draggable=${false} />`}
        ${before.status === "loaded" && html`<img src=${before.url} alt=${`${name}, original`} style=${style} draggable=${false} />`}
      </div>
      ${after.status === "loaded" && html`
        <div class="compare-layer" style=${{ clipPath: both ? `inset(0 0 0 ${100 * split}%)` : "none" }}>
          <img src=${after.url} alt=${`${name}, ${variantLabel(picture, variant)}`} style=${style} draggable=${false} />
        </div>`}
      ${both && html`
        <input type="range" class="visually-hidden" aria-label="Share of the original" aria-valuetext=${`${Math.round(100 * split)} % original`}
          step=${SPLIT_STEP_PERCENT} value=${100 * split} onInput=${(event) => setSplit(event.target.value / 100)} />
        <div class="compare-handle" style=${{ left: `${100 * split}%`, top: `${Math.max(0, top)}px`, bottom: `${Math.max(0, top)}px` }}></div>
        <span class="compare-label before" aria-hidden="true" style=${inPicture}>Original</span>
        <span class="compare-label after" aria-hidden="true" style=${inPicture}>${variantLabel(picture, variant)}</span>`}
      ${original.status === "missing" && html`<p class="compare-note">${isPreview ? `${original.problem} the original, but a small preview of it.`
        : after.status === "loaded" ? `${original.problem} the original. This is the result.`
        : after.status === "missing" ? "There is no picture that this browser can show." : ""}</p>`}
      ${original.status === "loaded" && after.status === "missing" && variant !== null && html`
        <p class="compare-note">${after.problem} the file “${variantLabel(picture, variant)}”. This is the original.</p>`}
    </div>
    <div class="compare-tools">
      <${Segments} label="Compare the original with" class="small" choices=${available.map((which) => [which, variantLabel(picture, which)])}
        value=${variant} onChoose=${(which) => chosenVariant.set(which)} />
      <span class="spacer"></span>
      <div class="segments" role="group" aria-label="Zoom">
        <button type="button" class="small" aria-label="Zoom out" disabled=${zoomed === null} onClick=${() => zoomBy(1 / ZOOM_STEP)}>−</button>
        <button type="button" class="small number" aria-pressed=${String(zoomed !== null)} aria-keyshortcuts="z" title="Fit, or show at 100 % (z)" onClick=${toggleZoom}>${percent}</button>
        <button type="button" class="small" aria-label="Zoom in" disabled=${zoomed >= MAX_ZOOM} onClick=${() => zoomBy(ZOOM_STEP)}>+</button>
      </div>
      <button type="button" class="small" aria-label="Full screen" aria-keyshortcuts="f" title="Full screen (f)" onClick=${toggleFullScreen}>⛶</button>
    </div>`;
}
