// The pictures on the page: uploads them and follows their jobs, a few at a time.
//
// A browser opens at most six connections to a host: two are used for uploads, three for jobs, one for downloads and keys.

import { announce, byId, clearNotice, confirmed, el, notice, sleep } from "./dom.js";
import { Card, isFinal, needsText } from "./card.js";
import { api, follow, Refused } from "./service.js";

const UPLOADS = 2;
const FOLLOWS = 3;
const FOLLOW_MS = 10_000; // if a job is not final after this time, the next one is followed, and this one later again
const MAX_EARLIER = 12;
const NOT_RETRYABLE = [409, 413, 422]; // statuses that the same picture would get again
const EXTENSIONS = { "image/jpeg": "jpg", "image/png": "png", "image/gif": "gif", "image/webp": "webp", "image/avif": "avif" };

/** A queue that calls the async function `work` for its items in order, `concurrency` at a time. */
class Lane {
  constructor(concurrency, work) {
    Object.assign(this, { concurrency, work, waiting: [], running: 0 });
  }

  put(item) {
    this.waiting.push(item);
    this.next();
  }

  next() {
    while (this.running < this.concurrency && this.waiting.length > 0) {
      this.running += 1;
      this.work(this.waiting.shift()).finally(() => {
        this.running -= 1;
        this.next();
      });
    }
  }
}

const pictures = new Set();
const toUpload = new Lane(UPLOADS, upload);
const toFollow = new Lane(FOLLOWS, followOnce);
const toDraw = new Lane(1, (picture) => picture.card.drawThumbnail(picture.file));
const context = { overview: null, languageName: (code) => code, onBalanceChange: () => {} };

/**
 * Called once when the page starts. `overview` has the limits of the service. `onBalanceChange` is called when a picture was
 * accepted and when its job is final.
 */
export function prepare(given) {
  Object.assign(context, given);
}

/** Add files and upload them. `options` are the codes of the `languages` and the `format` to convert to. */
export function add(files, options) {
  for (const file of files) {
    const picture = { file, options, job: null, state: "open", abort: new AbortController(), idempotencyKey: newIdempotencyKey() };
    picture.card = newCard(picture, file.name, file.size);
    pictures.add(picture);
    byId("cards").append(picture.card.node);
    picture.card.reset();
    toDraw.put(picture);
    start(picture);
  }
  showProgress();
}

/**
 * Show the latest jobs of the account, however they were sent, and follow those that are not final. Jobs that need a text
 * come first, however old they are.
 */
export async function addEarlier() {
  const [needing, latest] = await Promise.all(["needs_text=true&", ""].map(async (filter) =>
    (await (await api(`/jobs?${filter}limit=${MAX_EARLIER}`)).json()).data));
  const shown = new Set([...pictures].map(({ job }) => job?.job_id));
  for (const job of [...needing, ...latest]) {
    if (shown.has(job.job_id)) continue;
    shown.add(job.job_id);
    const picture = { file: null, options: null, job, state: "earlier", abort: new AbortController() };
    picture.card = newCard(picture, job.image.original_filename, job.image.original_size);
    byId("earlier-cards").append(picture.card.node);
    picture.card.show(job, false);
    if (needsText(job.image)) moveToNeedingText(picture.card.node);
    if (!isFinal(job.status)) toFollow.put(picture);
  }
  byId("earlier").hidden = !byId("earlier-cards").hasChildNodes();
}

/** Whether some pictures are not uploaded yet, and would be lost by leaving the page. */
export const hasUnsent = () => [...pictures].some((picture) => picture.state === "open" && picture.job === null);

function newCard(picture, name, size) {
  const handlers = {
    download: (which) => download(picture, which),
    retry: () => retry(picture),
    remove: () => remove(picture),
  };
  return new Card(name, size, handlers, context.languageName);
}

/** An Idempotency-Key, so that a picture is not accepted twice when a response is lost. */
function newIdempotencyKey() {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16).padStart(8, "0")).join("");
}

