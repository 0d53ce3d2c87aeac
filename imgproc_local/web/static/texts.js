// Changes of texts: save, accept, regenerate, undo and redo. The service stores every version of a text.
//
// Each action of the user is one entry of the history, also if it changes the texts of a picture in several languages. It is
// recorded when the user acts, not when the service answers, so that Ctrl+Z always undoes the last action. The requests for
// one picture are sent one after the other: an undo waits until the change before it is stored or refused.

import { announce, notice } from "./messages.js";
import { Observable } from "./observable.js";
import { AnswerLost, Refused, api } from "./service.js";
import { applyTranslation, eventsOf, latestText, pictureOf, reloadPicture } from "./store.js";

// Entries: { id, texts: [{ code, before, state }] }, oldest first. `before` are the words that the action replaced; `state` is
// "sent" until the service has answered, then "stored" or "refused", and "undone" after an undo.
const done = [];
const undone = [];

const queues = new Map(); // the end of the last request, by the identifier of the picture
const restoring = new Map(); // how many requests that restore or regenerate texts are not answered, by picture

/** How many actions are not yet stored by the service. */
export const saving = new Observable(0);
/** The words on their way to the service, { seo_alt_text, seo_filename }, by `keyOf` the text. */
export const sent = new Observable(new Map());

export const keyOf = (id, code) => `${id} ${code}`;

const isSame = (text, other) => ["seo_alt_text", "seo_filename", "source"].every((name) => text?.[name] === other?.[name]);

/** Do `work` when all earlier requests for the picture `id` are answered. */
function enqueue(id, work) {
  saving.set(saving.value + 1);
  const result = (queues.get(id) ?? Promise.resolve()).then(work);
  const end = result.catch(() => {}).then(() => {
    saving.set(saving.value - 1);
    if (queues.get(id) === end) queues.delete(id);
  });
  queues.set(id, end);
  return result;
}

/** As `enqueue`, for work after which the texts are not known before the service has answered. */
function enqueueRestoring(id, work) {
  restoring.set(id, (restoring.get(id) ?? 0) + 1);
  return enqueue(id, work).finally(() => {
    restoring.set(id, restoring.get(id) - 1);
    if (restoring.get(id) === 0) restoring.delete(id);
  });
}

async function request(id, code, method, action = "", words = undefined) {
  const headers = words === undefined ? {} : { "Content-Type": "application/json" };
  const body = words === undefined ? undefined : JSON.stringify(words);
  // the same words may be sent twice; a second undo would undo the change before
  const isRepeatable = method === "PATCH";
  const before = latestText(id, code);
  const events = eventsOf(id);
  if (before === undefined) throw new Refused(404, "The picture was deleted.");
  try {
    const response = await api(`/images/${pictureOf(id).image.id}/translations/${code}${action}`, { method, headers, body, isRepeatable });
    const { data } = await response.json();
    // a regenerated text may be reported by an event before the answer to the request for it arrives
    if (eventsOf(id) === events) applyTranslation(id, data);
    else await reloadPicture(id);
  } catch (error) {
    if (!(error instanceof AnswerLost)) throw error;
    await reloadPicture(id);
    const now = latestText(id, code);
    if (isSame(now, before) && now.regenerating === before.regenerating) {
      throw new Refused(0, "The connection to the service was interrupted, and the text is unchanged. Try again.");
    }
  }
}

function record(entry) {
  done.push(entry);
  undone.length = 0;
}

