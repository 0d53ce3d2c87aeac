// All pictures of the account, in memory: loaded from the list of jobs, then kept current by the event stream.
//
// Events are applied once per animation frame. A picture is an immutable object that an event replaces, so that a component
// can tell by identity whether it must be rendered. The order of the list is computed again at most every 400 ms.

import { notice } from "./messages.js";
import { Observable } from "./observable.js";
import { inOrder, matches } from "./order.js";
import { Progress } from "./progress.js";
import { api, followAccount } from "./service.js";

const PAGE_SIZE = 500;
const ARRANGE_EVERY_MS = 400;
const MAX_RELOADS = 5; // of a picture whose events arrive meanwhile: a job has a few
const CHOICES_STORAGE_KEY = "imgproc-local.list";
const FINISHED = ["completed", "done"];
const ULID_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";

const pictures = new Map(); // by the identifier of the job
const progress = new Progress();

/** What the list shows: `pictures` in order; and of all pictures the `counts`, and the codes of their `languages`. */
export const arrangement = new Observable({ pictures: [], places: new Map(), counts: counted(), languages: new Set(), loaded: false });
/** The identifiers of the pictures that were replaced or deleted last. */
export const changes = new Observable(new Set());
/** The progress of the current run; see progress.js. */
export const totals = new Observable(progress.state([], 0));
/** Whether the event stream is connected. */
export const connected = new Observable(true);
/** The projects that have pictures, by name: { id, name }. */
export const projects = new Observable([]);
/** How many files wait to be sent. */
export const unsent = new Observable(0);

export const NO_FILTERS = { text: "", show: "all", language: "", project: "" };
export const filters = new Observable(NO_FILTERS);
/** How the list is shown. Preserved between visits. */
export const choices = new Observable({ sort: "folder", descending: false, textFirst: true, layout: "grid", ...storedChoices() });
/** The identifier of the picture whose details are shown, or null. */
export const current = new Observable(null);
/** The identifiers of the selected pictures. */
export const selection = new Observable(new Set());

filters.subscribe(arrangeSoon);
unsent.subscribe(arrangeSoon);
choices.subscribe((value) => {
  localStorage.setItem(CHOICES_STORAGE_KEY, JSON.stringify(value));
  arrangeSoon();
});

function storedChoices() {
  try {
    return JSON.parse(localStorage.getItem(CHOICES_STORAGE_KEY)) ?? {};
  } catch {
    return {};
  }
}

/** The picture of a job, or undefined. */
export const pictureOf = (id) => pictures.get(id);
export const allPictures = () => [...pictures.values()];

/** The selected pictures in the order of the list; without a selection, those that the list shows. */
export function chosenPictures() {
  const shown = arrangement.value.pictures;
  return selection.value.size === 0 ? shown : ordered.filter(({ id }) => selection.value.has(id)).map(({ id }) => pictures.get(id));
}

/** The identifier of the picture `step` places after the current one in the list; null where there is none. */
export function neighbour(step) {
  const { pictures: shown, places } = arrangement.value;
  const place = places.get(current.value);
  if (place === undefined) return shown[0]?.id ?? null;
  return shown[place + step]?.id ?? null;
}

// ---- pictures ----

/** The state, names and sizes of a job, as the list and the details use them. */
function pictureFrom(job) {
  const { image } = job;
  const sizes = [image.optimized_size, image.converted_size].filter((size) => size !== null);
  const details = image.details ?? {};
  const createdAt = details.created_at ? Date.parse(details.created_at) : ulidTime(job.job_id);
  return {
    id: job.job_id,
    job,
    image,
    details,
    name: image.original_filename,
    state: stateOf(job.status),
    createdAt,
    day: dayOf(createdAt),
    size: image.original_size,
    best: image.converted_size !== null && !(image.converted_size >= image.optimized_size && image.optimized_size !== null) ? "converted" : "optimized",
    saved: sizes.length > 0 ? Math.max(0, image.original_size - Math.min(...sizes)) : 0,
    needsText: image.translations.some((translation) => translation.needs_text),
    larger: image.optimized_size !== null && image.converted_size !== null && image.converted_size >= image.optimized_size,
  };
}

