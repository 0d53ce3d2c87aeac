// Adding pictures: the introduction, the options of an upload, the buttons and the drop zone, what is being sent, what was refused.

import { html, useLayoutEffect, useRef, useState } from "./preact.js";
import { TARGETS, bytes, counted, number } from "./format.js";
import { Dialog } from "./messages.js";
import { preserved, useObservable } from "./observable.js";
import { local } from "./service.js";
import { projects } from "./store.js";
import { addFiles, cancelUploads, filesOfInput, refused, retryRefused, uploads } from "./upload.js";
import { useLoaded } from "./view-parts.js";

const MAX_CONTEXT_CHARS = 500;
const MAX_PROJECT_CHARS = 255;
const MAX_SIDE_PX = 65_535;
const SIDE_CHOICES = ["", "1280", "1600", "1920", "2560", "3840"]; // the longest side of the results in pixels; "" is that of the original
/** What the pictures are for: `context` is the label of the field that says more, and `needed` where the alt text is made from it. */
const ROLES = {
  informative: { label: "Content", context: "What the pictures are for", example: "The heading of the page or article, for better alt texts" },
  decorative: { label: "Decoration (no alt text)" },
  link: { label: "Link", context: "Where the link leads", example: "Such as: the opening hours of the museum", needed: true },
  button: { label: "Button", context: "What the button does", example: "Such as: searches the catalogue", needed: true },
};
const ACCEPT = "image/jpeg,image/png,image/gif,image/webp,image/tiff,image/heic,image/heif,.tif,.tiff,.heic,.heif";

/** The options of the next upload. All but the role and the context are preserved between visits. */
export const options = preserved("imgproc-local.options", { project: "", languages: null, format: "webp", side: "", role: "informative", context: "" }, ["role", "context"]);

/** The chosen languages that the service offers, else the first two of the browser, else English. */
function chosenLanguages(languages, maximum) {
  const offered = (codes) => [...new Set(codes)].filter((code) => languages.some((language) => language.code === code)).slice(0, maximum);
  const chosen = offered(Array.isArray(options.value.languages) ? options.value.languages : []);
  if (chosen.length > 0) return chosen;
  // browsers may call Norwegian Bokmål (nb) by the older code "no"
  const preferred = offered(navigator.languages.map((tag) => tag.split("-")[0].replace("no", "nb")));
  return preferred.length > 0 ? preferred.slice(0, 2) : ["en"];
}

/** The form fields of an upload, from the current options. */
function formFields(languages, overview) {
  const { project, format, side, role, context } = options.value;
  const fields = chosenLanguages(languages, overview.max_languages).map((code) => ["languages", code]);
  fields.push(["format", format], ["role", role]);
  if (project.trim() !== "") fields.push(["project_name", project.trim()]);
  if (side !== "") fields.push(["max_width_px", side], ["max_height_px", side]);
  if (context.trim() !== "") fields.push(["context", context.trim()]);
  return fields;
}

