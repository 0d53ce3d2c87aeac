// Alt texts from a table (CSV) into the texts of pictures: alt.csv of an export, the exports of Screaming Frog and Shopify, and tables
// with a column of files and one of texts.

import { html, useEffect, useMemo, useState } from "./preact.js";
import { counted, number } from "./format.js";
import { allPictures, codesOf, latestText } from "./store.js";
import { MAX_CHARS, isOwn, saveTexts } from "./texts.js";
import { ActDialog, Choice, Select } from "./view-parts.js";

const MAX_BYTES = 20 * 1024 * 1024;
const MAX_ROWS = 10_000;
const ROW_HEIGHT = 32; // pixels, also in dialogs.css
const MARGIN_ROWS = 10;

// the headings of the columns, in small letters; the files of a row are looked for in this order
const FILE_HEADINGS = ["path", "original_filename", "file", "image src", "product image url", "destination", "address", "url", "src", "image", "filename", "file name", "name"];
const TEXT_HEADINGS = ["alt_text", "image alt text", "alt text", "alt", "text"];
const LANGUAGE_HEADINGS = ["language", "language_code", "lang", "locale"];

// ---- reading ----

/** The text of a file in UTF-8, UTF-16 or, where it is neither, Windows-1252. */
function decoded(data) {
  const bytes = new Uint8Array(data);
  const as = (encoding, fatal = false) => new TextDecoder(encoding, { fatal }).decode(bytes);
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return as("utf-16le");
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return as("utf-16be");
  // of headings in UTF-16 without a mark, every other byte is zero
  if (bytes[0] === 0 && bytes[2] === 0) return as("utf-16be");
  if (bytes[1] === 0 && bytes[3] === 0) return as("utf-16le");
  try {
    return as("utf-8", true);
  } catch {
    return as("windows-1252");
  }
}

/** The delimiter that is most frequent in the first line, outside quotes. */
function delimiterOf(text) {
  const [line] = text.replaceAll(/"[^"]*"/g, "").split(/\r?\n/, 1);
  const count = (delimiter) => line.split(delimiter).length;
  return [",", ";", "\t"].reduce((best, each) => (count(each) > count(best) ? each : best));
}

/** The rows of a table as RFC 4180 has it, at most `limit`; empty ones are left out. */
function rowsOf(text, delimiter, limit) {
  const rows = [];
  // a field in quotes, in which "" is a quote, or one without; and what ends it
  const field = new RegExp(`(?:"([^"]*(?:""[^"]*)*)"|((?!")[^${delimiter}\\r\\n]*))(${delimiter}|\\r?\\n|\\r|$)`, "y");
  for (let row = [], isEnd = false; !isEnd && rows.length < limit; ) {
    const found = field.exec(text);
    if (found === null) throw new Error(`The quotes in row ${number(rows.length + 1)} don't match.`);
    row.push(found[1]?.replaceAll('""', '"') ?? found[2]);
    isEnd = found[3] === "";
    if (found[3] === delimiter) continue;
    if (row.some((cell) => cell.trim() !== "")) rows.push(row);
    row = [];
  }
  return rows;
}

