// The dialog that exports pictures as a ZIP file.

import { html, useState } from "./preact.js";
import { CopyMenu } from "./copy.js";
import { bytes, counted, download, number } from "./format.js";
import { announce, Dialog } from "./messages.js";
import { preserved, useObservable } from "./observable.js";
import { api, local } from "./service.js";
import { isOpen } from "./progress.js";
import { codesOf } from "./store.js";
import { Choice, Select, useLatest } from "./view-parts.js";

const VARIANTS = {
  best: { label: "The smaller of the two", hint: "one file per picture, ready to upload" },
  optimized: { label: "Optimized", hint: "in the format of the original" },
  converted: { label: "Converted", hint: "in the format that was chosen beside it" },
  original: { label: "Original", hint: "as it was uploaded, with all its metadata" },
};
/** How files are named, by the template of the service; "" is one of the user's own. */
const NAMES = Object.entries({ "{words}": "From the words of the text", "{date}-{words}": "Date and words", "{words}-{n}": "Words and number", "{n}-{words}": "Number and words", "{original}": "As the original", "": "Another pattern…" });
/** Why a picture needs a text, by its reason; null where none is written. */
const REASONS = {
  null: "no text",
  nothing_known: "nothing is known of it",
  other_language: "its words are in another language",
  place_or_date_only: "only place or date are known",
  unread_text: "text in the picture could not be read",
};
const PREVIEW_AFTER_MS = 200;
const MAX_LISTED = 4; // with the line that says how many more, as high as the rest of the dialog leaves room for

/** What was chosen in the dialog last. `withoutText` is what happens to pictures that need a text: ask, include or omit. */
const exportChoices = preserved("imgproc-local.export", { variants: ["best"], language: "", writeTexts: true, withoutText: "ask", folders: true, template: "{words}", shopify: false });

