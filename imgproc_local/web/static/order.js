// Which pictures the list shows, and in which order.

import { isOpen } from "./progress.js";

/** Orders names as people do: numbers by value, and capitals like small letters. */
export const names = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const STATE_ORDER = { failed: 0, running: 1, waiting: 2, done: 3 };

/** The orders of the list. */
export const SORTS = {
  // files are uploaded in the order of their folder, and identifiers have the order of the uploads; the latest day comes first
  folder: { label: "Folder order", compare: (a, b) => b.day - a.day },
  date: { label: "Date added", compare: (a, b) => compareTexts(b.id, a.id) },
  taken: { label: "Date taken", compare: (a, b) => compareTexts(a.details.taken_at ?? "~", b.details.taken_at ?? "~") }, // "~" is after all dates
  name: { label: "Name", compare: (a, b) => names.compare(a.name, b.name) },
  size: { label: "Size", compare: (a, b) => b.size - a.size },
  saved: { label: "Bytes saved", compare: (a, b) => b.saved - a.saved },
  status: { label: "Status", compare: (a, b) => STATE_ORDER[a.state] - STATE_ORDER[b.state] },
};

/** The values of the filter `show`. */
export const SHOWS = {
  all: { label: "All", includes: () => true },
  text: { label: "Needs text", includes: ({ needsText }) => needsText },
  unreviewed: { label: "Not reviewed", includes: ({ image }) => image.translations.some(isUnreviewed) },
  accepted: { label: "Accepted", includes: ({ review }) => review === "accepted" },
  edited: { label: "Edited", includes: ({ review }) => review === "edited" },
  failed: { label: "Failed", includes: ({ state }) => state === "failed" },
  open: { label: "In progress", includes: isOpen },
  done: { label: "Done", includes: ({ state }) => state === "done" },
  larger: { label: "Converted is larger", includes: ({ larger }) => larger },
};

const compareTexts = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** Whether a text was made by the program, can be published, and no person has looked at it. */
export const isUnreviewed = ({ review, source, needs_text: needsText }) => !review && !needsText && (source === "vision" || source === "facts");

/** A sorted copy of `pictures`. With `textFirst`, those that need text come first, in every order. */
export function inOrder(pictures, { sort, descending, textFirst }) {
  const { compare } = SORTS[sort] ?? SORTS.folder;
  const sign = descending ? -1 : 1;
  return [...pictures].sort((a, b) => (textFirst && b.needsText - a.needsText) || sign * (compare(a, b) || compareTexts(a.id, b.id)));
}

/**
 * The `pictures` that pass all filters, which store.js describes, and the `counts` of those that each value of `show` would leave
 * beside the other filters.
 */
export function filtered(all, { show, ...others }) {
  const wanted = searchable(others.text.trim());
  const matching = all.filter((picture) => matches(picture, { ...others, wanted }));
  const counts = Object.fromEntries(Object.entries(SHOWS).map(([name, { includes }]) => [name, matching.filter(includes).length]));
  return { pictures: matching.filter(SHOWS[show].includes), counts };
}

function matches(picture, { wanted, language, project, folder }) {
  if (project && picture.details.project?.id !== project) return false;
  if (folder && picture.details.folder !== folder) return false;
  // a text that a person has to write is none
  if (language && picture.image.translations.some((text) => text.language_code === language && !text.needs_text)) return false;
  return wanted === "" || contains(picture, wanted);
}

const contains = ({ name, image, details }, wanted) =>
  [name, details.folder, details.project?.name].some((text) => text && searchable(text).includes(wanted)) ||
  image.translations.some(({ seo_filename: filename, seo_alt_text: altText }) => filename.includes(wanted) || searchable(altText).includes(wanted));

// file names from macOS are decomposed, typed words are not
const searchable = (text) => text.normalize("NFC").toLowerCase();
