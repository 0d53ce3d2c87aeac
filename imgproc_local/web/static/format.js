// Numbers, sizes, times and the names of files as text.

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];
const integer = new Intl.NumberFormat("en");
const dateAndTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

export const number = (value) => integer.format(value);

/** `count` and the noun in the right number, such as "1 picture". */
export const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

/** Words in a sentence, such as "WebP or AVIF"; with `type` "conjunction" joined by "and". */
export const listed = (words, type = "disjunction") => new Intl.ListFormat("en-GB", { type }).format(words);

/** `size`, in bytes, as text such as "1.4 MB". A unit is 1024 of the one before, as in the settings of the service. */
export function bytes(size) {
  let unit = 0;
  while (size >= 1000 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${new Intl.NumberFormat("en", { maximumFractionDigits: unit && size < 10 ? 1 : 0 }).format(size)} ${UNITS[unit]}`;
}

/** An instant, as RFC 3339 or in milliseconds since 1970, as a local date and time. */
export const dateTime = (instant) => dateAndTime.format(new Date(instant));

/** An estimated duration as text, rounded, such as "about 3 min". */
export function duration(seconds) {
  if (seconds < 50) return `about ${Math.max(5, Math.ceil(seconds / 5) * 5)} s`;
  if (seconds < 3300) return `about ${Math.max(1, Math.round(seconds / 60))} min`;
  const hours = seconds / 3600;
  return `about ${hours < 10 ? Math.round(hours * 10) / 10 : Math.round(hours)} h`;
}

// ---- the files of a picture ----

/** Let the browser save what is at `url` as `name`. */
export function download(url, name) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

/** The formats of pictures: { name, mime, extensions, available } by their names in the interface. The first extension is the one that is written. */
export const FORMATS = {};
/** The formats to convert to that are available: their names, and what to know before choosing one. The first is the default. */
export const TARGETS = {};
/** What this page knows of formats to convert to, in the order in which they are offered; others are offered after them. */
const TARGET_HINTS = {
  avif: "smallest, takes about twice as long",
  webp: "quicker, also for older browsers",
  jxl: "a JPEG without any loss, about 20 % smaller; newer browsers, no animations",
};

/** Take the formats from the overview, the data of GET /local/overview, before anything is shown. */
export function setFormats({ formats, targets }) {
  Object.assign(FORMATS, formats);
  for (const target of new Set([...Object.keys(TARGET_HINTS), ...targets])) {
    if (targets.includes(target)) TARGETS[target] = { label: FORMATS[target].name, hint: TARGET_HINTS[target] };
  }
}

/** Whether a file name ends like that of a picture. */
export const hasPictureEnding = (name) =>
  Object.values(FORMATS).some(({ extensions }) => extensions.some((extension) => name.toLowerCase().endsWith(`.${extension}`)));

/** The steps of the quality of results, from the highest: their names, their scores, and what to know before choosing one. */
export const QUALITIES = {
  "visually-lossless": { label: "Highest quality", score: 90, hint: "no difference to be seen, even side by side" },
  web: { label: "Web quality", score: 85, hint: "looks the same on a page" },
  small: { label: "Small files", score: 75, hint: "differences can be seen up close" },
};

/** The name of a step, or the score that a person has chosen. */
export const qualityLabel = (target) => QUALITIES[target]?.label ?? `Quality ${target}`;

/** The format of a picture's file: original, optimized or converted; undefined without a converted one. */
const formatOf = ({ image, details }, which) =>
  FORMATS[which === "converted" ? image.converted_format : (which === "optimized" && details.optimized_format) || details.format];

/** The name of the format of a picture's file, or "". */
export const formatLabel = (picture, which) => formatOf(picture, which)?.name ?? "";

/** The label of a result. A WebP file that was optimized and converted to WebP has two of one format. */
export function variantLabel(picture, which) {
  const format = formatLabel(picture, which);
  if (formatLabel(picture, "optimized") === formatLabel(picture, "converted")) return `${format} ${which}`;
  return which === "optimized" ? "Optimized" : format;
}

/** What a result of `size` bytes saves of `originalSize`, such as "−47 %". */
export function savedShare(size, originalSize) {
  const percent = Math.round(100 * (1 - size / originalSize));
  return percent > 0 ? `−${percent} %` : percent < 0 ? `+${-percent} %` : "same size";
}

/** The text of a picture in the language `code`, or else in its first one; undefined if it has none. */
export const textOf = ({ image: { translations } }, code) => translations.find((text) => text.language_code === code) ?? translations[0];

/** The file name of a download: of the original its own, of a result the SEO file name in the language `code`, or else in the first one. `mark` follows it. */
export function downloadName(picture, which, code, mark = "") {
  const { name } = picture;
  if (which === "original") return name;
  const base = textOf(picture, code)?.seo_filename || name.replace(/\.[^.]*$/, "");
  const format = formatOf(picture, which);
  const isSecond = which === "converted" && picture.image.optimized_size !== null && formatOf(picture, "optimized") === format; // as exports name it
  return `${base}${mark}${isSecond ? "-converted" : ""}.${format.extensions[0]}`;
}

/** The file name of the converted file of a width; see `downloadName`. */
export const variantName = (picture, width, code) => downloadName(picture, "converted", code, `-${width}`);

/** The size before and after, such as "3.1 MB → 1.2 MB"; where nothing is saved, only the size of the original. */
export const sizesText = ({ size, saved }) => (saved > 0 ? `${bytes(size)} → ${bytes(size - saved)}` : bytes(size));

/** The share of the size that is saved, such as "−61 %", or "". */
export const savedText = ({ size, saved }) => (saved > 0 ? `−${Math.round((100 * saved) / size)} %` : "");

/** The format of the file to serve, where one is smaller than the original, else "". */
export const servedText = (picture) => (picture.saved > 0 ? formatLabel(picture, picture.best) : "");