function stateOf(status) {
  if (status === "failed") return "failed";
  if (FINISHED.includes(status)) return "done";
  return status === "pending" ? "waiting" : "running";
}

export const isOpen = ({ state }) => state === "waiting" || state === "running";

/** The instant in a ULID, in milliseconds. Source: the ULID specification: the first 10 characters are the time. */
const ulidTime = (id) => [...id.slice(0, 10)].reduce((time, digit) => 32 * time + ULID_DIGITS.indexOf(digit), 0);

function dayOf(time) {
  const date = new Date(time);
  return 10_000 * date.getFullYear() + 100 * date.getMonth() + date.getDate();
}

// ---- loading and following ----

const pending = new Map(); // job bodies by identifier that the next frame applies; null for a deleted job
const events = new Map(); // how many events of a job have arrived, by its identifier
let cancelFrame = null; // of the frame that will apply what is pending
let arranging = null;
let arrangedAt = 0;
let ticking = null;
let ordered = []; // all pictures as they were ordered last: sorting an almost sorted list is fast
let loading = null;

/** Load all pictures and follow their changes for ever. Throws `Refused`. */
export async function followPictures() {
  await followAccount((name, data) => {
    connected.set(name !== "lost");
    if (name === "snapshot" || name === "reset") load();
    else if (name === "job") {
      events.set(data.data.job_id, eventsOf(data.data.job_id) + 1);
      change(data.data.job_id, data.data);
    }
    else if (name === "deleted") change(data.job_id, null);
  });
}

/** How many events of a picture have arrived: an answer to a request that was sent before an event may be older than it. */
export const eventsOf = (id) => events.get(id) ?? 0;

/** Load the whole list again. Events that arrive meanwhile are newer than the list, and win. */
function load() {
  const own = { changed: new Set() };
  loading = own;
  (async () => {
    const seen = new Set();
    for (let cursor = null; ; ) {
      const query = `limit=${PAGE_SIZE}&include=removed,details${cursor ? `&cursor=${cursor}` : ""}`;
      const { data, next_cursor: next } = await (await api(`/jobs?${query}`)).json();
      if (loading !== own) return;
      for (const job of data) {
        seen.add(job.job_id);
        if (!own.changed.has(job.job_id)) pending.set(job.job_id, job);
      }
      applySoon();
      cursor = next;
      if (cursor === null) break;
    }
    for (const id of pictures.keys()) if (!seen.has(id) && !own.changed.has(id)) pending.set(id, null);
    loading = null;
    arrangement.value.loaded = true;
    applySoon();
    arrangeSoon();
  })().catch((error) => {
    if (loading === own) loading = null;
    notice("list", `The list of pictures could not be read: ${error.message}`, "Read it again").then(load);
  });
}

function change(id, job) {
  loading?.changed.add(id);
  pending.set(id, job);
  applySoon();
}

/** Read the job of a picture again and apply it at once. Throws `Refused`. */
export async function reloadPicture(id) {
  for (let tries = 0; tries < MAX_RELOADS; tries += 1) {
    const before = eventsOf(id);
    const { data } = await (await api(`/jobs/${id}?include=removed,details`)).json();
    if (eventsOf(id) !== before) continue; // an event that arrived meanwhile may be newer than this answer
    change(id, data);
    break;
  }
  apply();
}

/** The latest text of a picture in a language with its state, also before the page shows it; undefined if there is none. */
export function latestText(id, code) {
  const image = (pending.has(id) ? pending.get(id) : pictures.get(id)?.job)?.image;
  const translation = image?.translations.find((other) => other.language_code === code);
  return translation && { ...translation, ...image.details?.texts?.[code] };
}

