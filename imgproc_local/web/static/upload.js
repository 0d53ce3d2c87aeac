// Files on their way to the service: read from drops, folders and the clipboard, and sent one after the other.
//
// One upload at a time preserves the order of a folder: identifiers of jobs follow the order in which uploads were accepted.

import { announce } from "./messages.js";
import { counted } from "./format.js";
import { Observable } from "./observable.js";
import { api, Refused } from "./service.js";
import { allPictures, unsent } from "./store.js";

const EXTENSIONS = /\.(jpe?g|png|gif|webp|tiff?|heic|heif)$/i;
const RAW_EXTENSIONS = /\.(nef|nrw|cr2|cr3|crw|arw|srf|sr2|raf|orf|rw2|dng|pef|srw|x3f|iiq|3fr|rwl)$/i;
const TIFF_EXTENSIONS = /\.tiff?$/i;
const IGNORED = /^(\..*|thumbs\.db|desktop\.ini)$/i;
const RETRYABLE_STATUSES = [0, 500]; // 0: the service could not be reached
const names = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

let waiting = []; // { file, path, operation, options, onAccepted }
let sending = null; // the item that is being sent
let working = false;
let stop = new AbortController();

const IDLE = { total: 0, sent: 0, current: null, wait: null };
/** What is being sent: `total` files of which `sent` are done, the path of the `current` one, and why it must `wait`. */
export const uploads = new Observable(IDLE);
/**
 * Files that were not added: { name, reason, isDuplicate, item }, with an `item` where trying again can help, or where the file
 * is a duplicate that can be added nevertheless.
 */
export const refused = new Observable([]);

/**
 * Add files in their order. `found` are { file, path, operation, onAccepted }; `options` are the fields of the form; `overview`
 * has the limits of the service. `operation` is "process" if it is left out; `onAccepted` is called when the service has
 * accepted the file. A file that is in the list already is not added, unless it replaces a picture: then it has `onAccepted`.
 */
export function addFiles(found, options, overview) {
  const rejected = [];
  const accepted = [];
  const present = presentFiles();
  for (const { file, path, operation = "process", onAccepted } of found) {
    const item = { file, path, operation, options, onAccepted };
    const maxBytes = TIFF_EXTENSIONS.test(file.name) ? overview.max_tiff_bytes : overview.max_upload_bytes;
    if (RAW_EXTENSIONS.test(file.name)) {
      rejected.push({ name: path, reason: "This is a camera's raw file, which is not a finished picture. Export it as JPEG or TIFF first." });
    } else if (file.size === 0) rejected.push({ name: path, reason: "The file is empty." });
    else if (file.size > maxBytes) {
      // checked before the upload: the service closes the connection when a file is too large, and browsers then give no reason
      rejected.push({ name: path, reason: `The file is larger than ${maxBytes / 1024 / 1024} MB, the maximum for a picture.` });
    } else if (onAccepted === undefined && present.has(identity(file.name, file.size))) {
      rejected.push({ name: path, reason: "A picture of this name and size is in the list already.", isDuplicate: true, item });
    } else accepted.push(item);
  }
  if (rejected.length > 0) refused.set([...refused.value, ...rejected]);
  enqueue(accepted);
}

function enqueue(items) {
  if (items.length === 0) return;
  waiting.push(...items);
  const { total, sent } = uploads.value;
  uploads.set({ ...uploads.value, total: working ? total + items.length : items.length, sent: working ? sent : 0 });
  send();
}

/** The names and sizes of the pictures in the list and of the files on their way. A failed picture may be added again. */
function presentFiles() {
  const listed = allPictures().filter(({ state }) => state !== "failed").map(({ name, size }) => identity(name, size));
  const added = [sending, ...waiting].filter((item) => item !== null).map(({ file }) => identity(file.name, file.size));
  return new Set([...listed, ...added]);
}

// macOS gives file names in decomposed form
const identity = (name, size) => `${size} ${name.normalize("NFC")}`;

/** Send no more files; those that were accepted are processed. */
export function cancelUploads() {
  waiting = [];
  stop.abort();
  stop = new AbortController();
}

/** Send refused files again: the duplicates, or those that another try can help. */
export function retryRefused({ duplicates }) {
  const isRetried = ({ item, isDuplicate = false }) => item !== undefined && isDuplicate === duplicates;
  const retried = refused.value.filter(isRetried);
  refused.set(refused.value.filter((file) => !isRetried(file)));
  enqueue(retried.map(({ item }) => item));
}