/** Send `found`, a list of { file, path }, with the current options. */
export function addPictures(found, { overview, languages }) {
  if (found.length === 0) return;
  addFiles(found, formFields(languages, overview), overview);
  // pictures that are dropped later, beside these options, are not decoration because the last ones were
  options.set({ ...options.value, role: "informative" });
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
      <input ref=${files} class="file-input" type="file" multiple hidden accept=${ACCEPT} onChange=${chosen} />
      <input ref=${folder} class="folder-input" type="file" multiple hidden webkitdirectory onChange=${chosen} />
    </div>`;
}

/** The dialog to add pictures. `onClose` is also called when files have been chosen, before `onFiles`. */
export function AddDialog({ app, languages, onFiles, onClose }) {
  return html`
    <${Dialog} label="Add pictures" onClose=${onClose} class="add-dialog">
      <${Options} overview=${app.overview} languages=${languages} />
      <div class="drop">
        <${ChooseButtons} autofocus onFiles=${(found) => { onClose(); onFiles(found); }} />
        <p class="hint">Or drop pictures and folders anywhere on this page, or paste them. JPEG, PNG, GIF, WebP, TIFF, and HEIC where its
          support is installed. They stay on this computer.</p>
      </div>
    </${Dialog}>`;
}

/** What is shown while there are no pictures. Until a model is in use, with an introduction. */
export function NoPictures({ app, languages, onFiles }) {
  return html`
    <div class="no-pictures">
      ${app.overview.described_by.model === null && html`<${Welcome} app=${app} />`}
      <div class="drop large">
        <h2>Drop pictures or folders here</h2>
        <p class="hint">JPEG, PNG, GIF, WebP, TIFF, and HEIC where its support is installed. They stay on this computer.</p>
        <${ChooseButtons} onFiles=${onFiles} />
      </div>
      <${Options} overview=${app.overview} languages=${languages} />
    </div>`;
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
            <li><strong>Smaller files</strong> that look the same: JPEG, PNG, WebP, GIF, TIFF, and HEIC where its support is installed.</li>
            <li><strong>WebP or AVIF</strong> versions for your website.</li>
            <li><strong>File names and alt texts</strong> from the titles, captions and keywords in your files, in up to ${app.overview.max_languages} languages at once.</li>
            <li><strong>Privacy</strong>: positions, serial numbers and addresses are removed, and you see what was.</li>
          </ul>
        </div>
        <div>
          <h3>With a vision model</h3>
          <p>A model looks at each picture and describes it, also where the file has no words.</p>
          ${offered && html`<p><strong>${offered.name}</strong> fits this machine: a download of ${bytes(offered.size_bytes)}, and ${bytes(offered.memory_bytes)} of memory.</p>`}
          <div class="actions"><button type="button" class="main" onClick=${() => app.go("models")}>Choose a model</button></div>
        </div>
      </div>
    </section>`;
}

function Options({ overview, languages }) {
  const value = useObservable(options);
  const known = useObservable(projects);
  const set = (changes) => options.set({ ...options.value, ...changes });
  const role = ROLES[value.role] ?? ROLES.informative;
  const custom = !SIDE_CHOICES.includes(value.side);
  return html`
    <div class="options">
      <label class="field"><span>Project</span>
        <input type="text" value=${value.project} maxlength=${MAX_PROJECT_CHARS} placeholder="API Uploads" list="projects" autocomplete="off"
          onInput=${(event) => set({ project: event.target.value })} />
        <datalist id="projects">${known.map(({ id, name }) => html`<option key=${id} value=${name} />`)}</datalist>
      </label>
      <${Languages} overview=${overview} languages=${languages} />
      <fieldset class="field"><legend>Also convert to</legend>
        <div class="choices">
          ${Object.entries(TARGETS).map(([format, { label, hint }]) => html`
            <label key=${format} class="choice"><input type="radio" name="format" value=${format} checked=${value.format === format}
              onChange=${() => set({ format })} />${hint ? `${label} (${hint})` : label}</label>`)}
        </div>
      </fieldset>
      <label class="field"><span>Longest side of the results</span>
        <select value=${custom ? "custom" : value.side} onChange=${({ target }) => set({ side: target.value === "custom" ? "2000" : target.value })}>
          ${SIDE_CHOICES.map((side) => html`<option key=${side} value=${side}>${side === "" ? "As the original" : `${number(Number(side))} px`}</option>`)}
          <option value="custom">Another…</option>
        </select>
        ${custom && html`<input type="number" min="1" max=${MAX_SIDE_PX} value=${value.side} aria-label="Longest side in pixels"
          onChange=${({ target }) => set({ side: String(Math.min(MAX_SIDE_PX, Math.max(1, Math.round(Number(target.value)) || 1))) })} />`}
      </label>
      <label class="field"><span>Role on the page</span>
        <select value=${value.role} onChange=${({ target }) => set({ role: target.value })}>
          ${Object.entries(ROLES).map(([name, { label }]) => html`<option key=${name} value=${name}>${label}</option>`)}
        </select>
      </label>
      ${role.context && html`
        <label class="field wide"><span>${role.context}</span>
          <textarea rows="2" maxlength=${MAX_CONTEXT_CHARS} value=${value.context} placeholder=${role.example} required=${role.needed}
            onInput=${(event) => set({ context: event.target.value })}></textarea>
        </label>`}
      <p class="hint wide">The quality of the results is a setting of the service: <code>quality_target</code>.</p>
      <p class="hint wide">${describedBy(overview.described_by)}</p>
    </div>`;
}