/** Do `change(text)` for the texts of an entry in turn. Throws the first error after all were tried. */
async function changeAll(texts, change) {
  const errors = [];
  for (const text of texts) {
    try {
      await change(text);
      text.state = "stored";
    } catch (error) {
      text.state = "refused";
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
}

// ---- saving ----

/** Whether the text will have these `words` of a person when all requests are answered. */
function isUnchanged(id, code, words) {
  if (restoring.has(id)) return false;
  const waiting = sent.value.get(keyOf(id, code));
  const text = { ...latestText(id, code), ...waiting };
  const isPersons = text.source === "person" || waiting?.seo_alt_text !== undefined || words.seo_alt_text === undefined;
  return isPersons && Object.entries(words).every(([name, value]) => text[name] === value);
}

function setSent(id, code, words) {
  const all = new Map(sent.value);
  if (Object.keys(words).length > 0) all.set(keyOf(id, code), words);
  else all.delete(keyOf(id, code));
  sent.set(all);
}

/** The words of `newer` are no longer on their way, unless the same field was sent again since. */
function removeSent(id, code, newer) {
  const waiting = sent.value.get(keyOf(id, code)) ?? {};
  setSent(id, code, Object.fromEntries(Object.entries(waiting).filter(([name, value]) => newer[name] !== value)));
}

/** Store texts as a person's in one action: `changes` are { code, words }. Throws `Refused`. */
function save(id, changes) {
  const texts = changes.filter(({ code, words }) => !isUnchanged(id, code, words)).map((change) => ({ ...change, state: "sent" }));
  if (texts.length === 0) return Promise.resolve();
  for (const { code, words } of texts) setSent(id, code, { ...sent.value.get(keyOf(id, code)), ...words });
  record({ id, texts });
  return enqueue(id, () => changeAll(texts, async (text) => {
    text.before = latestText(id, text.code);
    try {
      await request(id, text.code, "PATCH", "", text.words);
    } finally {
      removeSent(id, text.code, text.words);
    }
  }));
}

/** Store `words` ({ seo_alt_text, seo_filename }) of a text as a person's. Throws `Refused`. */
export const saveText = (id, code, words) => save(id, [{ code, words }]);

/** Accept the texts of a picture that no person has accepted or is changing, but none that a person has to write. */
export const acceptTexts = ({ id, image }) => reporting(() => save(id, image.translations
  .filter(({ source, needs_text: needsText }) => source !== "person" && !needsText)
  .filter(({ language_code: code }) => sent.value.get(keyOf(id, code))?.seo_alt_text === undefined)
  .map(({ language_code: code, seo_alt_text: altText }) => ({ code, words: { seo_alt_text: altText } }))));

/** Let the service write texts again, in one action. The event stream reports when they are written. Throws `Refused`. */
export function regenerateTexts(id, codes) {
  const texts = codes.filter((code) => !latestText(id, code)?.regenerating).map((code) => ({ code, state: "sent", isRegenerated: true }));
  if (texts.length === 0) return Promise.resolve();
  record({ id, texts });
  return enqueueRestoring(id, () => changeAll(texts, async (text) => {
    text.before = latestText(id, text.code);
    await request(id, text.code, "POST", "/regenerate");
  }));
}

// ---- undo and redo ----

const ACTIONS = {
  undo: { from: done, to: undone, before: "stored", after: "undone", message: "Undone.", nothing: "There is nothing to undo." },
  redo: { from: undone, to: done, before: "undone", after: "stored", message: "Redone.", nothing: "There is nothing to redo." },
};

/** Undo the last action on this page. Returns the identifier of its picture, or null if there is none. */
export const undoLast = () => restoreLast("undo");
export const redoLast = () => restoreLast("redo");

async function restoreLast(action) {
  const { from, to, message, nothing } = ACTIONS[action];
  while (from.length > 0 && !pictureOf(from.at(-1).id)) from.pop();
  const entry = from.pop();
  if (entry === undefined) {
    announce(nothing);
    return null;
  }
  to.push(entry);
  const { id } = entry;
  let restored = 0;
  const isDone = await reporting(async () => {
    try {
      restored = await enqueueRestoring(id, () => restoreTexts(entry, action));
    } catch (error) {
      moveBack(entry, action, error);
      throw error;
    }
  });
  if (!isDone) return id;
  if (restored === 0) {
    // the action was refused, or has led to the same words: it has no version
    remove(to, entry);
    return restoreLast(action);
  }
  announce(message);
  return id;
}

/** Remove an entry from a list of the history, which may have been emptied since. */
function remove(entries, entry) {
  if (entries.includes(entry)) entries.splice(entries.indexOf(entry), 1);
}

/** An action that could not be undone can be tried again, unless the service does not store the version any more. */
function moveBack(entry, action, error) {
  const { from, to } = ACTIONS[action];
  remove(to, entry);
  if (error.status !== 409) from.push(entry);
}

/** Undo or redo the texts of an entry. Returns how many were changed. Throws `Refused`. */
async function restoreTexts({ id, texts }, action) {
  const { before, after } = ACTIONS[action];
  const open = texts.filter(({ state }) => state === before);
  if (open.some(({ code, isRegenerated }) => isRegenerated && latestText(id, code)?.regenerating)) {
    throw new Refused(0, "The text is still being written. Undo it when it is finished.");
  }
  let restored = 0;
  for (const text of action === "undo" ? open.reverse() : open) {
    if (action === "undo" && isSame(latestText(id, text.code), text.before)) continue;
    await request(id, text.code, "POST", `/${action}`);
    text.state = after;
    restored += 1;
  }
  return restored;
}

export const undoText = (id, code) => restoreText(id, code, "undo");
export const redoText = (id, code) => restoreText(id, code, "redo");

/** Undo or redo the last change of one text, also if it was made before the page was opened. Throws `Refused`. */
function restoreText(id, code, action) {
  const { from, to, before, after } = ACTIONS[action];
  const earlier = from.findLast((entry) => entry.id === id && entry.texts.some((text) => text.code === code));
  const text = earlier?.texts.find((other) => other.code === code) ?? { code, state: before };
  if (earlier !== undefined) earlier.texts = earlier.texts.filter((other) => other !== text);
  if (earlier?.texts.length === 0) remove(from, earlier);
  const entry = { id, texts: [text] };
  to.push(entry);
  return enqueueRestoring(id, async () => {
    try {
      if (text.state !== before) throw new Refused(409, "The change was not stored.");
      await request(id, code, "POST", `/${action}`);
      text.state = after;
    } catch (error) {
      moveBack(entry, action, error);
      throw error;
    }
  });
}

/** Run `work`, and show its error as a notice. True if there was none. */
export async function reporting(work) {
  try {
    await work();
    return true;
  } catch (error) {
    notice("change", error.message, "Close");
    return false;
  }
}

addEventListener("beforeunload", (event) => { if (saving.value > 0) event.preventDefault(); });
