// The list of pictures, as a grid or as rows. Only what is visible is in the document, with a margin of a few rows.
//
// The list is a listbox with one tab stop: the current picture is its active option.

import { Component, html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./preact.js";
import { bytes, dateTime, savedText, servedText, sizesText } from "./format.js";
import { GAP, aspectOf, layOut, placeBelow, rowAt } from "./layout.js";
import { useChanges, useObservable } from "./observable.js";
import { useRubberBand } from "./rubber-band.js";
import { fileOf } from "./service.js";
import { arrangement, changes, choices, current, pictureOf, selection } from "./store.js";

const MARGIN_ROWS = 2;
const LONG_PRESS_MS = 500;
const MIN_WIDTH_OF_WORDS = 64; // pixels of a tile, beside its check

// The status of a job names the stage that started last. "Processing" means that this stage is done and another one still runs.
const STAGE_TEXTS = {
  pending: () => "Waiting",
  analyzing: ({ translations }) => (translations.length === 0 ? "Writing texts" : "Processing"),
  optimizing: ({ optimized_size: size }) => (size === null ? "Optimizing" : "Processing"),
  converting: ({ converted_size: size }) => (size === null ? "Converting" : "Processing"),
};
const REVIEW_TEXTS = { accepted: "Accepted", edited: "Edited" };

/** The state of a picture in words: the stage that runs, or how it ended. */
export function stateText({ job, state, needsText, review, image }) {
  if (state === "failed") return image.optimized_size !== null || image.converted_size !== null || image.translations.length > 0 ? "Partly done" : "Failed";
  if (state === "done") return needsText ? "Needs text" : REVIEW_TEXTS[review] ?? "Done";
  return STAGE_TEXTS[job.status]?.(image) ?? "Processing";
}

/** The mark of a picture: that of its state, unless its texts say more. */
const markOf = ({ state, needsText, review }) => (state !== "done" ? state : needsText ? "needs-text" : review in REVIEW_TEXTS ? "reviewed" : state);

/** The list. `onOpen(id)` is called when a picture is clicked without selecting it. */
export function PictureList({ onOpen }) {
  const { pictures, places, filteredBy, deleted } = useObservable(arrangement);
  const { layout, rowHeight } = useObservable(choices);
  const selected = useObservable(selection);
  const currentId = useObservable(current);
  const scroller = useRef(null);
  const anchor = useRef(null); // where a selection with Shift begins
  const [size, setSize] = useState({ width: 0, height: 0, gutter: 0 });
  const [firstRow, setFirstRow] = useState(0);
  const laidOut = useMemo(() => layOut({ layout, rowHeight }, size, pictures), [layout, rowHeight, size.width, size.gutter, pictures]);
  const { boxes, rows, height } = laidOut;

  useLayoutEffect(() => {
    const measure = ({ clientWidth: width, clientHeight: height, offsetWidth }) => setSize({ width, height, gutter: offsetWidth - width });
    const observer = new ResizeObserver(([{ target }]) => measure(target));
    observer.observe(scroller.current);
    return () => observer.disconnect();
  }, []);
  const measureFirstRow = () => setFirstRow(rowAt(rows, scroller.current.scrollTop));
  useLayoutEffect(measureFirstRow, [laidOut]);
  const scrolled = useRef({ top: 0, at: 0 });
  const onScroll = () => {
    const { top, at } = scrolled.current;
    scrolled.current = { top: scroller.current.scrollTop, at: performance.now() };
    if (Math.abs(scrolled.current.top - top) > FAST_PX_PER_MS * (scrolled.current.at - at)) passedAt = scrolled.current.at;
    measureFirstRow();
  };

  const place = places.get(currentId);
  useEffect(() => {
    if (place === undefined) return;
    const { y, height: boxHeight } = boxes[place];
    const list = scroller.current;
    if (y < list.scrollTop) list.scrollTop = y - GAP;
    else if (y + boxHeight > list.scrollTop + list.clientHeight) list.scrollTop = y + boxHeight + GAP - list.clientHeight;
    // not when `place` changes: the list scrolls to another current picture, but does not follow one that moves in the order
  }, [currentId, layout, rowHeight, size.width, filteredBy, deleted]);
  // what can be done with a selection takes room from the end of the list: a current picture that was seen there remains in view
  useEffect(() => {
    const list = scroller.current;
    const hidden = place === undefined ? 0 : boxes[place].y + boxes[place].height + GAP - list.scrollTop - list.clientHeight;
    if (hidden > 0 && hidden <= size.height + GAP - list.clientHeight) list.scrollTop += hidden;
  }, [selected.size > 0]);

  const select = (id, { range, toggle }) => {
    if (range) anchor.current ??= currentId;
    const from = range && places.has(anchor.current) ? places.get(anchor.current) : null;
    if (from !== null) {
      const to = places.get(id);
      const chosen = pictures.slice(Math.min(from, to), Math.max(from, to) + 1).map((picture) => picture.id);
      selection.set(new Set(toggle ? [...selected, ...chosen] : chosen));
      return;
    }
    anchor.current = id;
    if (!toggle) return;
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    selection.set(next);
  };

  const base = useRef(null); // what was selected before a rectangle was drawn
  const { band, wasDrawn, handlers } = useRubberBand(scroller, ({ x, y, width, height: bandHeight }, { isAdding, isFirst }) => {
    if (isFirst) base.current = isAdding ? selection.value : new Set();
    const inside = pictures.filter((_, at) => boxes[at].x < x + width && boxes[at].x + boxes[at].width > x && boxes[at].y < y + bandHeight && boxes[at].y + boxes[at].height > y);
    selection.set(new Set([...base.current, ...inside.map(({ id }) => id)]));
  });

  // on a touch screen, a long press begins a selection, and a tap then adds to it
  const press = useRef({ timer: null, wasLong: false, isTouch: false });
  const onPointerDown = (event) => {
    handlers.onPointerDown(event);
    const id = event.target.closest("[role=option]")?.dataset.id;
    endPress();
    press.current = { isTouch: event.pointerType === "touch", wasLong: false };
    if (!press.current.isTouch || id === undefined) return;
    press.current.timer = setTimeout(() => {
      press.current.wasLong = true;
      select(id, { toggle: true });
    }, LONG_PRESS_MS);
  };
  const endPress = () => clearTimeout(press.current.timer);

  const onClick = (event) => {
    const id = event.target.closest("[role=option]")?.dataset.id;
    if (id === undefined || wasDrawn() || press.current.wasLong) return;
    const onCheck = event.target.closest(".check") !== null;
    const toggle = event.ctrlKey || event.metaKey || onCheck || (press.current.isTouch && selected.size > 0);
    select(id, { range: event.shiftKey, toggle });
    if (!toggle && !event.shiftKey) onOpen(id);
    else current.set(id);
  };

  const onKeyDown = (event) => {
    const page = Math.max(1, Math.floor((size.height * rows.length) / height) - 1);
    const targets = {
      ArrowDown: () => placeBelow(laidOut, place, 1), ArrowUp: () => placeBelow(laidOut, place, -1), ArrowRight: () => place + 1, ArrowLeft: () => place - 1,
      PageDown: () => placeBelow(laidOut, place, page), PageUp: () => placeBelow(laidOut, place, -page), Home: () => 0, End: () => pictures.length - 1,
    };
    if (event.key in targets && !event.altKey && pictures.length > 0) {
      event.preventDefault();
      const target = place === undefined ? 0 : Math.min(pictures.length - 1, Math.max(0, targets[event.key]()));
      const { id } = pictures[target];
      if (event.shiftKey) select(id, { range: true });
      else anchor.current = id;
      current.set(id);
    } else if (event.key === " ") {
      event.preventDefault();
      if (place !== undefined) select(currentId, { toggle: true });
    }
  };

  const from = rows[Math.max(0, firstRow - MARGIN_ROWS)]?.first ?? 0;
  const lastRow = rows[Math.min(rows.length - 1, rowAt(rows, (rows[firstRow + 1]?.y ?? height) + size.height) + MARGIN_ROWS)];
  const rendered = pictures.slice(from, (lastRow?.first ?? 0) + (lastRow?.count ?? 0)).map(({ id }, index) => [id, from + index]);
  // the active option of a listbox must be in the document
  if (place !== undefined && (place < from || place >= from + rendered.length)) rendered.push([currentId, place]);
  useChanges(changes, (changed) => rendered.some(([id]) => changed.has(id)));
  return html`
    ${layout === "rows" && html`<${Heads} />`}
    <div ref=${scroller} class=${`list ${layout}`} role="listbox" tabindex="0" aria-label="Pictures" aria-multiselectable="true"
      aria-activedescendant=${place === undefined ? null : `picture-${currentId}`} onScroll=${onScroll} onClick=${onClick} onKeyDown=${onKeyDown}
      ...${handlers} onPointerDown=${onPointerDown} onPointerUp=${() => { endPress(); handlers.onPointerUp(); }} onPointerCancel=${() => { endPress(); handlers.onPointerCancel(); }}
      onContextMenu=${(event) => { if (press.current.isTouch) event.preventDefault(); }}>
      <div class="list-space" role="presentation" style=${{ height: `${height}px` }}>
        ${size.width > 0 && rendered.map(([id, at]) => {
          const picture = pictureOf(id);
          return picture && html`
            <${Tile} key=${id} picture=${picture} layout=${layout} place=${at} count=${pictures.length} language=${filteredBy.language}
              selected=${selected.has(id)} current=${id === currentId} rowHeight=${rowHeight} ...${boxes[at]} />`;
        })}
        ${band && html`<div class="band" style=${{ width: `${band.width}px`, height: `${band.height}px`, transform: `translate(${band.x}px, ${band.y}px)` }}></div>`}
      </div>
    </div>`;
}

/** The heads of the columns, which order the list. The options of the list say the same in words. */
function Heads() {
  const { sort, descending } = useObservable(choices);
  const head = (name, label, column) => html`
    <button type="button" class=${`cell ${column}`} aria-pressed=${String(sort === name)}
      onClick=${() => choices.set({ ...choices.value, sort: name, descending: sort === name && !descending })}>${label}${sort === name ? (descending ? " ↑" : " ↓") : ""}</button>`;
  return html`
    <div class="list-heads" role="group" aria-label="Order">
      ${head("name", "Name", "caption")}${head("status", "Status", "")}${head("size", "Size", "wide")}${head("saved", "Saved", "saved")}${head("date", "Added", "wider")}
    </div>`;
}

/** One picture in the list. Rendered again only if one of its properties has changed. */
class Tile extends Component {
  shouldComponentUpdate(next) {
    return Object.keys(next).some((name) => next[name] !== this.props[name]);
  }

  render({ picture, layout, place, count, language, selected, current: isCurrent, rowHeight, width, height, x, y }) {
    const { id, name, image, createdAt } = picture;
    const isGrid = layout === "grid";
    const state = stateText(picture);
    const percent = savedText(picture);
    const share = percent ? `${percent} ${servedText(picture)}` : bytes(picture.size);
    const text = image.translations.find(({ language_code: code }) => code === language) ?? image.translations[0];
    const status = html`<span class="status" data-state=${markOf(picture)}><span>${state}</span></span>`;
    // the words on a tile of the grid are not laid out before they are seen: their boxes would be most of what a frame paints
    return html`
      <div id=${`picture-${id}`} data-id=${id} class=${isGrid && width < MIN_WIDTH_OF_WORDS ? "tile narrow" : "tile"} role="option" aria-selected=${String(selected)} aria-label=${isGrid ? `${name}, ${share}, ${state}` : null}
        style=${{ width: `${width}px`, height: `${height}px`, left: `${x}px`, top: `${y}px` }}
        aria-posinset=${place + 1} aria-setsize=${count} data-current=${isCurrent ? "" : null}>
        <${Thumbnail} picture=${picture} ...${isGrid ? { width, height, rowHeight } : LINE_THUMBNAIL} />
        <span class="check" aria-hidden="true"></span>
        ${isGrid
          ? html`${status}<span class="caption"><span class="name" dir="auto">${name}</span> <span class="number">${share}</span></span>`
          : html`
            <span class="caption"><span class="name" dir="auto">${name}</span><span class="preview" lang=${text?.language_code} dir="auto">${text?.seo_alt_text ?? ""}</span></span>
            <span class="cell">${status}</span>
            <span class="cell number wide">${sizesText(picture)} ${servedText(picture)}</span>
            <span class="cell number saved">${percent}</span>
            <span class="cell number wider">${dateTime(createdAt)}</span>`}
      </div>`;
  }
}

// ---- thumbnails ----
//
// A thumbnail is requested when it has been visible for a moment, and the list has not passed quickly since: loading thumbnails
// that only pass by would delay the frames of the scrolling.

const VISIBLE_MS = 120;
const FAST_PX_PER_MS = 1.2;
let passedAt = -VISIBLE_MS; // when the list last scrolled too quickly to look at its pictures
const MAX_SIDE_PX = 512; // the longest side of the service's thumbnails
const LINE_THUMBNAIL = { width: 64, height: 48, rowHeight: 0 }; // where pictures are one below the other

/** Draw the thumbnail of an image on `canvas`, `width` CSS pixels wide. Throws if there is no thumbnail. */
async function draw(canvas, imageId, width, signal) {
  const blob = await fileOf(imageId, "thumbnail", { urgent: false, signal });
  const resizeWidth = Math.min(MAX_SIDE_PX, Math.max(1, Math.ceil(devicePixelRatio * width)));
  const bitmap = await createImageBitmap(blob, { resizeWidth, resizeQuality: "medium" });
  if (!signal.aborted) {
    canvas.width = bitmap.width;
    canvas.height = bitmap.height;
    // willReadFrequently places the canvas in main memory: a GPU layer for each thumbnail would be slow
    canvas.getContext("2d", { willReadFrequently: true }).drawImage(bitmap, 0, 0);
    canvas.dataset.state = "shown";
  }
  bitmap.close();
}

/**
 * The thumbnail of a picture in a box of `width` × `height`, or the extension of its file name if there is none. Assistive
 * technology ignores it: the name of the picture is beside it.
 *
 * It is a canvas of the size that is shown. Browsers hold the decoded pixels of `<img>` elements long after their removal:
 * 400 MB after some 1000 thumbnails.
 */
function Thumbnail({ picture, rowHeight, width, height }) {
  const { image, name } = picture;
  const canvas = useRef(null);
  const [isMissing, setMissing] = useState(false);
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return undefined;
    const abort = new AbortController();
    let timer;
    const wait = (since) => { timer = setTimeout(request, since + VISIBLE_MS - performance.now()); };
    const request = () => {
      if (performance.now() < passedAt + VISIBLE_MS) wait(passedAt);
      else draw(element, image.id, Math.max(width, height * aspectOf(picture)), abort.signal).catch(() => { if (!abort.signal.aborted) setMissing(true); });
    };
    wait(performance.now());
    return () => {
      clearTimeout(timer);
      abort.abort();
      element.width = element.height = 0;
    };
  }, [image.id, rowHeight]);
  return isMissing
    ? html`<span class="thumb" aria-hidden="true">${name.split(".").pop().slice(0, 4).toUpperCase()}</span>`
    : html`<canvas ref=${canvas} class="thumb" width="0" height="0" aria-hidden="true"></canvas>`;
}
