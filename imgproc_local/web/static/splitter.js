// The line between two columns, which a person moves to share the width between them.

import { html, useLayoutEffect, useRef } from "./preact.js";
import { preserved, useObservable } from "./observable.js";

const STEP_PERCENT = 2;

/** The width of the first of two columns in percent of both, by the name of the splitter. Preserved between visits. */
const shares = preserved("imgproc-local.split", {});

/**
 * A separator between two columns of the grid around it, which has the share of the first one as the variable `--name`. `share`
 * has the `usual`, smallest (`min`) and largest (`max`) percentage; `of` is the identifier of the element whose width changes.
 */
export function Splitter({ name, label, of, share: { usual, min, max } }) {
  const line = useRef(null);
  const stored = useObservable(shares)[name];
  const clamped = (value) => Math.min(max, Math.max(min, value));
  const percent = clamped(stored ?? usual);
  const set = (value) => shares.set({ ...shares.value, [name]: value && clamped(value) });
  useLayoutEffect(() => line.current.parentElement.style.setProperty(`--${name}`, `${percent}%`), [name, percent]);

  const onPointerDown = (event) => {
    if (event.button === 0) line.current.setPointerCapture(event.pointerId);
  };
  const onPointerMove = (event) => {
    if (!line.current.hasPointerCapture(event.pointerId)) return;
    const { left, width } = line.current.parentElement.getBoundingClientRect();
    set((100 * (event.clientX - left)) / width);
  };
  const onKeyDown = (event) => {
    const values = { ArrowLeft: percent - STEP_PERCENT, ArrowRight: percent + STEP_PERCENT, Home: min, End: max, Enter: undefined };
    if (!(event.key in values) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    set(values[event.key]);
  };
  return html`
    <div ref=${line} class="splitter" role="separator" tabindex="0" aria-orientation="vertical" aria-label=${label} aria-controls=${of}
      aria-valuenow=${Math.round(percent)} aria-valuemin=${min} aria-valuemax=${max} title="Drag to share the width; double-click to reset"
      onPointerDown=${onPointerDown} onPointerMove=${onPointerMove} onDblClick=${() => set(undefined)} onKeyDown=${onKeyDown}></div>`;
}
