// The details of one picture: the comparison, the sizes, what was removed, and the texts of every language.

import { html, useEffect, useRef } from "./preact.js";
import { Compare } from "./compare.js";
import { CopyMenu } from "./copy.js";
import { bytes, dateTime, download, downloadName, variantLabel } from "./format.js";
import { stateText } from "./list.js";
import { useChanges, useObservable } from "./observable.js";
import { fileOf } from "./service.js";
import { TextEditor } from "./text-editor.js";
import { arrangement, changes, neighbour, pictureOf } from "./store.js";
import { isOpen } from "./progress.js";
import { markDecorative, reporting } from "./texts.js";

const SAVED_AFTER_MS = 60_000; // until then, the browser has saved a file that it downloads
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
 * `onRepeat(picture)` and `onRegenerate(codes)` are called by buttons, `onAccepted()` when the text of the last language was
 * accepted. Each time the counter `focusTexts` grows, the first text that needs one gets the focus, else the first. `comparison`
 * has the `variant` that is compared and whether it is `zoomed`; `onCompare(change)` changes it.
 */
export function Detail({ id, languageName, onGo, onClose, onDelete, onRepeat, onRegenerate, onAccepted, focusTexts, comparison, onCompare }) {
  useChanges(changes, (changed) => changed.has(id));
  const { places, pictures } = useObservable(arrangement);
  const body = useRef(null);
  const picture = pictureOf(id);
  useEffect(() => { body.current?.scrollTo(0, 0); }, [id]);
  const focused = useRef(focusTexts);
  useEffect(() => {
    if (focusTexts === focused.current) return;
    focused.current = focusTexts;
    (body.current?.querySelector("[data-needs] [data-alt]") ?? body.current?.querySelector("[data-alt]"))?.focus();
  }, [focusTexts, id]);
  if (picture === undefined) return html`<section class="detail empty"><p class="hint">This picture was deleted.</p></section>`;

  const { image, name, job } = picture;
  const place = places.get(id);
  const available = ["optimized", "converted"].filter((which) => image[`${which}_size`] !== null);
  const variant = available.includes(comparison.variant) ? comparison.variant : available.includes(picture.best) ? picture.best : available[0] ?? null;
  const onTextAccepted = (code) => {
    const fields = [...body.current.querySelectorAll("[data-alt]")];
    const next = fields[fields.findIndex((field) => field.dataset.alt === code) + 1];
    if (next) next.focus();
    else onAccepted();
  };
  return html`
    <section class="detail" aria-labelledby="detail-title">
      <header class="detail-head">
        <button type="button" class="icon back" aria-label="Back to the list" onClick=${onClose}>←</button>
        <div class="detail-name">
          <h2 id="detail-title" tabindex="-1" dir="auto">${name}</h2>
          <p class="hint"><span class="status" data-state=${picture.state === "done" && picture.needsText ? "needs-text" : picture.state}>${stateText(picture)}</span>
            ${place !== undefined && html` · <span class="number">${place + 1} of ${pictures.length}</span>`}</p>
        </div>
        <button type="button" class="icon" aria-label="Previous picture (k)" aria-keyshortcuts="k" disabled=${neighbour(-1) === null} onClick=${() => onGo(-1)}>↑</button>
        <button type="button" class="icon" aria-label="Next picture (j)" aria-keyshortcuts="j" disabled=${neighbour(1) === null} onClick=${() => onGo(1)}>↓</button>
      </header>
      <div class="detail-body" ref=${body}>
        <div class="detail-picture">
          <${Compare} key=${image.id} imageId=${image.id} name=${name} variant=${variant} variantLabel=${variant && variantLabel(picture, variant)}
            zoomed=${comparison.zoomed} onZoom=${() => onCompare({ zoomed: !comparison.zoomed })} />
          <div class="compare-tools">
            <div class="segments" role="group" aria-label="Compare the original with">
              ${available.map((which) => html`
                <button key=${which} type="button" class="small" aria-pressed=${String(which === variant)} onClick=${() => onCompare({ variant: which })}>${variantLabel(picture, which)}</button>`)}
            </div>
            <span class="spacer"></span>
            <button type="button" class="small" aria-pressed=${String(comparison.zoomed)} aria-keyshortcuts="z" onClick=${() => onCompare({ zoomed: !comparison.zoomed })}>100 %</button>
          </div>
          <${Sizes} picture=${picture} />
          <${Removed} picture=${picture} />
        </div>
        <div class="detail-texts">
          ${job.errors?.length > 0 && html`
            <ul class="problems">${job.errors.map(({ stage, message }) => html`<li key=${stage}><strong>${STAGE_LABELS[stage] ?? stage}:</strong> ${message}</li>`)}
              <li><button type="button" class="small" onClick=${() => onRepeat(picture)}>Process again</button></li></ul>`}
          ${image.translations.length === 0 && html`<p class="hint">${isOpen(picture) ? "The texts are not written yet." : "This picture has no texts."}</p>`}
          ${image.translations.length > 0 && html`<${Role} picture=${picture} />`}
          ${image.translations.map((translation) => html`
            <${TextEditor} key=${`${id} ${translation.language_code}`} picture=${picture} translation=${translation}
              language=${languageName(translation.language_code)} onAccept=${() => onTextAccepted(translation.language_code)}
              onRegenerate=${() => onRegenerate([translation.language_code])} />`)}
          <footer class="detail-foot">
            <${CopyMenu} pictures=${[picture]} languageName=${languageName} />
            <span class="spacer"></span>
            <button type="button" class="danger" onClick=${() => onDelete([picture])}>Delete…</button>
          </footer>
        </div>
      </div>
    </section>`;
}

