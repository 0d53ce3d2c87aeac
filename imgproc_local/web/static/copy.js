// Copies texts to the clipboard, and pictures as HTML, Markdown or alt texts.

import { html, useEffect, useRef, useState } from "./preact.js";
import { announce } from "./messages.js";
import { FORMATS as FILE_FORMATS, downloadName, textOf, variantName } from "./format.js";
import { codesOf } from "./store.js";
import { Picker } from "./view-parts.js";

const CONFIRM_MS = 2000;

/** The formats in which the user can copy `pictures`; `code` is the language of their texts. */
const FORMATS = {
  img: { label: "HTML <img>", write: (pictures, code) => pictures.map((picture) => imgTag(picture, code)).join("\n") },
  picture: { label: "HTML <picture>", write: (pictures, code) => pictures.map((picture) => pictureTag(picture, code)).join("\n") },
  markdown: { label: "Markdown", write: (pictures, code) => pictures.map((picture) => markdown(picture, code)).join("\n\n") },
  alt: { label: "Alt text only", write: (pictures, code) => pictures.map((picture) => altOf(picture, code)).join("\n") },
};

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** The alt text in the language `code`, or else in the first one; "" while a person still has to write it. */
function altOf(picture, code) {
  const translation = textOf(picture, code);
  return translation === undefined || translation.needs_text ? "" : translation.seo_alt_text;
}

/** The `width` and `height` of the results, 0 if they are not known. */
function sizeOf({ details: { width_px: width, height_px: height, max_width_px: maxWidth, max_height_px: maxHeight } }) {
  const scale = Math.min(1, (maxWidth ?? Infinity) / width, (maxHeight ?? Infinity) / height);
  return width ? { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) } : { width: 0, height: 0 };
}

/** `name` as an address in an attribute, also within `srcset`, where spaces and commas end one. */
const addressOf = (name) => encodeURIComponent(name).replaceAll("'", "%27");

/** The file of an element that offers no other: the best, but no JPEG XL, which many browsers don't show, where there is another. */
const single = ({ image, best }) => (image.converted_format === "jxl" && image.optimized_size !== null ? "optimized" : best);

/** `set` has the attributes of a set of widths, if there is one. */
function imgTag(picture, code, which = single(picture), set = "") {
  const { width, height } = sizeOf(picture);
  // a text that a person still has to write is left out, because `alt=""` says that the picture is decorative
  const alt = textOf(picture, code)?.needs_text ?? true ? "" : ` alt="${escaped(altOf(picture, code))}"`;
  return `<img src="${addressOf(downloadName(picture, which, code))}"${set && ` ${set}`}${alt}${width ? ` width="${width}" height="${height}"` : ""} loading="lazy" decoding="async">`;
}

/**
 * The element `picture`. A browser that shows the format of the converted file chooses from a set of widths, in which each file is
 * smaller than all wider ones, and the optimized file stands for those that are not smaller; it shows every file of the set, whatever
 * `type` says. Others get the optimized file.
 * Without a choice of formats, it is an `img`.
 */
function pictureTag(picture, code) {
  const { image, best } = picture;
  const variants = (image.variants ?? []).filter(({ size }, at, all) => [...all.slice(at + 1).map((wider) => wider.size), image[`${best}_size`]].every((wider) => size < wider));
  const { width } = sizeOf(picture);
  const widths = variants.map((variant) => `${addressOf(variantName(picture, variant.width, code))} ${variant.width}w, `);
  const file = addressOf(downloadName(picture, best, code));
  const set = widths.length > 0 ? `srcset="${widths.join("")}${file} ${width}w" sizes="(max-width: ${width}px) 100vw, ${width}px"` : `srcset="${file}"`;
  if (image.optimized_size === null || (best !== "converted" && variants.length === 0)) return imgTag(picture, code, best, widths.length > 0 ? set : "");
  return `<picture>\n  <source type="${FILE_FORMATS[image.converted_format].mime}" ${set}>\n  ${imgTag(picture, code, "optimized")}\n</picture>`;
}

const markdown = (picture, code) =>
  `![${altOf(picture, code).replaceAll(/[\\[\]]/g, "\\$&")}](${downloadName(picture, single(picture), code)})`;

/** Copy `text` to the clipboard. True if the browser allowed it. Beyond this machine, the page comes by https, without which none does. */
const copyText = (text) => (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(() => true, () => false);

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
  const codes = codesOf(pictures);
  const code = codes.includes(language) ? language : codes[0];
  return html`
    <div class="copy-menu" role="group" aria-label="Copy">
      <${Picker} aria-label="Format" choices=${Object.entries(FORMATS).map(([name, { label }]) => [name, label])} value=${format} onChoose=${setFormat} />
      ${codes.length > 1 && html`<${Picker} aria-label="Language" choices=${codes.map((each) => [each, languageName(each)])} value=${code} onChoose=${setLanguage} />`}
      <${CopyButton} write=${() => FORMATS[format].write(pictures, code)} />
      ${format !== "alt" && html`<p class="hint">The files are in an export of “Optimized” and “Converted”.</p>`}
    </div>`;
}
