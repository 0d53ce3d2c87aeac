// Numbers, sizes, times and the names of files as text.

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];
const integer = new Intl.NumberFormat("en");
const dateAndTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

export const number = (value) => integer.format(value);

/** `count` and the noun in the right number, such as "1 picture". */
export const counted = (count, noun, plural = `${noun}s`) => `${number(count)} ${count === 1 ? noun : plural}`;

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

/** The formats to convert to: their names, and what to know before choosing one. The first is the default. */
export const TARGETS = { webp: { label: "WebP" }, avif: { label: "AVIF", hint: "smaller, takes longer" } };

/** The label of a result. */
export function variantLabel(picture, which) {
  if (which === "optimized") return "Optimized";
  return TARGETS[picture.image.converted_format ?? "webp"].label;
}

/** The file name of a download: of the original its own, of a result the SEO file name in the first language, if there is one. */
export function downloadName(picture, which) {
  const { image, name } = picture;
  if (which === "original") return name;
  const base = image.translations[0]?.seo_filename || name.replace(/\.[^.]*$/, "");
  return `${base}.${extensionOf(picture, which)}`;
}

/** The extension of a picture's file. Optimized files have the format of the original; TIFF and HEIC become JPEG or PNG. */
export function extensionOf({ image, name, details }, which) {
  if (which === "converted") return image.converted_format;
  const { format, optimized_format: optimizedFormat } = details;
  if (which === "optimized" && optimizedFormat && optimizedFormat !== format) return optimizedFormat.replace("jpeg", "jpg");
  return (name.match(/\.([^.]+)$/)?.[1] ?? "jpg").toLowerCase().replace("jpeg", "jpg");
}

/** The size before and after, such as "3.1 MB → 1.2 MB"; where nothing is saved, only the size of the original. */
export const sizesText = ({ size, saved }) => (saved > 0 ? `${bytes(size)} → ${bytes(size - saved)}` : bytes(size));

/** The share of the size that is saved, such as "−61 %", or "". */
export const savedText = ({ size, saved }) => (saved > 0 ? `−${Math.round((100 * saved) / size)} %` : "");
