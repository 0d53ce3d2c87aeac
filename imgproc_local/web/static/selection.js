// Acts on the selected pictures, or on the current one: the bar above the list, and a small dialog for each act.

import { html, useState } from "./preact.js";
import { QUALITIES, TARGETS, counted, number } from "./format.js";
import { ImportDialog } from "./import.js";
import { Observable, useObservable } from "./observable.js";
import { ProjectName, SIDES } from "./options.js";
import { isOpen } from "./progress.js";
import { arrangement, chosenPictures, codesOf, current, pictureOf, selection, textsOf } from "./store.js";
import { MAX_CHARS, acceptAll, acceptable, changePictures, isOwn, regenerateAll, remakePictures, saveTexts } from "./texts.js";
import { ActDialog, Choice, Select } from "./view-parts.js";

const SOURCES = { vision: "written by the model", facts: "made from words in the file", embedded: "from the file", person: "written by a person" };

/** The acts with a dialog: `label` on the button, and the `key` that opens it together with Shift. */
export const ACTS = {
  accept: { label: "Accept…", key: "A", View: AcceptDialog },
  text: { label: "Alt text…", key: "T", View: TextDialog },
  words: { label: "Caption…", key: "W", View: WordsDialog },
  regenerate: { label: "Regenerate…", key: "R", View: WriteDialog },
  language: { label: "Language…", key: "L", View: LanguageDialog },
  format: { label: "Format…", key: "F", View: FormatDialog },
  move: { label: "Move…", key: "M", View: MoveDialog },
};

/** The dialog that is open: { name, pictures, file }, or null. */
const opened = new Observable(null);

/** Open the dialog of an act for the selected pictures, or without a selection for the current one. */
export function openAct(name, pictures = selection.value.size > 0 ? chosenPictures() : [pictureOf(current.value)].filter(Boolean)) {
  if (pictures.length > 0) opened.set({ name, pictures });
}

/** Open the dialog that imports texts, from `file` or from one that the user chooses. */
export const openImport = (file = null) => opened.set({ name: "import", file });

/** What remains of the files `found` of a drop, { file, path }, when the first table of texts is imported. */
export function importTables(found) {
  const table = found.find(({ path }) => /\.(csv|tsv)$/i.test(path));
  if (table !== undefined) openImport(table.file);
  return found.filter((item) => item !== table);
}

/** The dialogs of all acts. Rendered once. `languages` are those that the service offers, and `languageName(code)` the name of one. */
export function Acts({ app, languages, languageName }) {
  const act = useObservable(opened);
  if (act === null) return null;
  const onClose = () => opened.set(null);
  if (act.name === "import") return html`<${ImportDialog} file=${act.file} languageName=${languageName} onClose=${onClose} />`;
  const { View } = ACTS[act.name];
  return html`<${View} key=${act.name} pictures=${act.pictures} app=${app} languages=${languages} languageName=${languageName} onClose=${onClose} />`;
}

/** What can be done with the selected pictures, in as many rows as it needs: what ends the work on them is first, and deleting is apart. */
export function SelectionBar({ onExport, onDelete }) {
  const count = useObservable(selection).size;
  const { pictures } = useObservable(arrangement);
  const act = (name) => html`
    <button key=${name} type="button" class="small" aria-keyshortcuts=${`Shift+${ACTS[name].key}`} onClick=${() => openAct(name)}>${ACTS[name].label}</button>`;
  return html`
    <div class="selection-bar" role="group" aria-label="Selected pictures">
      <button type="button" class="icon" aria-label="Clear the selection" onClick=${() => selection.set(new Set())}>✕</button>
      <strong class="number">${number(count)} selected</strong>
      ${count < pictures.length && html`
        <button type="button" class="small" onClick=${() => selection.set(new Set(pictures.map(({ id }) => id)))}>Select all ${number(pictures.length)} shown</button>`}
      <div class="ends">${act("accept")}
        <button type="button" class="small" onClick=${onExport}>Export…</button></div>
      <div class="acts">
        ${Object.keys(ACTS).filter((name) => name !== "accept").map(act)}
        <button type="button" class="small danger" onClick=${onDelete}>Delete…</button>
      </div>
    </div>`;
}

/** Which of `texts` are `chosen`, and which of them are the `own` ones of a person, where a `box` is ticked; else these are `kept`. */
function useReplacing(texts) {
  const [replaces, setReplaces] = useState(false);
  const own = texts.filter(isOwn);
  const box = own.length > 0 && html`
    <${Choice} label=${`Also replace ${counted(own.length, "text")} that a person wrote`} checked=${replaces} onChange=${() => setReplaces(!replaces)} />`;
  return replaces ? { chosen: texts, own, kept: 0, box } : { chosen: texts.filter((text) => !own.includes(text)), own: [], kept: own.length, box };
}

