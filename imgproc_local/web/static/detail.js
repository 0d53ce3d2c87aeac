// The details of one picture: the comparison, the sizes, what was removed, and the texts of every language.

import { html, useEffect, useRef, useState } from "./preact.js";
import { Compare, useVariants, unfocused } from "./compare.js";
import { CopyMenu } from "./copy.js";
import { bytes, dateTime, download, downloadName, formatLabel, savedShare, variantLabel, variantName } from "./format.js";
import { stateText } from "./list.js";
import { useChanges, useObservable } from "./observable.js";
import { fileOf } from "./service.js";
import { isUnreviewed } from "./order.js";
import { Splitter } from "./splitter.js";
import { CONTEXT_ROLES, TextEditor } from "./text-editor.js";
import { arrangement, changes, keyOf, neighbour, pictureOf } from "./store.js";
import { isOpen } from "./progress.js";
import { acceptable, markDecorative, reporting, restoreText, whenAnswered } from "./texts.js";

const SAVED_AFTER_MS = 60_000; // until then, the browser has saved a file that it downloads
const PICTURE_SHARE = { usual: 50, min: 25, max: 75 };
const STAGE_LABELS = { analyze: "Alt text", optimize: "Optimization", convert: "Conversion" };
const ROLE_LABELS = { decorative: "decoration", text: "an image of text", chart: "a chart, a diagram or a map", logo: "a logo" };
const REMOVED_LABELS = {
  gps: "GPS position",
  location: "street or place",
  contact: "e-mail addresses or telephone numbers",
  person: "owner's name or face regions",
  identifier: "serial numbers or identifiers",
  camera: "camera and exposure",
  date: "dates",
  software: "software and edit history",
  thumbnail: "embedded previews",
  comment: "comments or data in descriptions",
  other: "unknown fields",
  unreadable: "unreadable metadata",
};

/**
 * The details of the picture `id`. `languageName(code)` is the name of a language. `onGo(step)`, `onClose`, `onDelete(pictures)`,
 * `onRepeat(picture)`, `onRegenerate(codes)` and `onTranslate(code)` are called by buttons, `onAccept(fromTexts)` by the one for all
 * languages, and with true when the text of the last one was accepted. Each time the counter `focusTexts` grows, the first text
 * that needs one gets the focus, else the first.
 */