// exports mark what a spreadsheet would calculate by an apostrophe
const withoutMarks = (text) => text.replaceAll(/(^|[;\t\n])'(?=[=+\-@＝＋－＠\t\n])/g, "$1");

/** Read a table: { entries, hasLanguages }. An entry has the names of its `files`, the `text` and, where the table says it, the language's `code`. Throws `Error`. */
async function readTable(file) {
  if (file.size > MAX_BYTES) throw new Error(`The file has more than ${MAX_BYTES / 1024 / 1024} MB.`);
  const text = decoded(await file.arrayBuffer()).replace(/^\uFEFF/, "");
  const rows = rowsOf(text, delimiterOf(text), MAX_ROWS + 2);
  const headings = (rows[0] ?? []).map((cell) => cell.trim().toLowerCase());
  const columnsOf = (names) => names.map((name) => headings.indexOf(name)).filter((column) => column >= 0);
  let files = columnsOf(FILE_HEADINGS);
  let [textColumn] = columnsOf(TEXT_HEADINGS);
  const [languageColumn] = columnsOf(LANGUAGE_HEADINGS);
  const [folderColumn] = columnsOf(["folder"]);
  const hasHeadings = files.length > 0 && textColumn !== undefined;
  if (!hasHeadings) {
    if (headings.length !== 2) throw new Error("The table needs a column of files and one of alt texts, with headings such as “file” and “alt text”.");
    files = [0];
    textColumn = 1;
  }
  const body = hasHeadings ? rows.slice(1) : rows;
  if (body.length > MAX_ROWS) throw new Error(`The table has more than ${number(MAX_ROWS)} rows. Import it in parts.`);
  const namesOf = (row) => {
    const names = files.map((column) => (row[column] ?? "").trim()).filter(Boolean);
    return row[folderColumn] && names.length > 0 ? [`${row[folderColumn]}/${names[0]}`, ...names] : names;
  };
  const entries = body.map((row) => ({
    files: namesOf(row),
    text: withoutMarks(row[textColumn] ?? "").replaceAll(/\s+/g, " ").trim(),
    code: languageColumn === undefined ? null : (row[languageColumn] ?? "").trim().toLowerCase().split(/[-_]/)[0].replace(/^no$/, "nb"),
  }));
  return { entries: entries.filter(({ text: altText, files: names }) => altText !== "" && names.length > 0), hasLanguages: languageColumn !== undefined };
}

// ---- matching ----

const normal = (name) => name.normalize("NFC").toLowerCase().replaceAll("\\", "/");
const lastOf = (path) => path.slice(path.lastIndexOf("/") + 1);
const stemOf = (name) => name.replace(/\.[a-z0-9]{2,5}$/, "");

/** A path, or that of an address, as it is compared. */
function pathOf(file) {
  if (!/^(https?:)?[/]{2}/i.test(file)) return normal(file).replace(/^\.?\//, "");
  const path = file.replace(/[?#].*$/, "").replace(/^(https?:)?\/\/[^/]*\//i, "");
  try {
    return normal(decodeURIComponent(path));
  } catch {
    return normal(path);
  }
}

/** The pictures by what a table may call them: by path, by name, by the name of an exported file, and by the name without extension. */
function indexOf(pictures) {
  const keysOf = ({ name, image, details: { folder } }) => [
    ...(folder ? [`path ${normal(folder)}/${normal(name)}`] : []), `name ${normal(name)}`, `stem ${stemOf(normal(name))}`,
    ...image.translations.flatMap(({ seo_filename: filename }) => (filename ? [`exported ${normal(filename)}`] : [])),
  ];
  return Map.groupBy(pictures.flatMap((picture) => [...new Set(keysOf(picture))].map((key) => ({ key, picture }))), ({ key }) => key);
}

/** The pictures that `file` can mean: one, several where it is ambiguous, or none. */
function picturesOf(file, index) {
  const path = pathOf(file);
  const name = lastOf(path);
  const keys = [`path ${path}`, `name ${name}`, `exported ${stemOf(name)}`, `stem ${stemOf(name)}`];
  const candidates = (keys.map((key) => index.get(key)).find(Boolean) ?? []).map(({ picture }) => picture);
  if (candidates.length < 2) return candidates;
  // a path in the table may begin further up, or further down, than the folder that was added
  const fitting = candidates.filter(({ name: own, details: { folder } }) => {
    const full = `/${normal(folder ? `${folder}/${own}` : own)}`;
    return path.includes("/") && folder && (full.endsWith(`/${path}`) || `/${path}`.endsWith(full));
  });
  return fitting.length === 1 ? fitting : candidates;
}

const STATES = {
  ready: "changed",
  own: "replaces a text that a person wrote",
  same: "the same already",
  twice: "two texts for one picture",
  ambiguous: "several pictures have this name",
  language: "no text in this language",
  long: `more than ${MAX_CHARS} characters`,
  missing: "not found",
};

/**
 * What each row of a table does: { file, text, state, picture, code }. `chosen` is the language of rows that do not say theirs;
 * `named` has the codes of languages by their names in small letters.
 */
function matched(entries, chosen, named) {
  const index = indexOf(allPictures());
  const rows = entries.map(({ files, text, code: own }) => {
    const candidates = files.map((file) => picturesOf(file, index));
    const picture = candidates.find((found) => found.length === 1)?.[0];
    const code = named.get(own) ?? (own || chosen);
    const row = { file: files[0], text, code, picture };
    if (picture === undefined) return { ...row, state: candidates.some((found) => found.length > 1) ? "ambiguous" : "missing" };
    const current = latestText(picture.id, code);
    if (current === undefined) return { ...row, state: "language" };
    if ([...text].length > MAX_CHARS) return { ...row, state: "long" };
    if (current.seo_alt_text === text && current.source === "person") return { ...row, state: "same" };
    return { ...row, state: isOwn({ id: picture.id, code }) ? "own" : "ready" };
  });
  // the files of a picture have rows of their own; with one text, they are one row
  const byText = Map.groupBy(rows.filter(({ picture }) => picture !== undefined), ({ picture, code }) => `${picture.id} ${code}`);
  for (const [first, ...others] of byText.values()) {
    for (const row of others) {
      if (first.text === row.text) row.state = null;
      else first.state = row.state = "twice";
    }
  }
  return rows.filter(({ state }) => state !== null);
}

// ---- the dialog ----

/** Imports the texts of `file`, or of one that the user chooses. */
export function ImportDialog({ file, languageName, onClose }) {
  const [{ table, problem }, setRead] = useState({ table: null });
  const [language, setLanguage] = useState("");
  const [keepsOwn, setKeepsOwn] = useState(true);
  const codes = useMemo(() => codesOf(allPictures()), [table]);
  const code = language || codes[0];
  const named = new Map(codes.map((each) => [languageName(each).toLowerCase(), each]));
  const rows = useMemo(() => (table === null ? [] : matched(table.entries, code, named)), [table, code]);
  const counts = Object.fromEntries(Object.keys(STATES).map((state) => [state, rows.filter((row) => row.state === state).length]));
  const chosen = rows.filter(({ state }) => state === "ready" || (state === "own" && !keepsOwn));

  const read = async (chosenFile) => setRead(await readTable(chosenFile).then((read) => ({ table: read }), ({ message }) => ({ table: null, problem: message })));
  useEffect(() => { if (file !== null) read(file); }, [file]);
  const apply = () => saveTexts(chosen.map(({ picture, code: each, text }) => ({ id: picture.id, code: each, words: { seo_alt_text: text } })));
  const others = Object.entries(STATES).filter(([state]) => state !== "ready" && counts[state] > 0);
  const told = others.map(([state, text]) => `${number(counts[state])}: ${state === "own" && keepsOwn ? "kept, because a person wrote them" : text}`).join("; ");
  const summary = table === null ? "" : `Changes ${counted(chosen.length, "text")} of ${counted(rows.length, "row")}.${told && ` ${told}.`}`;
  return html`
    <${ActDialog} label="Import texts" yes="Import" onClose=${onClose} onApply=${apply} class="import-dialog" preview=${chosen.length > 0 && summary} nothing=${summary}>
      <label class="field"><span>Table with a column of files and one of alt texts</span>
        <input type="file" autofocus accept=".csv,.tsv,.txt,text/csv" onChange=${(event) => { if (event.target.files.length > 0) read(event.target.files[0]); }} />
        <span class="hint">alt.csv of an export, an export of Screaming Frog or Shopify, or one of your own.</span></label>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${table !== null && !table.hasLanguages && codes.length > 1 && html`
        <${Select} label="Language of the texts" choices=${codes.map((each) => [each, languageName(each)])} value=${code} onChoose=${setLanguage} />`}
      ${counts.own > 0 && html`<${Choice} label="Keep texts that a person wrote" checked=${keepsOwn} onChange=${() => setKeepsOwn(!keepsOwn)} />`}
      ${table !== null && html`<${Preview} rows=${rows} languageName=${languageName} />`}
    </${ActDialog}>`;
}

/** The rows of the table; only those in view are in the document. */
function Preview({ rows, languageName }) {
  const [top, setTop] = useState(0);
  const from = Math.max(0, Math.floor(top / ROW_HEIGHT) - MARGIN_ROWS);
  const shown = rows.slice(from, from + 3 * MARGIN_ROWS);
  const space = (count) => count > 0 && html`<tr aria-hidden="true" style=${{ height: `${count * ROW_HEIGHT}px` }}></tr>`;
  return html`
    <div class="import-rows" tabindex="0" role="group" aria-label="Rows of the table" onScroll=${({ currentTarget }) => setTop(currentTarget.scrollTop)}>
      <table aria-rowcount=${rows.length + 1}>
        <thead><tr><th scope="col">File</th><th scope="col">Picture</th><th scope="col">Alt text</th><th scope="col">Result</th></tr></thead>
        <tbody>
          ${space(from)}
          ${shown.map(({ file, picture, text, code, state }, place) => html`
            <tr key=${from + place} aria-rowindex=${from + place + 2} data-state=${state}>
              <td dir="auto">${lastOf(file)}</td><td dir="auto">${picture?.name ?? ""}</td>
              <td lang=${code} dir="auto" title=${text}>${text}</td><td>${state === "language" ? `no text in ${languageName(code)}` : STATES[state]}</td></tr>`)}
          ${space(rows.length - from - shown.length)}
        </tbody>
      </table>
    </div>`;
}