/** Exports `pictures`: the selection, or what the list shows. `everything` says that these are all pictures of the account. */
export function ExportDialog({ pictures, everything, languageName, onClose }) {
  const choices = useObservable(exportChoices);
  const choose = (changes) => {
    setProblem("");
    exportChoices.set({ ...exportChoices.value, ...changes });
  };
  const { variants, writeTexts, withoutText, folders, template, shopify } = choices;
  const [problem, setProblem] = useState("");
  const [isStarting, setStarting] = useState(false);
  const finished = pictures.filter((picture) => !isOpen(picture));
  const codes = codesOf(pictures);
  const language = codes.includes(choices.language) ? choices.language : "";
  const request = { variants, write_texts: writeTexts, folders, name_template: template, tables: shopify ? ["shopify"] : [], ...(language ? { language } : {}), allow_needs_text: withoutText === "include", allow_missing: true };
  const { preview = null, problem: refusal } = useLatest(async (signal) => {
    const body = JSON.stringify({ ...request, images: everything ? undefined : finished.map(({ image }) => image.id), dry_run: true });
    const answer = await api("/exports", { method: "POST", body, headers: { "Content-Type": "application/json" }, signal });
    return { preview: (await answer.json()).data };
  }, [variants.join(), language, writeTexts, folders, template, finished.length], PREVIEW_AFTER_MS);
  const needing = new Set((preview?.needs_text ?? []).map(({ image_id: imageId }) => imageId));
  const remaining = (preview?.images ?? 0) - needing.size; // pictures with a file, without those that need a text
  // undefined stands for all images of the account
  const images = everything && withoutText !== "omit" ? undefined
    : finished.map(({ image }) => image.id).filter((id) => withoutText !== "omit" || !needing.has(id));
  const toggle = (name) => {
    // "best" is the optimized or the converted file: together, a file would be in the archive twice
    const others = name === "best" ? ["optimized", "converted"] : name === "original" ? [] : ["best"];
    const kept = variants.filter((other) => other !== name && !others.includes(other));
    choose({ variants: variants.includes(name) ? variants.filter((other) => other !== name) : [...kept, name] });
  };

  const downloadZip = async () => {
    setProblem("");
    setStarting(true);
    try {
      const { url } = await local("POST", "/exports", { ...request, images });
      download(url, url.split("/").pop());
      announce("The download has started.");
      onClose();
    } catch (error) {
      setProblem(error.message);
      setStarting(false);
    }
  };

  const isOffered = template !== "" && NAMES.some(([name]) => name === template);
  const them = needing.size === 1 ? "it" : "them";
  const openCount = pictures.length - finished.length;
  const mustChoose = needing.size > 0 && withoutText === "ask";
  const blocked = variants.length === 0 || preview === null || preview.files === 0 || (withoutText === "omit" && remaining === 0) || mustChoose || isStarting;
  return html`
    <${Dialog} label=${`Export ${counted(finished.length, "picture")}`} onClose=${onClose} class="export-dialog">
      <div class="export">
        <fieldset class="field"><legend>Files of each picture</legend>
          ${Object.entries(VARIANTS).map(([name, { label, hint }]) => html`
            <${Choice} key=${name} label=${label} hint=${hint} checked=${variants.includes(name)} onChange=${() => toggle(name)} />`)}
        </fieldset>
        <div class="field">
          <${Select} label="Names of the files" choices=${NAMES} value=${isOffered ? template : ""} onChoose=${(name) => choose({ template: name || "{date}-{n}-{words}" })} />
          ${!isOffered && html`
            <input type="text" aria-label="Pattern of the names" value=${template} maxlength="200" spellcheck=${false} onInput=${({ target }) => choose({ template: target.value })} />
            <p class="hint">${"{words}, {date}, {n} and {original} are replaced."}</p>`}
          <p class="hint" dir="ltr">${preview?.names?.length > 0 && `Such as ${preview.names.slice(0, 3).join(", ")}`}</p>
          ${finished.some(({ details }) => details.folder) && html`
            <${Choice} label="Keep the folders of the originals" checked=${folders} onChange=${() => choose({ folders: !folders })} />`}
        </div>
        <details>
          <summary>More choices</summary>
          <div class="export">
            <${Select} label="Language of the file names" value=${language} onChoose=${(code) => choose({ language: code })}
              choices=${[["", "First language of each picture"], ...codes.map((code) => [code, languageName(code)])]} />
            <${Choice} label="Write the alt texts into the files" hint="in all languages, where photo programs and websites look for them" checked=${writeTexts} onChange=${() => choose({ writeTexts: !writeTexts })} />
            <${Choice} label="Add a table for Shopify" hint="with file names and alt texts, for its product import" checked=${shopify} onChange=${() => choose({ shopify: !shopify })} />
            <${CopyMenu} pictures=${finished} languageName=${languageName} />
          </div>
        </details>
        ${openCount > 0 && html`<p class="hint">${counted(openCount, "picture")} still in progress ${openCount === 1 ? "is" : "are"} not part of the export.</p>`}
        ${needing.size > 0 && html`
          <fieldset class="needs-text field">
            <legend>${counted(needing.size, "picture")} ${needing.size === 1 ? "needs" : "need"} a text: choose what to do with ${them}</legend>
            <ul aria-label="Pictures that need a text">${preview.needs_text.slice(0, MAX_LISTED).map(({ image_id: id, original_filename: name, languages, reasons }) => html`
              <li key=${id}><span dir="auto">${name}</span> <span class="hint">${reasonsText(languages, reasons, languageName)}</span></li>`)}
              ${needing.size > MAX_LISTED && html`<li class="hint">and ${number(needing.size - MAX_LISTED)} more</li>`}</ul>
            <${Choice} type="radio" name="without-text" label=${`Export ${them} with the texts ${needing.size === 1 ? "it has" : "they have"}`} hint="a missing text is left empty"
              checked=${withoutText === "include"} onChange=${() => choose({ withoutText: "include" })} />
            <${Choice} type="radio" name="without-text" label=${`Leave ${them} out${remaining > 0 ? "" : ": nothing remains"}`} checked=${withoutText === "omit"} onChange=${() => choose({ withoutText: "omit" })} />
          </fieldset>`}
        ${preview?.missing.length > 0 && html`<p class="problem">${counted(preview.missing.length, "file")} can't be exported: ${missingText(preview.missing)}</p>`}
        <p class="number" role="status">${preview === null ? !refusal && "Counting the files…" : withoutText === "omit" ? `${counted(remaining, "picture")}, with alt.csv and alt.json` : `${counted(preview.files, "file")}, ${bytes(preview.bytes)}, with alt.csv and alt.json`}</p>
        ${mustChoose && html`<p class="problem">Choose above what to do with ${counted(needing.size, "picture")}.</p>`}
        ${(problem || refusal) && html`<p class="problem" role="alert">${problem || refusal}</p>`}
      </div>
      <div class="dialog-actions">
        <button type="button" class="main" disabled=${blocked} onClick=${downloadZip}>Download ZIP</button>
      </div>
    </${Dialog}>`;
}

/** The languages in which a picture needs a text, with the reason after those that share it. */
function reasonsText(languages, reasons, languageName) {
  const byReason = Map.groupBy(languages, (code) => reasons[code]);
  return [...byReason].map(([reason, codes]) => `${codes.map(languageName).join(", ")}: ${REASONS[reason] ?? REASONS[null]}`).join("; ");
}

/** The names of the first pictures of which files are missing. */
const missingText = (missing) => missing.slice(0, 5).map(({ original_filename: name }) => name).join(", ") + (missing.length > 5 ? " …" : "");