/** A sentence on what is changed and what is kept. */
const previewOf = (count, what, kept) => count > 0 && `${what} ${counted(count, "text")}${kept > 0 ? `. ${number(kept)} that a person wrote ${kept === 1 ? "is" : "are"} kept` : ""}.`;

const named = (codes, languageName) => codes.map((code) => [code, languageName(code)]);

/** From what the texts are written: "" is the picture, else the code of the language of a text. */
const SourceSelect = ({ codes, value, languageName, onChoose }) => html`
  <${Select} label="Write them from" value=${value} onChoose=${onChoose}
    choices=${[["", "The picture"], ...codes.map((code) => [code, `The text in ${languageName(code)}`])]} />`;

/** The texts of `pictures` in the languages `codes`, except those that are being written. */
const textsIn = (pictures, codes) => textsOf(pictures).filter(({ code, regenerating }) => codes.includes(code) && !regenerating);

const titleOf = (act, pictures) => `${act} ${pictures.length === 1 ? `“${pictures[0].name}”` : counted(pictures.length, "picture")}`;

function AcceptDialog({ pictures, onClose }) {
  const texts = acceptable(pictures);
  const needing = pictures.filter(({ needsText }) => needsText).length;
  const bySource = Object.entries(SOURCES).map(([source, words]) => [texts.filter((text) => text.source === source).length, words]).filter(([count]) => count > 0);
  return html`
    <${ActDialog} label=${titleOf("Accept", pictures)} yes="Accept" onClose=${onClose} onApply=${() => acceptAll(texts)}
      preview=${texts.length > 0 && `Accepts ${counted(texts.length, "text")}: ${bySource.map(([count, words]) => `${number(count)} ${words}`).join(", ")}.`}
      nothing="There is no text to accept.">
      ${needing > 0 && html`<p class="hint">${counted(needing, "picture")} still ${needing === 1 ? "needs" : "need"} a text from you.</p>`}
    </${ActDialog}>`;
}

function TextDialog({ pictures, languageName, onClose }) {
  const codes = codesOf(pictures);
  const [code, setCode] = useState(codes[0]);
  const [text, setText] = useState("");
  const { chosen, kept, box } = useReplacing(textsIn(pictures, [code]));
  const length = [...text.trim()].length;
  return html`
    <${ActDialog} label=${titleOf("Write a text for", pictures)} yes="Change" onClose=${onClose}
      onApply=${() => saveTexts(chosen.map(({ id }) => ({ id, code, words: { seo_alt_text: text.trim() } })))}
      preview=${length > 0 && length <= MAX_CHARS && previewOf(chosen.length, "Changes", kept)}
      nothing=${length > MAX_CHARS ? `A text has at most ${MAX_CHARS} characters.` : length === 0 && codes.length > 0 ? "Write the text that all of them get." : "All of these texts are a person's, and are kept."}>
      ${codes.length > 1 && html`<${Select} label="Language" choices=${named(codes, languageName)} value=${code} onChoose=${setCode} />`}
      <label class="field"><span>Alt text</span>
        <textarea autofocus rows="3" lang=${code} dir="auto" value=${text} spellcheck onInput=${(event) => setText(event.target.value.replaceAll(/[\r\n]+/g, " "))}></textarea></label>
      <p class="hint number">${length} of ${MAX_CHARS} characters</p>
      ${box}
    </${ActDialog}>`;
}

const WORDS = { caption: "Caption", keywords: "Keywords, with commas between them", credit: "Credit" };

function WordsDialog({ pictures, onClose }) {
  const asText = (value) => (Array.isArray(value) ? value.join(", ") : value ?? "");
  const former = Object.fromEntries(Object.keys(WORDS).map((name) => [name, [...new Set(pictures.map(({ details }) => asText(details.words?.[name])))]]));
  const [typed, setTyped] = useState({});
  const shown = (name) => typed[name] ?? (former[name].length === 1 ? former[name][0] : "");
  const changed = Object.keys(typed).filter((name) => former[name].length > 1 || typed[name] !== former[name][0]);
  const valueOf = (name) => {
    const text = typed[name].trim();
    if (text === "") return null;
    return name === "keywords" ? text.split(/[,;、]/).map((word) => word.trim()).filter(Boolean) : text;
  };
  const words = Object.fromEntries(changed.map((name) => [name, valueOf(name)]));
  return html`
    <${ActDialog} label=${titleOf("Change caption and keywords of", pictures)} yes="Change" onClose=${onClose} nothing="An empty field leaves what the file says."
      preview=${changed.length > 0 && `Changes the ${changed.join(" and the ")} of ${counted(pictures.length, "picture")}. Exported files have ${changed.length === 1 ? "it" : "them"}.`}
      onApply=${() => changePictures(pictures.map(({ id }) => ({ id, ...words })))}>
      ${Object.entries(WORDS).map(([name, label], place) => html`
        <label key=${name} class="field"><span>${label}</span>
          <input type="text" dir="auto" autofocus=${place === 0} value=${shown(name)} placeholder=${former[name].length > 1 ? "They differ" : ""}
            onInput=${(event) => setTyped({ ...typed, [name]: event.target.value })} /></label>`)}
    </${ActDialog}>`;
}