export function Detail({ id, languageName, onGo, onClose, onDelete, onRepeat, onRegenerate, onTranslate, onAccept, focusTexts }) {
  useChanges(changes, (changed) => changed.has(id));
  const { places, pictures } = useObservable(arrangement);
  const body = useRef(null);
  const picture = pictureOf(id);
  useEffect(() => { body.current?.scrollTo(0, 0); }, [id]);
  const [opened, setOpened] = useState(null); // the key of the text that a person opened
  const focused = useRef(focusTexts);
  useEffect(() => {
    if (focusTexts === focused.current) return;
    focused.current = focusTexts;
    ["[data-needs]", "[data-open]", ""].map((open) => body.current?.querySelector(`${open} [data-alt]`)).find(Boolean)?.focus();
  }, [focusTexts, id]);
  if (picture === undefined) return html`<section class="detail empty"><p class="hint">This picture was deleted.</p></section>`;

  const { image, name, job } = picture;
  const place = places.get(id);
  // in full screen, the focus is on the picture, and returns to where it was
  const onFullScreen = ({ currentTarget }) => {
    const isFull = document.fullscreenElement === currentTarget;
    (isFull ? currentTarget : unfocused.current)?.focus();
  };
  const onPictureKey = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step === undefined || document.fullscreenElement === null || event.target.type === "range") return;
    event.preventDefault();
    onGo(step);
  };
  /** Give the focus to the text `step` places after that in the language `code`. Returns whether there is one. */
  const moveFrom = (code, step) => {
    const fields = [...body.current.querySelectorAll("[data-alt]")];
    const next = fields[fields.findIndex((field) => field.dataset.alt === code) + step];
    next?.focus();
    return next !== undefined;
  };
  const { translations } = image;
  const open = translations.find(({ language_code: code }) => keyOf(id, code) === opened)
    ?? translations.find(({ needs_text: needsText }) => needsText) ?? translations.find(isUnreviewed) ?? translations[0];
  const left = acceptable([picture]).length;
  const isToReview = picture.state === "done" && !picture.needsText && translations.some(isUnreviewed);
  return html`
    <section class="detail" aria-labelledby="detail-title">
      <header class="detail-head">
        <button type="button" class="icon back" aria-label="Back to the list" onClick=${onClose}>←</button>
        <div class="detail-name">
          <h2 id="detail-title" tabindex="-1" dir="auto">${name}</h2>
          <p class="hint"><span class="status" data-state=${isToReview ? "waiting" : picture.state === "done" && picture.needsText ? "needs-text" : picture.state}>${isToReview ? "To review" : stateText(picture)}</span>
            ${place !== undefined && html` · <span class="number">${place + 1} of ${pictures.length}</span>`}</p>
        </div>
        ${left > 1 && html`<button type="button" class="main accept-all" aria-keyshortcuts="Enter" onClick=${() => onAccept(false)}>Accept ${left === translations.length ? "all " : ""}${left} languages <kbd aria-hidden="true">⏎</kbd></button>`}
        <button type="button" class="icon" aria-label="Previous picture (k)" aria-keyshortcuts="k" disabled=${neighbour(-1) === null} onClick=${() => onGo(-1)}>↑</button>
        <button type="button" class="icon" aria-label="Next picture (j)" aria-keyshortcuts="j" disabled=${neighbour(1) === null} onClick=${() => onGo(1)}>↓</button>
      </header>
      <div class="detail-body" ref=${body}>
        <div class="detail-picture" id="detail-picture" tabindex="-1" role="group" aria-label="Picture" onKeyDown=${onPictureKey} onFullscreenChange=${onFullScreen}>
          <${Compare} picture=${picture} />
        </div>
        <div class="detail-files">
          <${Files} picture=${picture} />
        </div>
        <${Splitter} name="picture" label="Width of the picture" of="detail-picture" share=${PICTURE_SHARE} />
        <div class="detail-texts">
          ${job.errors?.length > 0 && html`
            <ul class="problems">${job.errors.map(({ stage, message }) => html`<li key=${stage}><strong>${STAGE_LABELS[stage] ?? stage}:</strong> ${message}</li>`)}
              <li><button type="button" class="small" onClick=${() => onRepeat(picture)}>Process again</button></li></ul>`}
          ${image.translations.length === 0 && html`<p class="hint">${isOpen(picture) ? "The texts are not written yet." : "This picture has no texts."}</p>`}
          ${image.translations.length > 0 && html`<${Role} picture=${picture} onWrite=${() => moveFrom(undefined, 1)} />`}
          ${image.translations.map((translation) => html`
            <${TextEditor} key=${keyOf(id, translation.language_code)} picture=${picture} translation=${translation}
              language=${languageName(translation.language_code)} isOpen=${translation === open}
              onOpen=${() => setOpened(keyOf(id, translation.language_code))} onMove=${(step) => moveFrom(translation.language_code, step)}
              onAccept=${() => moveFrom(translation.language_code, 1) || onAccept(true)}
              onRegenerate=${() => onRegenerate([translation.language_code])}
              onTranslate=${image.translations.length > 1 ? () => onTranslate(translation.language_code) : null} />`)}
          <footer class="detail-foot">
            <${CopyMenu} pictures=${[picture]} languageName=${languageName} />
            <span class="spacer"></span>
            ${image.translations.length > 0 && !isDecorative(picture) && html`<button type="button" onClick=${() => markDecorative(picture)}>Mark as decorative</button>`}
            <button type="button" class="danger" onClick=${() => onDelete([picture])}>Delete…</button>
          </footer>
        </div>
      </div>
    </section>`;
}

/** Whether a person decided that screen readers skip the picture. */
const isDecorative = ({ image }) => image.translations.every(({ source, seo_alt_text: altText }) => source === "person" && altText === "");

/** What a picture is, or seems to be. `onWrite()` is called when a person wants to write texts for a decorative one. */
function Role({ picture, onWrite }) {
  const { id, image: { translations, suggested_role: suggested, suggested_role_reason: reason }, details } = picture;
  const codes = translations.map(({ language_code: code }) => code);
  const unmark = () => reporting(async () => {
    await whenAnswered(); // the mark may be on its way
    const texts = pictureOf(id)?.details.texts;
    if (codes.every((code) => texts?.[code]?.can_undo)) await Promise.all(codes.map((code) => restoreText(id, code, "undo")));
    else onWrite();
  });
  if (isDecorative(picture)) {
    return html`<p class="role-note">Decorative: screen readers skip this picture. <button type="button" class="small" onClick=${unmark}>Not decorative</button></p>`;
  }
  const context = CONTEXT_ROLES[details.role];
  if (context) {
    return html`<p id="role-note" class="role-note hint">This picture is a ${details.role}. Its texts were made from what you said: ${context}. Those words are not stored, so the texts can't be regenerated.</p>`;
  }
  return ROLE_LABELS[suggested] && html`<p class="role-note">This seems to be ${ROLE_LABELS[suggested]}. <span class="hint">${reason}</span></p>`;
}

