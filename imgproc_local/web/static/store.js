// All pictures of the account, in memory: loaded from the list of jobs, then kept current by the event stream.
//
// Events are applied once in about the time of a frame. A picture is an immutable object that an event replaces, so that a component
// can tell by identity whether it must be rendered. The order of the list is computed again at most every 400 ms.

import { notice } from "./messages.js";
import { Observable, preserved } from "./observable.js";
import { filtered, inOrder } from "./order.js";
import { Progress } from "./progress.js";
import { api, followAccount } from "./service.js";

const PAGE_SIZE = 500;
const APPLY_EVERY_MS = 16;
const ARRANGE_EVERY_MS = 400;
const DONE_STATUSES = ["completed", "done"];

const pictures = new Map(); // by the identifier of the job
const progress = new Progress();

/** `text` is searched for, `show` is a key of `SHOWS`, `language` is one in which a text is missing, `project` an identifier, `folder` a path. */
export const NO_FILTERS = { text: "", show: "all", language: "", project: "", folder: "" };

/**
 * What the list shows: `pictures` in order, their `places` by identifier, and the `counts` of order.js, as `filteredBy` has it. Of
 * all pictures the `total`, the codes of their `languages`, their `folders`, and their `projects`, { id, name }, by name. How many
 * were `deleted` since the page was loaded.
 * `loaded` once the whole list of jobs was read.
 */
export const arrangement = new Observable({ ...filtered([], NO_FILTERS), filteredBy: NO_FILTERS, places: new Map(), total: 0, languages: new Set(), folders: [], projects: [], deleted: 0, loaded: false });
/** The identifiers of the pictures that were added, replaced or deleted by the latest update. */
export const changes = new Observable(new Set());
/** The progress of the current run; see progress.js. */
export const totals = new Observable(progress.measure([], 0));
/** Whether the event stream is connected. */
export const connected = new Observable(true);
/** How many files are not sent yet. */
export const unsent = new Observable(0);
/** The words on their way to the service, { seo_alt_text, seo_filename, long_description }, by the `keyOf` of their text. They are shown already. */
export const sent = new Observable(new Map());

export const keyOf = (id, code) => `${id} ${code}`;

export const filters = new Observable(NO_FILTERS);
/** How the list is shown. Preserved between visits. */
export const choices = preserved("imgproc-local.list", { sort: "folder", descending: false, textFirst: true, layout: "grid", rowHeight: 168, shortcuts: true });
/** The identifier of the current picture, or null. Its details are shown where there is room. */
export const current = new Observable(null);
/** The identifiers of the selected pictures. */
export const selection = new Observable(new Set());

for (const each of [filters, unsent, choices]) each.subscribe(arrangeSoon);

/** The picture of a job, or undefined. */
export const pictureOf = (id) => pictures.get(id);
export const allPictures = () => [...pictures.values()];

/** The selected pictures in the order of the list; without a selection, those that the list shows. */
export function chosenPictures() {
  const shown = arrangement.value.pictures;
  return selection.value.size === 0 ? shown : ordered.filter(({ id }) => selection.value.has(id)).map(({ id }) => pictures.get(id));
}

/** The identifier of the picture `step` places after the current one in the list, or null; of the first, if the list does not show the current one. */
export function neighbour(step) {
  const { pictures: shown, places } = arrangement.value;
  const place = places.get(current.value);
  return shown[place === undefined ? 0 : place + step]?.id ?? null;
}

// ---- pictures ----

/** The state, names and sizes of a job, as the list and the details use them, with the words that are on their way to the service. */
function pictureFrom(job) {
  const image = sent.value.size === 0 ? job.image : { ...job.image, translations: job.image.translations.map((translation) => withSent(job.job_id, translation)) };
  const { details } = image;
  const sizes = [image.optimized_size, image.converted_size].filter((size) => size !== null);
  const larger = details.converted_notes.some(({ code }) => code === "larger_than_optimized");
  const createdAt = Date.parse(details.created_at);
  return {
    id: job.job_id,
    job,
    image,
    details,
    name: image.original_filename,
    state: stateOf(job.status),
    createdAt,
    day: new Date(createdAt).setHours(0, 0, 0, 0), // when it began
    size: image.original_size,
    best: image.converted_size !== null && !larger ? "converted" : "optimized",
    saved: sizes.length > 0 ? Math.max(0, image.original_size - Math.min(...sizes)) : 0,
    needsText: image.translations.some((translation) => translation.needs_text),
    review: reviewOf(image.translations),
    isWriting: Object.values(details.texts ?? {}).some(({ regenerating }) => regenerating),
    larger, // the converted file is not smaller than the optimized one
  };
}