function start(picture) {
  const limit = context.overview?.max_upload_bytes;
  if (limit && picture.file.size > limit) {
    // checked before the upload: the service closes the connection of a file that is too large, and the browser reports
    // only that
    finish(picture, "failed", new Refused(413, `The file is larger than ${limit / 1024 / 1024} MB, the maximum for a picture.`));
  } else {
    toUpload.put(picture);
  }
}

async function upload(picture) {
  const { file, card, options, abort } = picture;
  if (abort.signal.aborted) return;
  card.setState("running", "Uploading…");
  try {
    await requireReadable(file);
    const form = new FormData();
    for (const code of options.languages) form.append("languages", code);
    form.append("format", options.format);
    form.append("image", file, file.name);
    const headers = { "Idempotency-Key": picture.idempotencyKey };
    const response = await api("/images/process", {
      method: "POST", body: form, headers, signal: abort.signal, onWait: (text) => card.showWaiting(text),
    });
    const { job_id } = (await response.json()).data;
    picture.job = { job_id, status: "pending" };
    card.setState("waiting", "Queued");
    context.onBalanceChange();
    toFollow.put(picture);
  } catch (error) {
    if (!abort.signal.aborted) finish(picture, "failed", error);
  }
}

async function requireReadable(file) {
  try {
    await file.slice(0, 1).arrayBuffer();
  } catch {
    throw new Refused(0, "The file can't be read. It may have been moved or changed: add it again.");
  }
}

/** Follow the job of `picture` for at most `FOLLOW_MS`, and queue it again if it is not final then. */
async function followOnce(picture) {
  const { card, abort } = picture;
  if (abort.signal.aborted) return;
  try {
    await follow(picture.job.job_id, FOLLOW_MS, (job) => {
      picture.job = job;
      card.show(job, picture.file !== null);
      if (needsText(job.image)) moveToNeedingText(card.node);
    }, (text) => card.showWaiting(text), abort.signal);
  } catch (error) {
    if (abort.signal.aborted) return;
    if (error.status === 404) finish(picture, "failed", new Refused(404, "This picture was deleted from the service."));
    else finish(picture, "failed", error);
    return;
  }
  if (abort.signal.aborted) return;
  if (isFinal(picture.job.status)) {
    finish(picture, picture.job.status === "failed" ? "failed" : "done");
  } else {
    await sleep(500);
    toFollow.put(picture);
  }
}

/** Move a card before those that need no text. It remains in its place while the user is in it. */
function moveToNeedingText(node) {
  if (node.dataset.needsText || node.contains(document.activeElement)) return;
  node.dataset.needsText = "true";
  node.parentElement.insertBefore(node, node.parentElement.querySelector(":scope > :not([data-needs-text])"));
}

/** Record that nothing more happens to `picture`: `state` is "done" or "failed". An error is shown on its card. */
function finish(picture, state, error = null) {
  if (picture.state !== "earlier") picture.state = state;
  if (error) {
    if (!(error instanceof Refused)) console.error(error);
    const message = error instanceof Refused ? error.message : "An unexpected error occurred in this page. Try again, or reload the page.";
    picture.card.fail(message, picture.file !== null && !NOT_RETRYABLE.includes(error.status));
  }
  showProgress();
  context.onBalanceChange();
}

function retry(picture) {
  Object.assign(picture, { job: null, state: "open", idempotencyKey: newIdempotencyKey() });
  picture.card.reset();
  picture.card.title.focus();
  start(picture);
  showProgress();
}

async function remove(picture) {
  const { card } = picture;
  const sent = picture.job !== null;
  const sure = await confirmed({
    title: `Delete ${card.name}?`,
    text: sent ? "The service deletes its copies, alt texts and file names of this picture. Your own file is not changed." : "The picture will not be processed. Your own file is not changed.",
    yes: "Delete",
    no: "Cancel",
  });
  if (!sure) return;
  if (picture.job !== null) {
    try {
      await api(`/jobs/${picture.job.job_id}`, { method: "DELETE", onWait: (text) => card.showWaiting(text) });
    } catch (error) {
      if (error.status !== 404) {
        card.listProblems([error.message]);
        return;
      }
    }
  }
  picture.abort.abort();
  const next = card.node.nextElementSibling ?? card.node.previousElementSibling;
  card.node.remove();
  pictures.delete(picture);
  byId("earlier").hidden = !byId("earlier-cards").hasChildNodes();
  (next?.querySelector("h3") ?? byId("choose")).focus();
  showProgress();
  announce(`${card.name} was deleted.`);
}

