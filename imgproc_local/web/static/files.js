// The files of a picture: names, sizes and downloads.

import { bytes } from "./format.js";

/** Let the browser save what is at `url` as `name`. */
export function download(url, name) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

/** The label of a result. */
export function variantLabel(picture, which) {
  if (which === "optimized") return "Optimized";
  return picture.image.converted_format === "avif" ? "AVIF" : "WebP";
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
