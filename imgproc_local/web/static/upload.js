// Files on their way to the service: read from drops, folders and the clipboard, and sent one after the other.
//
// One upload at a time preserves the order of a folder: identifiers of jobs follow the order in which uploads were accepted.

import { announce } from "./messages.js";
import { counted, hasPictureEnding } from "./format.js";
import { Observable } from "./observable.js";
import { names } from "./order.js";
import { api, Refused } from "./service.js";
import { allPictures, unsent } from "./store.js";

const RAW_EXTENSIONS = /\.(nef|nrw|cr2|cr3|crw|arw|srf|sr2|raf|orf|rw2|dng|pef|srw|x3f|iiq|3fr|rwl)$/i;
const TIFF_EXTENSIONS = /\.tiff?$/i;
const IGNORED = /^(\..*|thumbs\.db|desktop\.ini)$/i;
const RETRYABLE_STATUSES = [0, 500]; // 0: the service could not be reached
const UNSENT_STORAGE_KEY = "imgproc-local.unsent"; // in sessionStorage: each tab has one, which a reload preserves
const MAX_UNSENT_NAMES = 1000;

let waiting = []; // { file, path, operation, options, onAccepted, mayRepeat }
let sending = null; // the item that is being sent
let working = false;
let stop = new AbortController();

const IDLE = { total: 0, sent: 0, current: null, wait: null };
/** What is being sent: `total` files of which `sent` are done, the path of the `current` one, and why it must `wait`. */
export const uploads = new Observable(IDLE);
/**
 * Files that were not added: { name, reason, isDuplicate, isLost, item }, with an `item` where trying again can help, or where the
 * file is a duplicate that can be added nevertheless. Those that are lost have to be chosen again.
 */
export const refused = new Observable(lostFiles());

/** The files that were not sent before this tab was reloaded. Browsers do not give them to the page again. */
function lostFiles() {
  const paths = JSON.parse(sessionStorage.getItem(UNSENT_STORAGE_KEY)) ?? [];
  return paths.map((name) => ({ name, reason: "It was not sent before the page was reloaded.", isLost: true }));
}

/**
 * Add files in their order. `found` are { file, path, operation, onAccepted }; `options` are the fields of the form; `overview`
 * has the limits of the service. `operation` is "process" if it is left out; `onAccepted` is called when the service has
 * accepted the file. One without it that is in the list already is not added.
 */
export function addFiles(found, options, overview) {
  const rejected = found.map(({ file, path }) => ({ name: path, reason: reasonAgainst(file, overview) })).filter(({ reason }) => reason !== null);
  const again = new Set(found.map(({ path }) => path));
  refused.set([...refused.value.filter(({ name, isLost }) => !(isLost && again.has(name))), ...rejected]);
  enqueue(found.filter(({ file }) => reasonAgainst(file, overview) === null)
    .map(({ file, path, operation = "process", onAccepted }) => ({ file, path, operation, options, onAccepted })));
}

/** Why a file is not sent, or null. */
function reasonAgainst({ name, size }, overview) {
  if (RAW_EXTENSIONS.test(name)) return "This is a camera's raw file, which is not a finished picture. Export it as JPEG or TIFF first.";
  if (size === 0) return "The file is empty.";
  // checked before the upload: the service closes the connection when a file is too large, and browsers then give no reason
  const maxBytes = TIFF_EXTENSIONS.test(name) ? overview.max_tiff_bytes : overview.max_upload_bytes;
  return size > maxBytes ? `The file is larger than ${maxBytes / 1024 / 1024} MB, the maximum for a picture.` : null;
}

function enqueue(items) {
  if (items.length === 0) return;
  waiting.push(...items);
  const { total, sent } = uploads.value;
  uploads.set({ ...uploads.value, total: working ? total + items.length : items.length, sent: working ? sent : 0 });
  send();
}

// macOS gives file names in decomposed form
const identity = (name, size) => `${size} ${name.normalize("NFC")}`;

/** The name of the picture in the list with the content `content`, or undefined. A failed picture may be added again. */
const listedAs = (content) => allPictures().find(({ state, name, size, details }) =>
  state !== "failed" && content === (crypto.subtle ? details.sha256 : identity(name, size)))?.name;

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
  enqueue(retried.map(({ item }) => ({ ...item, mayRepeat: duplicates })));
}