/** Show a picture's text as `translation`, the answer to a change of it, at once. */
export function applyTranslation(id, translation) {
  const job = pending.get(id) ?? pictures.get(id)?.job;
  if (!job) return;
  const code = translation.language_code;
  const { can_undo, can_redo, regenerating, error } = translation;
  const details = { ...job.image.details, texts: { ...job.image.details?.texts, [code]: { can_undo, can_redo, regenerating, error } } };
  const translations = job.image.translations.map((other) => (other.language_code === code ? { ...other, ...translation } : other));
  change(id, { ...job, image: { ...job.image, details, translations } });
  apply();
}

/** Remove a deleted picture before its event arrives. */
export const forgetPicture = (id) => change(id, null);

function applySoon() {
  if (cancelFrame !== null) return;
  // a hidden tab has no frames, but its title and its totals are current too
  if (document.hidden) {
    const timer = setTimeout(apply, ARRANGE_EVERY_MS);
    cancelFrame = () => clearTimeout(timer);
  } else {
    const frame = requestAnimationFrame(apply);
    cancelFrame = () => cancelAnimationFrame(frame);
  }
}

function apply() {
  cancelFrame?.();
  cancelFrame = null;
  for (const [id, job] of pending) {
    if (job === null) pictures.delete(id);
    else {
      if (!pictures.has(id)) ordered.push({ id });
      pictures.set(id, pictureFrom(job));
    }
  }
  const removed = [...pending].filter(([id, job]) => job === null && selection.value.has(id)).map(([id]) => id);
  const changed = new Set(pending.keys());
  pending.clear();
  if (removed.length > 0) selection.set(new Set([...selection.value].filter((id) => !removed.includes(id))));
  changes.set(changed);
  arrangeSoon();
}

addEventListener("visibilitychange", () => { if (cancelFrame !== null && !document.hidden) apply(); });

/** Compute the order of the list, the counts and the totals again, now or 400 ms after the last time. */
function arrangeSoon() {
  arranging ??= setTimeout(arrange, Math.max(0, arrangedAt + ARRANGE_EVERY_MS - performance.now()));
}

function arrange() {
  arranging = null;
  arrangedAt = performance.now();
  ordered = inOrder(ordered.map(({ id }) => pictures.get(id)).filter((picture) => picture !== undefined), choices.value);
  const all = ordered;
  const shown = all.filter((picture) => matches(picture, filters.value));
  const places = new Map(shown.map(({ id }, place) => [id, place]));
  arrangement.set({ pictures: shown, places, counts: counted(all), languages: languagesOf(all), loaded: arrangement.value.loaded });
  const known = projectsOf(all);
  if (known.map(({ id }) => id).join() !== projects.value.map(({ id }) => id).join()) projects.set(known);
  // a run that was going on when the page was loaded is only known when the whole list is
  totals.set(progress.state(arrangement.value.loaded ? all : [], unsent.value));
  clearTimeout(ticking);
  // the estimate of the time left changes without events too
  if (totals.value.open > 0) ticking = setTimeout(arrangeSoon, 1000);
}

/** The codes of the languages in which texts were requested. */
function languagesOf(all) {
  const codes = new Set();
  for (const { details, image } of all) {
    for (const code of details.languages ?? []) codes.add(code);
    for (const { language_code: code } of image.translations) codes.add(code);
  }
  return codes;
}

function projectsOf(all) {
  const names = new Map();
  for (const { details: { project } } of all) if (project) names.set(project.id, project.name);
  return [...names].map(([id, name]) => ({ id, name })).sort((a, b) => a.name.localeCompare(b.name));
}

function counted(all = []) {
  const counts = { all: all.length, open: 0, failed: 0, text: 0, larger: 0, done: 0 };
  for (const picture of all) {
    if (isOpen(picture)) counts.open += 1;
    if (picture.state === "failed") counts.failed += 1;
    if (picture.state === "done") counts.done += 1;
    if (picture.needsText) counts.text += 1;
    if (picture.larger) counts.larger += 1;
  }
  return counts;
}
