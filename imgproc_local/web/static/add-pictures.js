// Adding pictures: the introduction, the buttons and the drop zone, what is being sent, what was refused.

import { html, useRef } from "./preact.js";
import { FORMATS, TARGETS, bytes, counted, listed, number } from "./format.js";
import { Dialog } from "./messages.js";
import { useObservable } from "./observable.js";
import { Options, forgetRole, formFields, obstacle } from "./options.js";
import { local } from "./service.js";
import { addFiles, cancelUploads, filesOfInput, refused, retryRefused, uploads } from "./upload.js";
import { useListeners, useLoaded } from "./view-parts.js";

/** What the dialog to choose files offers; also what is not available, because the service then says how it becomes so. */
const accepted = () => Object.values(FORMATS).flatMap(({ mime, extensions }) => [mime, ...extensions.map((each) => `.${each}`)]).join();

/**
 * Send `found`, a list of { file, path }, with the current options. While these are not complete, nothing is sent, and the role
 * remains.
 */
export function addPictures(found, { overview, languages }) {
  if (found.length === 0) return;
  const missing = obstacle();
  if (missing !== null) {
    refused.set([...refused.value, { name: found.length === 1 ? found[0].path : counted(found.length, "file"), reason: `${missing} Then add this again.` }]);
    return;
  }
  addFiles(found, formFields(languages, overview), overview);
  forgetRole();
}

/** Buttons to choose files or a folder. `onFiles(found)` is called with a list of { file, path } in the order of the folder. */
function ChooseButtons({ onFiles, autofocus }) {
  const files = useRef(null);
  const folder = useRef(null);
  const chosen = (event) => {
    onFiles(filesOfInput(event.target));
    event.target.value = "";
  };
  return html`
    <div class="choose">
      <button type="button" class="main" autofocus=${autofocus} onClick=${() => files.current.click()}>Choose pictures…</button>
      <button type="button" onClick=${() => folder.current.click()}>Choose a folder…</button>
      <input ref=${files} class="file-input" type="file" multiple hidden accept=${accepted()} onChange=${chosen} />
      <input ref=${folder} class="folder-input" type="file" multiple hidden webkitdirectory onChange=${chosen} />
    </div>`;
}

function Formats() {
  const [available, others] = [true, false].map((wanted) => Object.values(FORMATS).filter((each) => each.available === wanted).map(({ name }) => name));
  return html`<p class="hint">${listed(available, "conjunction")}${others.length > 0 && `; ${listed(others, "conjunction")} after support is installed`}.</p>`;
}

/** The dialog to add pictures. `onClose` is also called when files have been chosen, before `onFiles`. */
export const AddDialog = ({ app, languages, onFiles, onClose }) => html`
  <${Dialog} label="Add pictures" onClose=${onClose} class="add-dialog">
    <${Options} overview=${app.overview} languages=${languages} />
    <p class="hint">${describedBy(app.overview.described_by)}</p>
    <div class="drop">
      <${ChooseButtons} autofocus onFiles=${(found) => { onClose(); onFiles(found); }} />
      <p class="hint">Or drop pictures and folders anywhere on this page, or paste them. They stay on this computer.</p>
      <${Formats} />
    </div>
  </${Dialog}>`;

/** What is shown while there are no pictures. Until a model is in use, with an introduction. */
export function NoPictures({ app, languages, onFiles }) {
  const { described_by: description } = app.overview;
  return html`
    <div class="no-pictures">
      ${description.model === null && html`<${Welcome} app=${app} />`}
      <${Options} overview=${app.overview} languages=${languages} />
      ${description.model !== null && html`<p class="hint">${describedBy(description)} The pictures stay on this computer.</p>`}
      <div class="drop large">
        <h2>Drop pictures or folders here</h2>
        <${Formats} />
        <${ChooseButtons} onFiles=${onFiles} />
      </div>
    </div>`;
}

/** A sentence on where the texts come from: a vision model, or without one, the metadata. */
function describedBy({ model, problem }) {
  const fallback = "Texts are made from the words in the files; a picture without any is marked “needs text”.";
  if (problem !== null) return `The vision model ${model} can't be used: ${problem} ${fallback}`;
  return model === null ? `No vision model is in use. ${fallback}` : `Texts are written by the vision model ${model}.`;
}