/** Whether a person has "accepted" all texts of a picture, or has "edited" some of them; null while there is work left. */
function reviewOf(translations) {
  if (translations.length === 0 || translations.some(({ needs_text: needsText, review }) => needsText || !review)) return null;
  return translations.some(({ review }) => review === "edited") ? "edited" : "accepted";
}

function withSent(id, translation) {
  const words = sent.value.get(keyOf(id, translation.language_code));
  if (words === undefined) return translation;
  const isWritten = words.seo_alt_text !== undefined;
  const review = words.seo_alt_text === translation.seo_alt_text ? translation.review ?? "accepted" : "edited";
  return { ...translation, ...words, ...(isWritten ? { needs_text: false, source: "person", review } : {}) };
}

function stateOf(status) {
  if (status === "failed") return "failed";
  if (DONE_STATUSES.includes(status)) return "done";
  return status === "pending" ? "waiting" : "running";
}

// ---- loading and following ----

const unapplied = new Map(); // the jobs that are applied next, by identifier; null for a deleted one
let applyTimer = null; // not a frame: a hidden tab has none, but its pictures stay current
let arrangeTimer = null;
let arrangedAt = 0;
let estimateTimer = null;
let ordered = []; // all pictures in their last order, and { id } of new ones: sorting an almost sorted list is fast
let deleted = 0;
let loading = null; // { changed }: the identifiers of which events have arrived since the load began

/** Load all pictures and follow their changes for ever. Throws `Refused`. */
export async function followPictures() {
  await followAccount((name, data) => {
    connected.set(name !== "lost");
    if (name === "snapshot" || name === "reset") load();
    else if (name === "job") change(data.data.job_id, data.data);
    else if (name === "deleted") change(data.job_id, null);
  });
}

/** Load the whole list again; resolves when that was done or has failed. Events that arrive meanwhile are newer than the list, and win. */
export async function load() {
  const thisLoad = { changed: new Set() };
  loading = thisLoad;
  try {
    const seen = new Set();
    let cursor = "";
    do {
      const answer = await api(`/jobs?limit=${PAGE_SIZE}&include=removed,details${cursor && `&cursor=${cursor}`}`);
      const { data, next_cursor: next } = await answer.json();
      if (loading !== thisLoad) return;
      for (const job of data) {
        seen.add(job.job_id);
        if (!thisLoad.changed.has(job.job_id)) unapplied.set(job.job_id, job);
      }
      applySoon();
      cursor = next;
    } while (cursor !== null);
    for (const id of pictures.keys()) if (!seen.has(id) && !thisLoad.changed.has(id)) unapplied.set(id, null);
    loading = null;
    arrangement.value.loaded = true;
    applySoon();
    arrangeSoon();
  } catch (error) {
    if (loading === thisLoad) loading = null;
    notice("list", `The list of pictures could not be read: ${error.message}`, "Read it again").then(load);
  }
}

function change(id, job) {
  loading?.changed.add(id);
  unapplied.set(id, job);
  applySoon();
}

/** The latest text of a picture in a language with its state, even if the page does not show it yet; undefined if there is none. */
export function latestText(id, code) {
  const image = (unapplied.has(id) ? unapplied.get(id) : pictures.get(id)?.job)?.image;
  const translation = image?.translations.find((other) => other.language_code === code);
  return translation && { ...translation, ...image.details?.texts?.[code] };
}

/** Change images by the service's `answers` at once: `changesOf(image, answer)` are the fields that change. */
function applyAnswers(answers, changesOf) {
  for (const answer of answers) {
    const job = unapplied.get(answer.id) ?? pictures.get(answer.id)?.job;
    if (job) change(answer.id, { ...job, image: { ...job.image, ...changesOf(job.image, answer) } });
  }
  apply();
}