/** In words, how much a result with an SSIMULACRA 2 score of at least this differs from the original. */
const LIKENESS = [[85, "looks the same"], [70, "looks almost the same"], [50, "differs a little"], [-Infinity, "differs visibly"]];

/** How much a result differs from the original, in words and as a number, or "" where it was not measured. */
function likeness({ details }, which) {
  const score = details[`${which}_score`] ?? null;
  return score === null ? "" : `${LIKENESS.find(([least]) => score >= least)[1]} · ${score.toFixed(1)}`;
}

/** The size and the likeness of the compared result in one line, which opens into all files and what is known of them. */
function Files({ picture }) {
  const { image, details } = picture;
  const { available, variant } = useVariants(picture);
  const size = image[`${variant}_size`];
  const score = likeness(picture, variant);
  return html`
    <details class="files">
      <summary><span class="number">${variant === null ? bytes(image.original_size)
        : `${bytes(image.original_size)} → ${bytes(size)} (${savedShare(size, image.original_size)})`} ${formatLabel(picture, variant ?? "original")}</span>
        ${score && html`<span class="number hint" title="Measured: 100 is identical to the original">${score}</span>`}
        ${details.remaking && html`<span class="tag">being made anew…</span>`}</summary>
      <${Sizes} picture=${picture} shown=${["original", ...available]} />
      <${Removed} picture=${picture} />
    </details>
    ${["optimized", "converted"].flatMap((which) => details[`${which}_notes`].map(({ code, message }) => html`
      <p key=${`${which} ${code}`} class="hint"><strong>${variantLabel(picture, which) || "Not converted"}:</strong> ${message}</p>`))}
    ${details.remake_error && html`<p class="problem">${details.remake_error}</p>`}`;
}

/** The sizes of the files of a picture that are `shown`, and of its widths, with buttons to download them. */
function Sizes({ picture, shown }) {
  const { image, details } = picture;
  const { variants = [] } = image;
  const save = (path, name) => reporting(async () => {
    const url = URL.createObjectURL(await fileOf(image.id, path, { stream: true }));
    download(url, name);
    setTimeout(() => URL.revokeObjectURL(url), SAVED_AFTER_MS);
  });
  const files = [
    ...shown.map((which) => ({ path: which, label: which === "original" ? "Original" : variantLabel(picture, which), size: image[`${which}_size`], name: downloadName(picture, which) })),
    ...variants.map(({ width, height, size }) => ({
      path: `converted?width=${width}`, label: `${formatLabel(picture, "converted")} ${width} × ${height}`, size, name: variantName(picture, width), spoken: `${width} pixels wide`,
    })),
  ];
  const facts = [
    details.width_px && `${details.width_px} × ${details.height_px} px`,
    details.pages > 1 && `the first of ${details.pages} pages`,
    (details.max_width_px || details.max_height_px) && `results fit into ${details.max_width_px ?? "any"} × ${details.max_height_px ?? "any"} px`,
    details.project?.name,
    details.taken_at && `taken ${dateTime(details.taken_at)}`,
    `added ${dateTime(picture.createdAt)}`,
  ].filter(Boolean);
  return html`
    <table class="sizes">
      <caption class="visually-hidden">Files</caption>
      <thead class="visually-hidden"><tr><th scope="col">File</th><th scope="col">Size</th><th scope="col">Saved</th><th scope="col">Download</th></tr></thead>
      <tbody>
        ${files.map(({ path, label, size, name, spoken = label }) => html`
          <tr key=${path}>
            <th scope="row"><span>${label}</span>${shown.length > 2 && path === picture.best && html` <span class="tag good">serve this one</span>`}</th>
            <td class="number">${bytes(size)}</td>
            <td class="number">${path !== "original" && shown.includes(path) && savedShare(size, image.original_size)}</td>
            <td class="download"><button type="button" class="small" aria-label=${`Download ${spoken}`} onClick=${() => save(path, name)}>Download</button></td>
          </tr>`)}
      </tbody>
    </table>
    <p class="hint">${facts.join(" · ")}</p>`;
}

/** The kinds of private data that were removed from the results. */
function Removed({ picture: { image, state } }) {
  const { removed } = image;
  const hasResult = image.optimized_size !== null || image.converted_size !== null;
  if (!Array.isArray(removed) || (!hasResult && removed.length === 0)) return null;
  return html`
    <div class="removed">
      <h3>Removed from the results</h3>
      ${removed.length === 0
        ? html`<p class="hint">${state === "done" ? "Nothing: the file held no private data." : "Nothing yet."}</p>`
        : html`<ul class="tags">${removed.map((kind) => html`<li key=${kind} class="tag">${REMOVED_LABELS[kind] ?? kind}</li>`)}</ul>`}
    </div>`;
}