/** Texts written anew from the picture, or from the text in another language. */
function WriteDialog({ pictures, app, languageName, onClose }) {
  const codes = codesOf(pictures);
  const [source, setSource] = useState("");
  const { chosen, own, kept, box } = useReplacing(textsIn(pictures, codes.filter((code) => code !== source)));
  const { model } = app.overview.described_by;
  return html`
    <${ActDialog} label=${titleOf("Regenerate the texts of", pictures)} yes="Regenerate" onClose=${onClose}
      preview=${previewOf(chosen.length, "Writes", kept)} nothing="All of these texts are a person's, and are kept."
      onApply=${() => regenerateAll(chosen, own, source ? { from_language: source } : {})}>
      ${model === null && html`<p class="hint">No model is in use: the texts are made from words in the files.</p>`}
      ${codes.length > 1 && html`<${SourceSelect} codes=${codes} value=${source} languageName=${languageName} onChoose=${setSource} />`}
      ${box}
    </${ActDialog}>`;
}

function LanguageDialog({ pictures, languages, languageName, onClose }) {
  const codes = codesOf(pictures);
  const lacking = (code) => pictures.filter(({ image, state }) => state === "done" && !image.translations.some((translation) => translation.language_code === code));
  const offered = languages.map(({ code }) => code).filter((code) => lacking(code).length > 0);
  const [code, setCode] = useState("");
  const [source, setSource] = useState("");
  const chosen = code === "" ? [] : lacking(code);
  return html`
    <${ActDialog} label=${titleOf("Add a language to", pictures)} yes="Add" onClose=${onClose} nothing="Choose a language."
      preview=${chosen.length > 0 && `Writes a text in ${languageName(code)} for ${counted(chosen.length, "picture")}.`}
      onApply=${() => regenerateAll(chosen.map(({ id }) => ({ id, code })), [], source ? { from_language: source } : {})}>
      <${Select} label="Language" autofocus choices=${[["", "Choose…"], ...named(offered, languageName)]} value=${code} onChoose=${setCode} />
      <${SourceSelect} codes=${codes} value=${source} languageName=${languageName} onChoose=${setSource} />
    </${ActDialog}>`;
}

function FormatDialog({ pictures, onClose }) {
  const [format, setFormat] = useState("");
  const [quality, setQuality] = useState("");
  const [side, setSide] = useState("");
  const finished = pictures.filter((picture) => !isOpen(picture));
  const limit = side === "none" ? null : Number(side);
  const options = {
    ...(format ? { format } : {}),
    ...(quality ? { quality_target: quality } : {}),
    ...(side ? { max_width_px: limit, max_height_px: limit } : {}),
  };
  const labels = (choices) => Object.entries(choices).map(([name, { label }]) => [name, label]);
  const kept = ["", "As it is"];
  return html`
    <${ActDialog} label=${titleOf("Change the files of", pictures)} yes="Make anew" onClose=${onClose} nothing=${finished.length === 0 ? "They are still in progress." : "Choose what to change."}
      preview=${finished.length > 0 && Object.keys(options).length > 0 && `Makes the files of ${counted(finished.length, "picture")} anew. Texts and file names are kept.`}
      onApply=${() => remakePictures(finished, options)}>
      <${Select} label="Format beside the original's" autofocus choices=${[kept, ...labels(TARGETS)]} value=${format} onChoose=${setFormat} />
      <${Select} label="Quality" choices=${[kept, ...labels(QUALITIES)]} value=${quality} onChoose=${setQuality} />
      <${Select} label="Longest side" choices=${[kept, ["none", "As the original"], ...SIDES]} value=${side} onChoose=${setSide} />
    </${ActDialog}>`;
}

function MoveDialog({ pictures, onClose }) {
  const [name, setName] = useState("");
  const { projects } = useObservable(arrangement);
  const moved = pictures.filter(({ details }) => details.project?.name !== name.trim());
  return html`
    <${ActDialog} label=${titleOf("Move", pictures)} yes="Move" onClose=${onClose}
      nothing=${name.trim() === "" ? "Choose a project, or write the name of a new one." : "They are in this project already."}
      preview=${name.trim() !== "" && moved.length > 0 && `Moves ${counted(moved.length, "picture")} to ${projects.some((project) => project.name === name.trim()) ? "" : "the new project "}${name.trim()}.`}
      onApply=${() => changePictures(moved.map(({ id }) => ({ id, project_name: name.trim() })))}>
      <${ProjectName} autofocus value=${name} onName=${setName} />
    </${ActDialog}>`;
}