/** Apply the service's answers to a change of texts at once: { id, translation }. */
export const applyTranslations = (answers) => applyAnswers(answers, ({ details, translations }, { translation }) => {
  const { language_code: code, can_undo, can_redo, regenerating, error, version } = translation;
  const isNew = translations.every((other) => other.language_code !== code);
  return {
    details: { ...details, texts: { ...details?.texts, [code]: { can_undo, can_redo, regenerating, error, version } } },
    translations: isNew ? [...translations, translation] : translations.map((other) => (other.language_code === code ? { ...other, ...translation } : other)),
  };
});

/** Apply the service's answers to a change of pictures at once: { id, details }. */
export const applyDetails = (answers) => applyAnswers(answers, (image, { details }) => ({ details: { ...image.details, ...details } }));

/** Show `words` as those of texts, { id, code, words }, until the service has answered; without words, what the service has. */
export function showSent(texts) {
  const all = new Map(sent.value);
  for (const { id, code, words } of texts) {
    if (Object.keys(words).length > 0) all.set(keyOf(id, code), words);
    else all.delete(keyOf(id, code));
    if (pictures.has(id) && !unapplied.has(id)) unapplied.set(id, pictures.get(id).job);
  }
  sent.set(all);
  apply();
}

/** Remove a deleted picture before its event arrives. */
export const forgetPicture = (id) => change(id, null);

function applySoon() {
  applyTimer ??= setTimeout(apply, APPLY_EVERY_MS);
}

function apply() {
  clearTimeout(applyTimer);
  applyTimer = null;
  for (const [id, job] of unapplied) {
    if (job === null) deleted += Number(pictures.delete(id));
    else {
      if (!pictures.has(id)) ordered.push({ id });
      pictures.set(id, pictureFrom(job));
    }
  }
  const removed = [...unapplied].filter(([id, job]) => job === null && selection.value.has(id)).map(([id]) => id);
  const changed = new Set(unapplied.keys());
  unapplied.clear();
  if (removed.length > 0) selection.set(new Set([...selection.value].filter((id) => !removed.includes(id))));
  changes.set(changed);
  arrangeSoon();
}

/** Compute the order of the list, the counts and the totals again, now or 400 ms after the last time. */
function arrangeSoon() {
  arrangeTimer ??= setTimeout(arrange, Math.max(0, arrangedAt + ARRANGE_EVERY_MS - performance.now()));
}

function arrange() {
  arrangeTimer = null;
  arrangedAt = performance.now();
  ordered = inOrder(ordered.map(({ id }) => pictures.get(id)).filter((picture) => picture !== undefined), choices.value);
  const all = ordered;
  const { pictures: shown, counts } = filtered(all, filters.value);
  const places = new Map(shown.map(({ id }, place) => [id, place]));
  const folders = [...new Set(all.map(({ details }) => details.folder).filter(Boolean))].sort();
  arrangement.set({ pictures: shown, counts, filteredBy: filters.value, places, total: all.length, languages: languagesOf(all), folders, projects: projectsOf(all), deleted, loaded: arrangement.value.loaded });
  // a run that was going on when the page was loaded is known only when the whole list was read
  if (arrangement.value.loaded) totals.set(progress.measure(all, unsent.value));
  clearTimeout(estimateTimer);
  // the estimate of the time left changes without events too
  if (totals.value.open > 0) estimateTimer = setTimeout(arrangeSoon, 1000);
}

/** The texts of `chosen` pictures, as `latestText` has them, with the `id` of the picture and the `code` of the language. */
export const textsOf = (chosen) => chosen.flatMap(({ id, image, details }) => image.translations
  .map((translation) => ({ ...translation, ...details.texts?.[translation.language_code], id, code: translation.language_code })));

/** The codes of the languages in which `chosen` pictures have texts. */
export const codesOf = (chosen) => [...new Set(chosen.flatMap(({ image }) => image.translations.map(({ language_code: code }) => code)))];

/** The codes of the languages in which texts exist or were requested. */
const languagesOf = (all) => new Set([...all.flatMap(({ details }) => details.languages ?? []), ...codesOf(all)]);

function projectsOf(all) {
  const names = new Map(all.flatMap(({ details: { project } }) => (project ? [[project.id, project.name]] : [])));
  return [...names].map(([id, name]) => ({ id, name })).sort((a, b) => a.name.localeCompare(b.name));
}
