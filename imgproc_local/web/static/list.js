// The list of pictures, as a grid or as rows. Only what is visible is in the document, with a margin of a few rows.
//
// The list is a listbox with one tab stop: the current picture is its active option.

import { Component, html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { bytes, dateTime, savedText, sizesText } from "./format.js";
import { useChanges, useObservable } from "./observable.js";
import { fileOf } from "./service.js";
import { arrangement, changes, choices, current, pictureOf, selection } from "./store.js";

const MARGIN_ROWS = 2;
const GAP = 8;
const PADDING = 12;
const ROW_HEIGHT = 56;
const TILE_MIN_WIDTH = 156;
const TILE_MAX_GROWTH = 1.35; // tiles grow with the width of the list up to this factor; after that, only columns are added
const CAPTION_HEIGHT = 46;

// The status of a job names the stage that started last. "Processing" means that this stage is done and another one still runs.
const STAGE_TEXTS = {
  pending: () => "Waiting",
  analyzing: ({ translations }) => (translations.length === 0 ? "Writing texts" : "Processing"),
  optimizing: ({ optimized_size: size }) => (size === null ? "Optimizing" : "Processing"),
  converting: ({ converted_size: size }) => (size === null ? "Converting" : "Processing"),
};

/** The state of a picture in words: the stage that runs, or how it ended. */
export function stateText({ job, state, needsText, image }) {
  if (state === "failed") return image.optimized_size !== null || image.converted_size !== null || image.translations.length > 0 ? "Partly done" : "Failed";
  if (state === "done") return needsText ? "Needs text" : "Done";
  return STAGE_TEXTS[job.status]?.(image) ?? "Processing";
}

/** The number of columns of a list of `count` pictures that is `width` pixels wide, and its other sizes in pixels. */
function geometry(layout, width, count) {
  const inner = Math.max(1, width - 2 * PADDING);
  if (layout === "rows") return { columns: 1, tileWidth: inner, rowHeight: ROW_HEIGHT, height: 2 * PADDING + count * ROW_HEIGHT };
  const minimum = TILE_MIN_WIDTH * Math.min(TILE_MAX_GROWTH, Math.max(1, width / 1200));
  const columns = Math.max(2, Math.floor((inner + GAP) / (minimum + GAP)));
  const tileWidth = Math.floor((inner + GAP) / columns - GAP);
  const rowHeight = Math.round(tileWidth * 0.75) + CAPTION_HEIGHT + GAP;
  return { columns, tileWidth, rowHeight, height: 2 * PADDING + Math.ceil(count / columns) * rowHeight };
}

/** The list. `onOpen(id)` is called when a picture is clicked without selecting it, `onEnter()` when Enter is pressed. */
export function PictureList({ onOpen, onEnter }) {
  const { pictures, places } = useObservable(arrangement);
  const { layout } = useObservable(choices);
  const selected = useObservable(selection);
  const currentId = useObservable(current);
  const scroller = useRef(null);
  const anchor = useRef(null); // where a selection with Shift begins
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [firstRow, setFirstRow] = useState(0);
  const { columns, tileWidth, rowHeight, height } = geometry(layout, size.width, pictures.length);

  useLayoutEffect(() => {
    const measure = () => setSize({ width: scroller.current.clientWidth, height: scroller.current.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(scroller.current);
    measure();
    return () => observer.disconnect();
  }, []);
  const measureFirstRow = () => setFirstRow(Math.max(0, Math.floor((scroller.current.scrollTop - PADDING) / rowHeight)));
  useLayoutEffect(measureFirstRow, [rowHeight, height]);

  const place = places.get(currentId);
  useEffect(() => {
    if (place === undefined) return;
    const top = PADDING + Math.floor(place / columns) * rowHeight;
    const list = scroller.current;
    if (top < list.scrollTop) list.scrollTop = top - PADDING;
    else if (top + rowHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + rowHeight + PADDING - list.clientHeight;
    // not when `place` changes: the list scrolls to another current picture, but does not follow one that moves in the order
  }, [currentId, columns, rowHeight]);

  const select = (id, { range, toggle }) => {
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

  const onClick = (event) => {
    const id = event.target.closest("[role=option]")?.dataset.id;
    if (id === undefined) return;
    const onCheck = event.target.closest(".check") !== null;
    const toggle = event.ctrlKey || event.metaKey || onCheck;
    select(id, { range: event.shiftKey, toggle });
    if (!toggle && !event.shiftKey) onOpen(id);
    else current.set(id);
  };

  const onKeyDown = (event) => {
    const page = columns * Math.max(1, Math.floor(size.height / rowHeight) - 1);
    const steps = {
      ArrowDown: columns, ArrowUp: -columns, ArrowRight: columns > 1 ? 1 : 0, ArrowLeft: columns > 1 ? -1 : 0,
      PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity,
    };
    if (event.key in steps && !event.altKey && pictures.length > 0) {
      event.preventDefault();
      const target = place === undefined ? 0 : Math.min(pictures.length - 1, Math.max(0, place + steps[event.key]));
      const { id } = pictures[target];
      if (event.shiftKey) {
        anchor.current ??= currentId;
        select(id, { range: true });
      } else anchor.current = id;
      current.set(id);
    } else if (event.key === " ") {
      event.preventDefault();
      if (place !== undefined) select(currentId, { toggle: true });
    } else if (event.key.toLowerCase() === "a" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      selection.set(new Set(pictures.map(({ id }) => id)));
    } else if (event.key === "Escape" && selected.size > 0) {
      event.stopPropagation();
      selection.set(new Set());
    } else if (event.key === "Enter") {
      event.preventDefault();
      event.stopPropagation();
      onEnter();
    }
  };

  const rows = Math.ceil(size.height / rowHeight) + 1;
  const from = Math.max(0, firstRow - MARGIN_ROWS) * columns;
  const rendered = pictures.slice(from, (firstRow + rows + MARGIN_ROWS) * columns).map(({ id }, index) => [id, from + index]);
  // the active option of a listbox must be in the document
  if (place !== undefined && (place < from || place >= from + rendered.length)) rendered.push([currentId, place]);
  useChanges(changes, (changed) => rendered.some(([id]) => changed.has(id)));
  return html`
    <div ref=${scroller} class=${`list ${layout}`} role="listbox" tabindex="0" aria-label="Pictures" aria-multiselectable="true"
      aria-activedescendant=${place === undefined ? null : `picture-${currentId}`} onScroll=${measureFirstRow} onClick=${onClick} onKeyDown=${onKeyDown}>
      <div class="list-space" role="presentation" style=${{ height: `${height}px` }}>
        ${size.width > 0 && rendered.map(([id, at]) => {
          const picture = pictureOf(id);
          return picture && html`
            <${Tile} key=${id} picture=${picture} layout=${layout} place=${at} count=${pictures.length}
              selected=${selected.has(id)} current=${id === currentId} width=${tileWidth} height=${rowHeight - (layout === "rows" ? 0 : GAP)}
              x=${PADDING + (at % columns) * (tileWidth + GAP)} y=${PADDING + Math.floor(at / columns) * rowHeight} />`;
        })}
      </div>
    </div>`;
}

/** One picture in the list. Rendered again only if one of its properties has changed. */
class Tile extends Component {
  shouldComponentUpdate(next) {
    return Object.keys(next).some((name) => next[name] !== this.props[name]);
  }

  render({ picture, layout, place, count, selected, current: isCurrent, width, height, x, y }) {
    const { id, name, image, state, needsText } = picture;
    const style = { width: `${width}px`, height: `${height}px`, transform: `translate(${x}px, ${y}px)` };
    const text = stateText(picture);
    const percent = savedText(picture);
    const status = html`<span class="status" data-state=${state === "done" && needsText ? "needs-text" : state}>${text}</span>`;
    return html`
      <div id=${`picture-${id}`} data-id=${id} class="tile" role="option" style=${style} aria-selected=${String(selected)}
        aria-posinset=${place + 1} aria-setsize=${count} data-current=${isCurrent ? "" : null}>
        <${Thumbnail} picture=${picture} />
        <span class="check" aria-hidden="true"></span>
        <span class="caption">
          <span class="name" dir="auto">${name}</span>
          ${layout === "rows"
            ? html`<span class="preview" lang=${image.translations[0]?.language_code} dir="auto">${image.translations[0]?.seo_alt_text ?? ""}</span>`
            : html`<span class="line">${status}<span class="number">${percent || bytes(picture.size)}</span></span>`}
        </span>
        ${layout === "rows" && html`
          <span class="cell">${status}</span>
          <span class="cell number wide">${sizesText(picture)}</span>
          <span class="cell number saved">${percent}</span>
          <span class="cell number wider">${dateTime(picture.createdAt)}</span>`}
      </div>`;
  }
}

// ---- thumbnails ----
//
// A thumbnail is requested when it has been visible for a moment: loading thumbnails that only pass by would delay the frames
// of the scrolling.

const VISIBLE_MS = 120;
const MAX_SIDE_PX = 512; // the longest side of the service's thumbnails

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
function Thumbnail({ picture: { image, name, details } }) {
  const canvas = useRef(null);
  const [state, setState] = useState("waiting");
  useEffect(() => {
    const element = canvas.current;
    const abort = new AbortController();
    const aspect = details.width_px ? details.width_px / details.height_px : 1;
    const timer = setTimeout(() => draw(element, { imageId: image.id, aspect }, abort.signal)
      .then(() => setState("shown"), () => { if (!abort.signal.aborted) setState("missing"); }), VISIBLE_MS);
    return () => {
      clearTimeout(timer);
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
