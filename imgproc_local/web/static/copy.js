// Copies texts to the clipboard, and pictures as HTML, Markdown, JSON or alt texts.

import { html, useEffect, useRef, useState } from "./preact.js";
import { announce } from "./messages.js";
import { downloadName, extensionOf } from "./format.js";

const CONFIRM_MS = 2000;

/** The formats in which the user can copy `pictures`; `code` is the language of their texts. */
const FORMATS = {
  img: { label: "HTML <img>", write: (pictures, code) => pictures.map((picture) => imgTag(picture, code)).join("\n") },
  picture: { label: "HTML <picture>", write: (pictures, code) => pictures.map((picture) => pictureTag(picture, code)).join("\n") },
  markdown: { label: "Markdown", write: (pictures, code) => pictures.map((picture) => markdown(picture, code)).join("\n\n") },
  json: { label: "JSON", write: (pictures) => JSON.stringify(pictures.map(asData), null, 2) },
  alt: { label: "Alt text only", write: (pictures, code) => pictures.map((picture) => altOf(picture, code)).join("\n") },
};

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const translationOf = ({ image }, code) => image.translations.find((translation) => translation.language_code === code) ?? image.translations[0];

/** The alt text in the language `code`, or else in the first one; "" while a person still has to write it. */
function altOf(picture, code) {
  const translation = translationOf(picture, code);
  return translation === undefined || translation.needs_text ? "" : translation.seo_alt_text;
}

function fileOf(picture, which, code) {
  const translation = translationOf(picture, code);
  return translation ? `${translation.seo_filename}.${extensionOf(picture, which)}` : downloadName(picture, which);
}

/** The width and height of the results as attributes, if they are known. */
function dimensions({ details: { width_px: width, height_px: height, max_width_px: maxWidth, max_height_px: maxHeight } }) {
  if (!width) return "";
  const scale = Math.min(1, (maxWidth ?? Infinity) / width, (maxHeight ?? Infinity) / height);
  return ` width="${Math.max(1, Math.round(width * scale))}" height="${Math.max(1, Math.round(height * scale))}"`;
}

/** The attribute `alt`; none while a person still has to write the text, because `alt=""` says that it is decorative. */
const altAttribute = (picture, code) => (translationOf(picture, code)?.needs_text ? "" : ` alt="${escaped(altOf(picture, code))}"`);

const imgTag = (picture, code, which = picture.best) =>
  `<img src="${escaped(fileOf(picture, which, code))}"${altAttribute(picture, code)}${dimensions(picture)} loading="lazy">`;

function pictureTag(picture, code) {
  const { image } = picture;
  if (image.converted_size === null || picture.best !== "converted" || image.optimized_size === null) return imgTag(picture, code);
  return [
    "<picture>",
    `  <source srcset="${escaped(fileOf(picture, "converted", code))}" type="image/${image.converted_format}">`,
    `  ${imgTag(picture, code, "optimized")}`,
    "</picture>",
  ].join("\n");
}

const markdown = (picture, code) =>
  `![${altOf(picture, code).replaceAll(/[\\[\]]/g, "\\$&")}](${fileOf(picture, picture.best, code)})`;

const asData = (picture) => ({
  original_filename: picture.name,
  file: fileOf(picture, picture.best),
  translations: picture.image.translations.filter((translation) => !translation.needs_text),
});

/** Copy `text` to the clipboard. True if the browser allowed it. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // browsers allow that only over https or on localhost; over http from another machine, a selection can be copied
    const field = document.createElement("textarea");
    field.className = "visually-hidden";
    field.readOnly = true;
    field.value = text;
    const focused = document.activeElement;
    (document.querySelector("dialog[open]") ?? document.body).append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return done;
  }
}

/** A button that copies the text that `write()` returns, and announces that. `what` names it, such as "the key". */
export function CopyButton({ write, what = "", class: className = "" }) {
  const [label, setLabel] = useState("Copy");
  const timer = useRef(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    const done = await copyText(write());
    setLabel(done ? "Copied" : "Not copied");
    announce(done ? `Copied${what && ` ${what}`}.` : "The browser did not allow copying.");
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setLabel("Copy"), CONFIRM_MS);
  };
  return html`<button type="button" class=${className} aria-label=${what ? `Copy ${what}` : null} onClick=${copy}>${label}</button>`;
}

/** Lets the user copy `pictures` in a format and a language. */
export function CopyMenu({ pictures, languageName }) {
  const [format, setFormat] = useState("img");
  const [language, setLanguage] = useState("");
  const codes = [...new Set(pictures.flatMap(({ image }) => image.translations.map((translation) => translation.language_code)))];
  const code = codes.includes(language) ? language : codes[0];
  return html`
    <div class="copy-menu" role="group" aria-label="Copy">
      <select aria-label="Format" value=${format} onChange=${(event) => setFormat(event.target.value)}>
        ${Object.entries(FORMATS).map(([name, { label }]) => html`<option key=${name} value=${name}>${label}</option>`)}
      </select>
      ${codes.length > 1 && format !== "json" && html`
        <select aria-label="Language" value=${code} onChange=${(event) => setLanguage(event.target.value)}>
          ${codes.map((each) => html`<option key=${each} value=${each}>${languageName(each)}</option>`)}
        </select>`}
      <${CopyButton} write=${() => FORMATS[format].write(pictures, code)} />
    </div>`;
}