uploads.subscribe(({ total, sent }) => unsent.set(total - sent));

async function send() {
  if (working) return;
  working = true;
  let accepted = 0;
  while (waiting.length > 0) {
    const item = waiting.shift();
    sending = item;
    uploads.set({ ...uploads.value, current: item.path, wait: null });
    try {
      await upload(item, stop.signal);
      accepted += 1;
      item.onAccepted?.();
    } catch (error) {
      if (error.name !== "AbortError") refuse(item, error);
    }
    uploads.set({ ...uploads.value, sent: uploads.value.sent + 1 });
  }
  working = false;
  sending = null;
  const notAdded = refused.value.length; // the number that the page shows, also of earlier uploads
  announce(`${counted(accepted, "picture")} sent${notAdded > 0 ? `, ${counted(notAdded, "file")} not added` : ""}.`);
  uploads.set(IDLE);
}

function refuse(item, error) {
  const reason = error instanceof Refused ? error.message : "The file could not be sent.";
  const retry = !(error instanceof Refused) || RETRYABLE_STATUSES.includes(error.status) ? { item } : {};
  refused.set([...refused.value, { name: item.path, reason, ...retry }]);
}

async function upload({ file, operation, options }, signal) {
  // a file that can't be read would look like a lost connection, and be tried several times
  try {
    await file.slice(0, 1).arrayBuffer();
  } catch {
    throw new Refused(0, "The file can't be read. It may have been moved or changed: add it again.");
  }
  const form = new FormData();
  for (const [name, value] of options) form.append(name, value);
  form.append("image", file, file.name);
  await api(`/images/${operation}`, {
    method: "POST",
    body: form,
    headers: { "Idempotency-Key": idempotencyKey() }, // so that a picture is not accepted twice when a response is lost
    signal,
    onWait: (wait) => uploads.set({ ...uploads.value, wait }),
  });
}

const idempotencyKey = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16).padStart(8, "0")).join("");

// ---- files of drops, folders and the clipboard ----

/** The files of an `<input type="file">`, in the order of the folder. */
export const filesOfInput = (input) => inFolderOrder([...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));

/** The files of a paste: pictures that were copied in a file manager or a program. */
export const filesOfPaste = (data) => [...data.files].map((file) => ({ file, path: file.name }));

/** The dropped files and the pictures in dropped folders, in the order of the folder. Unreadable ones are added to `refused`. */
export async function filesOfDrop(transfer) {
  const entries = [...transfer.items].filter(({ kind }) => kind === "file").map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  const found = [];
  for (const entry of entries) {
    if (entry instanceof File) found.push({ file: entry, path: entry.name });
    else if (entry) await collect(entry, found, true);
  }
  return inFolderOrder(found);
}

/** Add the file `entry`, or the pictures in the folder `entry`, to `found`. A file dropped on its own may have any extension. */
async function collect(entry, found, isDropped) {
  const path = entry.fullPath.replace(/^\//, "");
  try {
    if (entry.isFile) {
      if (isDropped || isPicture(entry.name)) {
        found.push({ file: await new Promise((resolve, reject) => { entry.file(resolve, reject); }), path });
      }
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      // browsers return a folder in parts of about a hundred entries
      const part = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
      if (part.length === 0) return;
      for (const inner of part) await collect(inner, found, false);
    }
  } catch {
    refused.set([...refused.value, { name: path, reason: "The file or folder can't be read." }]);
  }
}

/** Whether a file in a folder is a picture. Raw files are, so that they are refused with a reason. */
const isPicture = (name) => !IGNORED.test(name) && (EXTENSIONS.test(name) || RAW_EXTENSIONS.test(name));

/** Sorted as file managers do: by folder, then by name, with numbers by value. Without the other files in folders. */
function inFolderOrder(found) {
  const added = found.filter(({ path }) => !path.includes("/") || isPicture(path.split("/").pop()));
  return added.map((item) => ({ ...item, parts: item.path.split("/") })).sort((a, b) => comparePaths(a.parts, b.parts));
}

function comparePaths(a, b) {
  for (let level = 0; level < Math.min(a.length, b.length); level += 1) {
    // the files of a folder come before its folders
    const kind = Number(level < a.length - 1) - Number(level < b.length - 1);
    if (kind !== 0) return kind;
    const order = names.compare(a[level], b[level]) || (a[level] < b[level] ? -1 : a[level] > b[level] ? 1 : 0);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

addEventListener("beforeunload", (event) => { if (working) event.preventDefault(); });