// ---- downloads ----

async function download(picture, which) {
  const { image } = picture.job;
  const { card } = picture;
  try {
    const response = await api(`/images/${image.id}/${which}`, { onWait: (text) => card.showWaiting(text) });
    const file = await response.blob();
    const extension = EXTENSIONS[file.type];
    const link = el("a", { href: URL.createObjectURL(file), download: `${downloadName(image, which)}.${extension}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (error) {
    card.listProblems([error instanceof Refused ? error.message : "The download was interrupted. Try again."]);
  }
}

/** The SEO file name in the first language, else the original name. The two files of a picture get different names. */
function downloadName(image, which) {
  const name = image.translations[0]?.seo_filename ?? image.original_filename.replace(/\.[^.]*$/, "");
  const sameExtension = which === "optimized" && image.original_filename.toLowerCase().endsWith(`.${image.converted_format}`);
  return sameExtension || (which === "optimized" && image.translations.length === 0) ? `${name}-optimized` : name;
}

export async function downloadAll(which) {
  const size = `${which}_size`;
  for (const picture of [...pictures]) {
    if (typeof picture.job?.image?.[size] === "number") await download(picture, which);
  }
}

// ---- progress ----

function showProgress() {
  const all = [...pictures];
  const finished = all.filter(({ state }) => state !== "open").length;
  const failed = all.filter(({ state }) => state === "failed").length;
  byId("batch").hidden = all.length === 0;
  byId("progress").max = Math.max(1, all.length);
  byId("progress").value = finished;
  const needing = all.filter(({ job }) => job?.image && needsText(job.image)).length;
  const remarks = (failed > 0 ? `, ${failed} failed` : "") + (needing > 0 ? `, ${needing} ${needing === 1 ? "needs" : "need"} text` : "");
  const text = `${finished} of ${all.length} ${all.length === 1 ? "picture" : "pictures"} finished${remarks}`;
  if (byId("progress-text").textContent !== text) {
    byId("progress-text").textContent = text;
    if (all.length > 0) announce(text);
  }
}

// ---- file input ----

/** The dropped files, and those files in dropped folders that have the extension of a picture. */
export async function filesOfDrop(transfer) {
  clearNotice("drop");
  const entries = [...transfer.items].filter(({ kind }) => kind === "file").map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  if (entries.length === 0) {
    notice("drop", "There is no file in the drop. Save the picture to a file first, and drop that file.", "Close");
    return [];
  }
  const files = [];
  let unreadable = 0;
  for (const entry of entries) {
    if (entry instanceof File) files.push(entry);
    else unreadable += await collectFiles(entry, files, true);
  }
  if (unreadable > 0) notice("drop", `${unreadable} ${unreadable === 1 ? "file" : "files"} could not be read.`, "Close");
  else if (files.length === 0) notice("drop", "There is no JPEG, PNG, GIF or WebP picture in the folder.", "Close");
  return files;
}

/**
 * Add the file `entry`, or the files in the folder `entry`, to `files`. Returns how many could not be read. `isDropped` is
 * true for what the user dropped, which is added whatever its extension.
 */
async function collectFiles(entry, files, isDropped) {
  try {
    if (entry.isFile) {
      if (isDropped || /\.(jpe?g|png|gif|webp)$/i.test(entry.name)) {
        files.push(await new Promise((resolve, reject) => { entry.file(resolve, reject); }));
      }
      return 0;
    }
    const reader = entry.createReader();
    let unreadable = 0;
    for (;;) {
      // browsers return a folder in parts of about a hundred entries
      const part = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
      if (part.length === 0) return unreadable;
      for (const inner of part) unreadable += await collectFiles(inner, files, false);
    }
  } catch {
    return 1;
  }
}
