// The dialog that exports pictures as a ZIP file or, in browsers that can write folders, into a folder.

import { html, useEffect, useState } from "./preact.js";
import { CopyMenu } from "./copy.js";
import { bytes, counted, download } from "./format.js";
import { announce, Dialog } from "./messages.js";
import { api, local } from "./service.js";
import { isOpen } from "./progress.js";

const VARIANTS = {
  best: { label: "The smaller of the two", hint: "one file per picture, ready to upload" },
  optimized: { label: "Optimized", hint: "in the format of the original" },
  converted: { label: "WebP or AVIF", hint: "the converted file" },
  original: { label: "Original", hint: "as it was uploaded, with all its metadata" },
};
const PREVIEW_AFTER_MS = 200;
const MAX_LISTED = 20;

/** Exports `pictures`: the selection, or what the list shows. `everything` says that these are all pictures of the account. */
export function ExportDialog({ pictures, everything, languageName, onClose }) {
  const [variants, setVariants] = useState(["best"]);
  const [language, setLanguage] = useState("");
  const [writeTexts, setWriteTexts] = useState(true);
  const [withoutText, setWithoutText] = useState("ask"); // what happens to pictures that need text: ask, include or omit
  const [preview, setPreview] = useState(null);
  const [problem, setProblem] = useState("");
  const [saving, setSaving] = useState(null);
  const finished = pictures.filter((picture) => !isOpen(picture));
  const needing = new Set((preview?.needs_text ?? []).map(({ image_id: imageId }) => imageId));
  const remaining = (preview?.images ?? 0) - needing.size; // pictures with a file, without those that need a text
  // undefined stands for all images of the account
  const images = everything && withoutText !== "omit" ? undefined
    : finished.map(({ image }) => image.id).filter((id) => withoutText !== "omit" || !needing.has(id));
  const request = { images, variants, write_texts: writeTexts, ...(language ? { language } : {}), allow_needs_text: withoutText === "include", allow_missing: true };
  const codes = [...new Set(pictures.flatMap(({ image }) => image.translations.map((translation) => translation.language_code)))];

  useEffect(() => {
    let stale = false;
    const timer = setTimeout(async () => {
      try {
        const body = JSON.stringify({ ...request, images: everything ? undefined : finished.map(({ image }) => image.id), dry_run: true });
        const answer = await api("/exports", { method: "POST", body, headers: { "Content-Type": "application/json" } });
        const { data } = await answer.json();
        if (stale) return;
        setPreview(data);
        setProblem("");
      } catch (error) {
        if (!stale) setProblem(error.message);
      }
    }, PREVIEW_AFTER_MS);
    return () => {
      stale = true;
      clearTimeout(timer);
    };
  }, [variants.join(), language, writeTexts, finished.length]);

  const toggle = (name) => setVariants((old) => {
    if (old.includes(name)) return old.filter((other) => other !== name);
    // "best" is the optimized or the converted file: together, a file would be in the archive twice
    const others = name === "best" ? ["optimized", "converted"] : name === "original" ? [] : ["best"];
    return [...old.filter((other) => !others.includes(other)), name];
  });

  /** Request an archive, and call `save(url)` with its address. */
  const exportWith = async (save) => {
    setProblem("");
    try {
      const { url } = await local("POST", "/exports", request);
      await save(url);
    } catch (error) {
      if (error.name !== "AbortError") setProblem(error.message);
    }
    setSaving(null);
  };
  const downloadZip = () => exportWith(async (url) => {
    download(url, url.split("/").pop());
    announce("The download has started.");
    onClose();
  });
  const saveToFolder = async () => {
    let folder;
    try {
      folder = await showDirectoryPicker({ mode: "readwrite" }); // must be called while the click is handled
    } catch {
      return; // the user chose no folder
    }
    await exportWith(async (url) => {
      const name = decodeURIComponent(url.split("/").pop()).replace(/\.zip$/, "");
      const target = await newFolder(folder, name);
      const files = await unpackInto(target, url, setSaving);
      announce(`${counted(files, "file")} saved in the new folder ${target.name}.`);
      onClose();
    });
  };

  const openCount = pictures.length - finished.length;
  const blocked = variants.length === 0 || preview === null || preview.files === 0 || (withoutText === "omit" && remaining === 0) || (needing.size > 0 && withoutText === "ask") || saving !== null;
  return html`
    <${Dialog} label=${`Export ${counted(finished.length, "picture")}`} onClose=${onClose} class="export-dialog">
      <div class="export">
        <fieldset class="field"><legend>Files of each picture</legend>
          ${Object.entries(VARIANTS).map(([name, { label, hint }]) => html`
            <label key=${name} class="choice"><input type="checkbox" checked=${variants.includes(name)} onChange=${() => toggle(name)} />
              <span>${label} <span class="hint">${hint}</span></span></label>`)}
        </fieldset>
        <label class="field"><span>Language of the file names</span>
          <select value=${language} onChange=${(event) => setLanguage(event.target.value)}>
            <option value="">First language of each picture</option>
            ${codes.map((code) => html`<option key=${code} value=${code}>${languageName(code)}</option>`)}
          </select>
        </label>
        <label class="choice"><input type="checkbox" checked=${writeTexts} onChange=${() => setWriteTexts(!writeTexts)} />
          <span>Write the alt texts into the files <span class="hint">as IPTC alt text in XMP, in all languages</span></span></label>
        ${openCount > 0 && html`<p class="hint">${counted(openCount, "picture")} still in progress ${openCount === 1 ? "is" : "are"} not part of the export.</p>`}
        ${needing.size > 0 && html`
          <fieldset class="needs-text field">
            <legend>${counted(needing.size, "picture")} ${needing.size === 1 ? "needs" : "need"} a text: choose what to do with ${needing.size === 1 ? "it" : "them"}</legend>
            <ul tabindex="0" aria-label="Pictures that need a text">${preview.needs_text.slice(0, MAX_LISTED).map(({ image_id: id, original_filename: name, languages }) => html`
              <li key=${id}><span dir="auto">${name}</span> <span class="hint">${languages.map(languageName).join(", ")}</span></li>`)}
              ${needing.size > MAX_LISTED && html`<li class="hint">and ${needing.size - MAX_LISTED} more</li>`}</ul>
            <label class="choice"><input type="radio" name="without-text" checked=${withoutText === "omit"} onChange=${() => setWithoutText("omit")} />${remaining > 0 ? "Leave them out" : "Leave them out: nothing remains"}</label>
            <label class="choice"><input type="radio" name="without-text" checked=${withoutText === "include"} onChange=${() => setWithoutText("include")} />Export them without an alt text</label>
          </fieldset>`}
        ${preview?.missing.length > 0 && html`<p class="problem">${counted(preview.missing.length, "file")} can't be exported: ${missingText(preview.missing)}</p>`}
        <p class="number" role="status">${preview === null ? "Counting the files…" : withoutText === "omit" ? `${counted(remaining, "picture")}, with alt.csv and alt.json` : `${counted(preview.files, "file")}, ${bytes(preview.bytes)}, with alt.csv and alt.json`}</p>
        ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      </div>
      <div class="dialog-actions">
        <${CopyMenu} pictures=${finished} languageName=${languageName} />
        <span class="spacer"></span>
        ${"showDirectoryPicker" in window && html`
          <button type="button" disabled=${blocked} onClick=${saveToFolder}>${saving === null ? "Save to a folder…" : `Saving ${saving}…`}</button>`}
        <button type="button" class="main" disabled=${blocked} onClick=${downloadZip}>Download ZIP</button>
      </div>
    </${Dialog}>`;
}

/** The names of the first pictures of which files are missing. */
const missingText = (missing) => missing.slice(0, 5).map(({ original_filename: name }) => name).join(", ") + (missing.length > 5 ? " …" : "");

// ---- into a folder ----
//
// Only the kind of ZIP file that the service writes is read: entries are stored (uncompressed), with their size in the header.
// Browsers move a large Blob from memory to the disk. Source: PKWARE APPNOTE 6.3.10, section 4.3.7.

const LOCAL_HEADER = 0x04034b50;
const HEADER_BYTES = 30;
const WITH_DESCRIPTOR = 0x0008; // the flag of an entry whose size follows its data

/** A new folder in `parent`, called `name` or `name 2`, `name 3` …, so that no file of the user is overwritten. */
async function newFolder(parent, name) {
  for (let number = 1; ; number += 1) {
    const candidate = number === 1 ? name : `${name} ${number}`;
    try {
      await parent.getDirectoryHandle(candidate);
    } catch (error) {
      if (error.name === "NotFoundError") return parent.getDirectoryHandle(candidate, { create: true });
      if (error.name !== "TypeMismatchError") throw error; // that error means that a file has this name
    }
  }
}

/** Write the files of the ZIP file at `url` into `folder`. `onFile(count)` is called after each. Returns how many there were. */
async function unpackInto(folder, url, onFile) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`The service responded with status ${response.status}. Export again.`);
  const archive = await response.blob().catch(() => { throw new Error("The download ended early. Export again."); });
  for (let at = 0, count = 0; ; onFile(count)) {
    const header = new DataView(await archive.slice(at, at + HEADER_BYTES).arrayBuffer());
    if (header.byteLength < HEADER_BYTES || header.getUint32(0, true) !== LOCAL_HEADER) return count; // all that follows repeats this
    if (header.getUint16(8, true) !== 0 || header.getUint16(6, true) & WITH_DESCRIPTOR) {
      throw new Error("The ZIP file can't be unpacked here: download it instead.");
    }
    const nameEnd = at + HEADER_BYTES + header.getUint16(26, true);
    const begin = nameEnd + header.getUint16(28, true);
    const name = await archive.slice(at + HEADER_BYTES, nameEnd).text();
    at = begin + header.getUint32(18, true);
    await writeFile(folder, name, archive.slice(begin, at));
    count += 1;
  }
}

async function writeFile(folder, name, content) {
  const parts = name.split("/").filter((part) => part !== "" && part !== "." && part !== "..");
  const file = parts.pop();
  for (const part of parts) folder = await folder.getDirectoryHandle(part, { create: true });
  // an error discards what was written
  await content.stream().pipeTo(await (await folder.getFileHandle(file, { create: true })).createWritable());
}