uploads.subscribe(({ total, sent }) => {
  unsent.set(total - sent);
  const left = [sending, ...waiting].filter((item) => item !== null).slice(0, MAX_UNSENT_NAMES);
  sessionStorage.setItem(UNSENT_STORAGE_KEY, JSON.stringify(left.map(({ path }) => path)));
});

async function send() {
  if (working) return;
  working = true;
  let accepted = 0;
  const sent = new Map(); // the names of files that were accepted, by content: the list may not have them yet
  while (waiting.length > 0) {
    const item = waiting.shift();
    sending = item;
    uploads.set({ ...uploads.value, current: item.path, wait: null });
    const { signal } = stop;
    try {
      const content = await contentOf(item.file);
      signal.throwIfAborted();
      const other = item.onAccepted || item.mayRepeat ? undefined : sent.get(content) ?? listedAs(content);
      if (other !== undefined) throw new Duplicate(409, `The same picture is in the list already, as “${other}”.`);
      await upload(item, signal);
      sent.set(content, item.file.name);
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

class Duplicate extends Refused {}

function refuse(item, error) {
  const reason = error instanceof Refused ? error.message : "The file could not be sent.";
  const retry = error instanceof Duplicate ? { item, isDuplicate: true } : !(error instanceof Refused) || RETRYABLE_STATUSES.includes(error.status) ? { item } : {};
  refused.set([...refused.value, { name: item.path, reason, ...retry }]);
}

/** What tells the content of a file: its SHA-256, or its name and size where browsers do not trust the address of the page. */
async function contentOf(file) {
  let content;
  try {
    content = await file.arrayBuffer();
  } catch {
    // it would look like a lost connection, and be tried several times
    throw new Refused(0, "The file can't be read. It may have been moved or changed: add it again.");
  }
  if (!crypto.subtle) return identity(file.name, file.size);
  return new Uint8Array(await crypto.subtle.digest("SHA-256", content)).toHex();
}

async function upload({ file, path, operation, options }, signal) {
  const form = new FormData();
  for (const [name, value] of options) form.append(name, value);
  const folder = path.split("/").slice(0, -1).join("/");
  if (folder !== "") form.append("folder", folder);
  form.append("image", file, file.name);
  await api(`/images/${operation}`, {
    method: "POST",
    body: form,
    headers: { "Idempotency-Key": crypto.getRandomValues(new Uint8Array(16)).toHex() }, // so that a picture is not accepted twice when a response is lost
    signal,
    onWait: (wait) => uploads.set({ ...uploads.value, wait }),
  });
}

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

/** Add the file `entry`, or the files in the folder `entry`, to `found`, with null for what is no picture. A file dropped on its own may have any extension. */
async function collect(entry, found, isDropped) {
  const path = entry.fullPath.replace(/^\//, "");
  try {
    if (entry.isFile) {
      const isAdded = isDropped || isPicture(entry.name);
      found.push({ file: isAdded ? await new Promise((resolve, reject) => { entry.file(resolve, reject); }) : null, path });
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
const isPicture = (name) => !IGNORED.test(name) && (hasPictureEnding(name) || RAW_EXTENSIONS.test(name));

/** Sorted as file managers do: by folder, then by name, with numbers by value. Other files in folders are left out. */
function inFolderOrder(found) {
  const isAdded = ({ path }) => !path.includes("/") || isPicture(path.split("/").pop());
  const added = found.filter(isAdded);
  reportOthers(found.filter((item) => !isAdded(item)).map(({ path }) => path.split("/").pop()).filter((name) => !IGNORED.test(name)));
  // a folder comes after what it is in, and its files before its folders
  const placeOf = ({ path }) => ({ folder: path.slice(0, Math.max(0, path.lastIndexOf("/"))), name: path.split("/").pop() });
  return added.map((item) => ({ ...item, ...placeOf(item) })).sort((a, b) => names.compare(a.folder, b.folder) || names.compare(a.name, b.name));
}

/** Say how many files of folders are left out, and of which kinds. */
function reportOthers(others) {
  if (others.length === 0) return;
  const byKind = Map.groupBy(others, (name) => name.match(/\.[^.]+$/)?.[0].toLowerCase() ?? "without an extension");
  const kinds = [...byKind].sort(([, a], [, b]) => b.length - a.length).map(([kind, { length }]) => `${length} ${kind}`);
  refused.set([...refused.value, { name: counted(others.length, "other file"), reason: `${others.length === 1 ? "was" : "were"} left out: ${kinds.join(", ")}.` }]);
}

addEventListener("beforeunload", (event) => { if (working) event.preventDefault(); });