/** What a picture is, or seems to be, and a button that marks it as decorative. */
function Role({ picture }) {
  const { image: { translations, suggested_role: suggested, suggested_role_reason: reason } } = picture;
  const isDecorative = translations.every(({ source, seo_alt_text: altText }) => source === "person" && altText === "");
  if (isDecorative) return html`<p class="role-note">Decorative: screen readers skip this picture.</p>`;
  return html`
    <div class="role-note">
      ${ROLE_LABELS[suggested] && html`<p>This seems to be ${ROLE_LABELS[suggested]}. <span class="hint">${reason}</span></p>`}
      <button type="button" class="small" onClick=${() => markDecorative(picture)}>Mark as decorative</button>
    </div>`;
}

/** The sizes of the files of a picture, with buttons to download them. */
function Sizes({ picture }) {
  const { image, details } = picture;
  const save = (which) => reporting(async () => {
    const url = URL.createObjectURL(await fileOf(image.id, which, { stream: true }));
    download(url, downloadName(picture, which));
    setTimeout(() => URL.revokeObjectURL(url), SAVED_AFTER_MS);
  });
  const rows = [{ which: "original", label: "Original", size: image.original_size }];
  for (const which of ["optimized", "converted"]) {
    const size = image[`${which}_size`];
    if (size !== null) rows.push({ which, label: variantLabel(picture, which), size });
  }
  const isLimited = details.max_width_px || details.max_height_px;
  return html`
    <table class="sizes">
      <caption class="visually-hidden">Files</caption>
      <thead class="visually-hidden"><tr><th scope="col">File</th><th scope="col">Size</th><th scope="col">Saved</th><th scope="col">Download</th></tr></thead>
      <tbody>
        ${rows.map(({ which, label, size }) => {
          const saved = Math.round(100 * (1 - size / image.original_size));
          return html`
            <tr key=${which}>
              <th scope="row"><span>${label}</span>${rows.length > 1 && which === picture.best && html` <span class="tag good">serve this one</span>`}</th>
              <td class="number">${bytes(size)}</td>
              <td class="number">${which === "original" ? "" : saved > 0 ? `−${saved} %` : saved < 0 ? `+${-saved} %` : "same"}</td>
              <td class="download"><button type="button" class="small" aria-label=${`Download ${label}`} onClick=${() => save(which)}>Download</button></td>
            </tr>`;
        })}
      </tbody>
    </table>
    <p class="hint">${details.width_px ? `${details.width_px} × ${details.height_px} px` : ""}${details.pages > 1 ? ` · the first of ${details.pages} pages` : ""}${isLimited ? ` · results fit into ${details.max_width_px ?? "any"} × ${details.max_height_px ?? "any"} px` : ""}${details.project ? ` · ${details.project.name}` : ""} · ${dateTime(picture.createdAt)}</p>`;
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