/** A sentence on where the texts come from: a vision model, or without one, the metadata. */
function describedBy({ model, problem }) {
  const fallback = "Texts are made from the words in the metadata; a picture without any is marked “needs text”.";
  if (problem !== null) return `The vision model ${model} can't be used: ${problem} ${fallback}`;
  return model === null ? `No vision model is in use. ${fallback}` : `Texts are written by the vision model ${model}.`;
}

function Languages({ overview, languages }) {
  const [query, setQuery] = useState("");
  const chosen = chosenLanguages(languages, overview.max_languages);
  const full = chosen.length >= overview.max_languages;
  const nameOf = (code) => languages.find((language) => language.code === code)?.name ?? code;
  const toggle = (code) => options.set({
    ...options.value, languages: chosen.includes(code) ? chosen.filter((other) => other !== code) : [...chosen, code],
  });
  const matching = languages.filter(({ name, native_name: nativeName }) => `${name} ${nativeName}`.toLowerCase().includes(query.trim().toLowerCase()));
  return html`
    <fieldset class="field"><legend>Languages</legend>
      <details class="languages">
        <summary>${chosen.map(nameOf).join(", ")}</summary>
        <input type="search" aria-label="Find a language" placeholder="Find a language" value=${query} onInput=${(event) => setQuery(event.target.value)} />
        <ul>
          ${matching.map(({ code, name, native_name: nativeName }) => html`
            <li key=${code}><label class="choice">
              <input type="checkbox" checked=${chosen.includes(code)} disabled=${full && !chosen.includes(code)} onChange=${() => toggle(code)} />
              <span>${name}${nativeName === name ? "" : html` <span class="hint" lang=${code}>${nativeName}</span>`}</span>
            </label></li>`)}
        </ul>
        ${full && html`<p class="hint">You can choose at most ${overview.max_languages} languages.</p>`}
      </details>
    </fieldset>`;
}

/** What is being sent, and which files were not added. Renders nothing while there is neither. */
export function UploadStatus() {
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
          <button type="button" class="small" onClick=${() => refused.set([])}>Close</button>
        </p>
      </details>`}`;
}

/**
 * Calls `onOver(true)` while files are dragged over the page, `onOver(false)` when they leave it or are dropped, and
 * `onDrop(transfer)` and `onPaste(data)` for dropped and pasted files.
 */
export function useFileDrops({ onOver, onDrop, onPaste }) {
  const latest = useRef({});
  latest.current = { onOver, onDrop, onPaste };
  // useEffect would begin a frame later: the browser would open a file that is dropped meanwhile
  useLayoutEffect(() => {
    const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    // the whole page accepts drops, because the browser would open a file that is dropped beside the list; `dragenter` counts
    // where the page changes below the pointer just before the drop
    const over = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      latest.current.onOver(true);
    };
    const leave = (event) => { if (event.relatedTarget === null) latest.current.onOver(false); };
    const drop = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      latest.current.onOver(false);
      latest.current.onDrop(event.dataTransfer);
    };
    const paste = (event) => {
      if (event.clipboardData.files.length === 0) return;
      event.preventDefault();
      latest.current.onPaste(event.clipboardData);
    };
    const listeners = { dragenter: over, dragover: over, dragleave: leave, drop, paste };
    for (const [name, listener] of Object.entries(listeners)) document.addEventListener(name, listener);
    return () => { for (const [name, listener] of Object.entries(listeners)) document.removeEventListener(name, listener); };
  }, []);
}
