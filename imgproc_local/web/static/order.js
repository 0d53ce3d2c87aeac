// Which pictures the list shows, and in which order.

const names = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const STATE_ORDER = { failed: 0, running: 1, waiting: 2, done: 3 };

/** The orders of the list, with their labels. */
export const SORTS = {
  folder: "Folder order",
  date: "Date added",
  name: "Name",
  size: "Size",
  saved: "Bytes saved",
  status: "Status",
};

/** The values of the filter `show`, with their labels. */
export const SHOWS = {
  all: "All",
  text: "Needs text",
  failed: "Failed",
  larger: "WebP/AVIF larger",
  open: "In progress",
  done: "Done",
};

const COMPARE = {
  // files are uploaded in the order of their folder, and identifiers have the order of the uploads; the latest day comes first
  folder: (a, b) => b.day - a.day || compareIds(a.id, b.id),
  date: (a, b) => compareIds(b.id, a.id),
  name: (a, b) => names.compare(a.name, b.name) || compareIds(a.id, b.id),
  size: (a, b) => b.size - a.size || compareIds(a.id, b.id),
  saved: (a, b) => b.saved - a.saved || compareIds(a.id, b.id),
  status: (a, b) => STATE_ORDER[a.state] - STATE_ORDER[b.state] || compareIds(a.id, b.id),
};

const compareIds = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** A sorted copy of `pictures`. With `textFirst`, those that need text come first, in every order. */
export function inOrder(pictures, { sort, descending, textFirst }) {
  const compare = COMPARE[sort] ?? COMPARE.folder;
  const sign = descending ? -1 : 1;
  return [...pictures].sort((a, b) => (textFirst && b.needsText - a.needsText) || sign * compare(a, b));
}

/** Whether `picture` passes all filters; see `filters` in store.js. */
export function matches(picture, { text, show, language, project }) {
  if (show === "text" && !picture.needsText) return false;
  if (show === "failed" && picture.state !== "failed") return false;
  if (show === "larger" && !picture.larger) return false;
  if (show === "open" && picture.state !== "waiting" && picture.state !== "running") return false;
  if (show === "done" && picture.state !== "done") return false;
  if (project && picture.details.project?.id !== project) return false;
  if (language && !lacksText(picture, language)) return false;
  return text === "" || contains(picture, text);
}

/** Whether `picture` has no text in a language, or one that a person has to write. */
const lacksText = ({ image }, language) =>
  !image.translations.some((translation) => translation.language_code === language && !translation.needs_text);

function contains({ name, image }, text) {
  const wanted = searchable(text.trim());
  return searchable(name).includes(wanted) || image.translations.some(({ seo_filename: filename, seo_alt_text: altText }) =>
    filename.includes(wanted) || searchable(altText).includes(wanted));
}

// file names from macOS are decomposed, typed words are not
const searchable = (text) => text.normalize("NFC").toLowerCase();