/** What works without a model, and which model fits this machine. */
function Welcome({ app }) {
  const { data } = useLoaded(() => local("GET", "/models"));
  const offered = data?.models.find((model) => model.recommended);
  return html`
    <section class="welcome sheet" aria-labelledby="welcome-title">
      <h2 id="welcome-title">Ready. Everything stays on this computer.</h2>
      <div class="welcome-columns">
        <div>
          <h3>Works now</h3>
          <ul class="works">
            <li><strong>Smaller files</strong> that look the same.</li>
            <li><strong>${listed(Object.values(TARGETS).map(({ label }) => label))}</strong> versions for your website.</li>
            <li><strong>File names and alt texts</strong> from the titles, captions and keywords in your files, in up to ${app.overview.max_languages} languages at once. A picture without such words is marked “needs text”.</li>
            <li><strong>Privacy</strong>: positions, serial numbers and addresses are removed, and you see what was.</li>
          </ul>
        </div>
        <div>
          <h3>With a vision model</h3>
          <p>A model looks at each picture and describes it, also where the file has no words.</p>
          ${offered && html`<p><strong>${offered.name}</strong> fits this machine: a download of ${bytes(offered.size_bytes)}, and ${bytes(offered.memory_bytes)} of memory.</p>`}
          <div class="actions"><button type="button" onClick=${() => { location.hash = "models"; }}>Choose a model</button></div>
        </div>
      </div>
    </section>`;
}

/** What is being sent, and which files were not added; `onAdd` is called to choose those again that a reload lost. Renders nothing while there is neither. */
export function UploadStatus({ onAdd }) {
  const { total, sent, current, wait } = useObservable(uploads);
  const rejected = useObservable(refused);
  return html`
    ${total > 0 && html`
      <div class="upload-status">
        <p><strong>Sending ${number(Math.min(sent + 1, total))} of ${number(total)}</strong> <span class="hint" dir="auto">${wait ?? current}</span></p>
        <progress aria-label="Sent files" max=${total} value=${sent}></progress>
        <button type="button" class="small" onClick=${cancelUploads}>Stop sending</button>
      </div>`}
    ${rejected.length > 0 && html`
      <details class="refused" open=${rejected.length <= 8}>
        <summary>${counted(rejected.length, "file")} not added</summary>
        <ul tabindex="0" aria-label="Files that were not added">${rejected.map(({ name, reason }, place) => html`<li key=${place}><strong dir="auto">${name}</strong> <span>${reason}</span></li>`)}</ul>
        <p class="actions">
          ${rejected.some(({ item, isDuplicate }) => item && !isDuplicate) && html`
            <button type="button" class="small" onClick=${() => retryRefused({ duplicates: false })}>Try again</button>`}
          ${rejected.some(({ isDuplicate }) => isDuplicate) && html`
            <button type="button" class="small" onClick=${() => retryRefused({ duplicates: true })}>Add duplicates too</button>`}
          ${rejected.some(({ isLost }) => isLost) && html`<button type="button" class="small" onClick=${onAdd}>Add these again…</button>`}
          <button type="button" class="small" onClick=${() => refused.set([])}>Close</button>
        </p>
      </details>`}`;
}

/**
 * Calls `onOver(true)` while files are dragged over the page, `onOver(false)` when they leave it or are dropped, and
 * `onDrop(transfer)` and `onPaste(data)` for dropped and pasted files.
 */
export function useFileDrops({ onOver, onDrop, onPaste }) {
  // the whole page accepts drops, because the browser would open a file that is dropped beside the list
  const accept = (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    onOver(event.type !== "drop");
    if (event.type === "drop") onDrop(event.dataTransfer);
  };
  useListeners(document, {
    dragenter: accept, // counts where the page changes below the pointer just before the drop
    dragover: accept,
    drop: accept,
    dragleave(event) { if (event.relatedTarget === null) onOver(false); },
    paste(event) {
      // cells that were copied in a spreadsheet are text and a picture
      const isText = event.target.closest("input, textarea") && event.clipboardData.types.includes("text/plain");
      if (event.clipboardData.files.length === 0 || isText) return;
      event.preventDefault();
      onPaste(event.clipboardData);
    },
  });
}
