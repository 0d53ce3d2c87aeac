// Selecting pictures in the list with a rectangle that is drawn with the mouse.

import { useRef, useState } from "./preact.js";

const MOVED_PX = 5; // a press that moves less is a click
const EDGE_PX = 32; // within this distance of its upper and lower end, the list scrolls
const SCROLL_SHARE = 0.3; // of the distance into that zone, per frame

/**
 * The `band` that is drawn, { x, y, width, height } in the list, or null, and the `handlers` of the list, which is `scroller`. A band
 * begins on empty space, which replaces the selection unless a modifier is pressed, or on the check of a picture, which adds to it.
 * `onBand(band, { isAdding, isFirst })` is called when the band begins and grows; `wasDrawn()` says whether the latest press drew one, so that its click is ignored.
 */
export function useRubberBand(scroller, onBand) {
  const [band, setBand] = useState(null);
  const drag = useRef(null); // { pointer, from, client, isAdding, isDrawn }, also after its end
  const latest = useRef(onBand);
  latest.current = onBand;
  const pointOf = ([clientX, clientY]) => {
    const box = scroller.current.getBoundingClientRect();
    return [clientX - box.left, clientY - box.top + scroller.current.scrollTop];
  };
  const draw = () => {
    const { from, client, isAdding, isDrawn } = drag.current;
    const [x, y] = pointOf(client);
    if (!isDrawn && Math.hypot(x - from[0], y - from[1]) < MOVED_PX) return;
    const drawn = { x: Math.min(x, from[0]), y: Math.min(y, from[1]), width: Math.abs(x - from[0]), height: Math.abs(y - from[1]) };
    setBand(drawn);
    latest.current(drawn, { isAdding, isFirst: !isDrawn });
    if (isDrawn) return;
    drag.current.isDrawn = true;
    scroller.current.setPointerCapture(drag.current.pointer);
    requestAnimationFrame(scroll);
  };
  const scroll = () => {
    if (!drag.current?.isHeld) return;
    const box = scroller.current.getBoundingClientRect();
    const beyond = Math.max(0, drag.current.client[1] - box.bottom + EDGE_PX) - Math.max(0, box.top + EDGE_PX - drag.current.client[1]);
    if (beyond !== 0) {
      scroller.current.scrollTop += beyond * SCROLL_SHARE;
      draw();
    }
    requestAnimationFrame(scroll);
  };
  const end = () => {
    if (drag.current) drag.current.isHeld = false;
    setBand(null);
  };
  return {
    band,
    wasDrawn: () => drag.current?.isDrawn === true,
    handlers: {
      onPointerDown(event) {
        drag.current = null;
        const onCheck = event.target.closest(".check") !== null;
        if (event.pointerType === "touch" || event.button !== 0 || (event.target.closest("[role=option]") && !onCheck)) return;
        const client = [event.clientX, event.clientY];
        if (pointOf(client)[0] >= scroller.current.clientWidth) return; // the scroll bar
        drag.current = { pointer: event.pointerId, from: pointOf(client), client, isAdding: onCheck || event.ctrlKey || event.metaKey || event.shiftKey, isDrawn: false, isHeld: true };
      },
      onPointerMove(event) {
        if (!drag.current?.isHeld) return;
        if (event.buttons === 0) { // it was released outside the window
          end();
          return;
        }
        drag.current.client = [event.clientX, event.clientY];
        draw();
      },
      onPointerUp: end,
      onPointerCancel: end,
      onLostPointerCapture: end,
    },
  };
}
