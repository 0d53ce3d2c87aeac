// Changes of texts: save, accept, regenerate, undo and redo. The service stores every version of a text.
//
// Each action of the user is one entry of the history, also if it changes the texts of a picture in several languages. It is
// recorded when the user acts, not when the service answers, so that Ctrl+Z always undoes the last action. The requests for
// one picture are sent one after the other: an undo waits until the change before it is stored or refused.

import { counted } from "./format.js";
import { announce, confirmed, notice } from "./messages.js";
import { Observable } from "./observable.js";
import { AnswerLost, Refused, api } from "./service.js";
import { applyTranslation, eventsOf, latestText, pictureOf, reloadPicture } from "./store.js";

// Entries: { id, texts: [{ code, words, isRegenerated, before, state }] }, oldest first. `words` are those of an edit; `before`
// is the text that the action replaced; `state` is "sent" until the service has answered, then "stored" or "refused", and
// "undone" after an undo.
const done = [];
const undone = [];

const queues = new Map(); // a promise of the end of the last request, by the identifier of the picture
const restoring = new Map(); // how many requests that restore or regenerate texts are unanswered, by the identifier of the picture

/** How many actions the service has not yet answered. */
export const saving = new Observable(0);
/** The words on their way to the service, { seo_alt_text, seo_filename }, by the `keyOf` of their text. */
export const sent = new Observable(new Map());

export const keyOf = (id, code) => `${id} ${code}`;

/** Whether the words and the source of two texts are the same. */
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

/** As `enqueue`, for requests whose resulting texts only the service knows: undo, redo and regenerate. */
function enqueueRestoring(id, work) {
  restoring.set(id, (restoring.get(id) ?? 0) + 1);
  return enqueue(id, work).finally(() => {
    restoring.set(id, restoring.get(id) - 1);
    if (restoring.get(id) === 0) restoring.delete(id);
  });
}

/** Send a change of a text, and show the text of the answer. Throws `Refused`. */
async function request(id, code, method, action = "", words = undefined) {
  const headers = words === undefined ? {} : { "Content-Type": "application/json" };
  const body = words === undefined ? undefined : JSON.stringify(words);
  // sending the same words twice changes nothing; a repeated undo would undo one more change
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

/** Whether the alt text is a person's, or will be when all earlier requests were answered. */
const isFromPerson = (id, code) => latestText(id, code)?.source === "person" || sent.value.get(keyOf(id, code))?.seo_alt_text !== undefined;

/** Whether saving `words` would change nothing: after all earlier requests, the text has them, and an alt text is a person's. */
function isUnchanged(id, code, words) {
  if (restoring.has(id)) return false;
  const waiting = sent.value.get(keyOf(id, code));
  const text = { ...latestText(id, code), ...waiting };
  return (words.seo_alt_text === undefined || isFromPerson(id, code)) && Object.entries(words).every(([name, value]) => text[name] === value);
}

function setSent(id, code, words) {
  const all = new Map(sent.value);
  if (Object.keys(words).length > 0) all.set(keyOf(id, code), words);
  else all.delete(keyOf(id, code));
  sent.set(all);
}

/** Remove the words that the service has `answered` from `sent`, except from fields that were changed again since. */
function removeSent(id, code, answered) {
  const waiting = sent.value.get(keyOf(id, code)) ?? {};
  setSent(id, code, Object.fromEntries(Object.entries(waiting).filter(([name, value]) => answered[name] !== value)));
}

/** Store the words of a person as one action: `changes` are { code, words }. Throws `Refused`. */
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

/** Store `words` ({ seo_alt_text, seo_filename }) of a person. Throws `Refused`. */
export const saveText = (id, code, words) => save(id, [{ code, words }]);

/** Accept the texts of a picture, except those that are accepted, that are being saved, or that a person has to write. */
export const acceptTexts = ({ id, image }) => reporting(() => save(id, image.translations
  .filter(({ source, needs_text: needsText }) => source !== "person" && !needsText)
  .filter(({ language_code: code }) => sent.value.get(keyOf(id, code))?.seo_alt_text === undefined)
  .map(({ language_code: code, seo_alt_text: altText }) => ({ code, words: { seo_alt_text: altText } }))));

/**
 * Let the service write texts anew, as one action, but ask first where a person's would be replaced. `describedBy` is that of
 * GET /local/overview. The event stream reports when they are written.
 */
export const regenerateTexts = (id, codes, { model, problem }) => reporting(async () => {
  const open = codes.filter((code) => !latestText(id, code)?.regenerating);
  if (open.length === 0) return;
  const hasModel = model !== null && problem === null;
  const accepted = open.filter((code) => isFromPerson(id, code)).length;
  if (!hasModel && accepted === 0 && open.every((code) => latestText(id, code)?.source === "pixels")) {
    throw new Refused(0, "There is nothing to write this text from: no model is in use, and the file has no words. Write it yourself.");
  }
  const isAgreed = accepted === 0 || await confirmed({
    title: `Replace ${counted(accepted, "text")} that you accepted?`,
    text: `${hasModel ? "" : "No model is in use. Without words in the file, the new text names only colours and the date. "}Undo brings your words back.`,
    yes: "Regenerate",
  });
  if (!isAgreed) return;
  const texts = open.map((code) => ({ code, state: "sent", isRegenerated: true }));
  record({ id, texts });
  await enqueueRestoring(id, () => changeAll(texts, async (text) => {
    text.before = latestText(id, text.code);
    await request(id, text.code, "POST", "/regenerate");
  }));
  announce(`${counted(texts.length, "text")} being written.`);
});

// ---- undo and redo ----

const ACTIONS = {
  undo: { from: done, to: undone, oldState: "stored", newState: "undone", message: "Undone.", nothing: "There is nothing to undo." },
  redo: { from: undone, to: done, oldState: "undone", newState: "stored", message: "Redone.", nothing: "There is nothing to redo." },
};

/** Undo the last action on this page. Returns the identifier of its picture, or null if there is nothing to undo. */
export const undoLast = () => restoreLast("undo");
/** As `undoLast`, for the action that was undone last. */
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
    // the action was refused or changed no words, so there is no version to restore: go on with the action before it
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

/** After a failed undo or redo, allow another try, unless there is no such version (409). */
function moveBack(entry, action, error) {
  const { from, to } = ACTIONS[action];
  remove(to, entry);
  if (error.status !== 409) from.push(entry);
}

/** Undo or redo the texts of an entry. Returns how many were changed. Throws `Refused`. */
async function restoreTexts({ id, texts }, action) {
  const { oldState, newState } = ACTIONS[action];
  const open = texts.filter(({ state }) => state === oldState);
  if (open.some(({ code, isRegenerated }) => isRegenerated && latestText(id, code)?.regenerating)) {
    throw new Refused(0, "The text is still being written. Undo it when it is finished.");
  }
  let restored = 0;
  for (const text of action === "undo" ? open.reverse() : open) {
    if (action === "undo" && isSame(latestText(id, text.code), text.before)) continue;
    await request(id, text.code, "POST", `/${action}`);
    text.state = newState;
    restored += 1;
  }
  return restored;
}

export const undoText = (id, code) => restoreText(id, code, "undo");
export const redoText = (id, code) => restoreText(id, code, "redo");

/** Undo or redo the last change of one text, also if it was made before the page was opened. Throws `Refused`. */
function restoreText(id, code, action) {
  const { from, to, oldState, newState } = ACTIONS[action];
  const earlier = from.findLast((entry) => entry.id === id && entry.texts.some((text) => text.code === code));
  const text = earlier?.texts.find((other) => other.code === code) ?? { code, state: oldState };
  if (earlier !== undefined) earlier.texts = earlier.texts.filter((other) => other !== text);
  if (earlier?.texts.length === 0) remove(from, earlier);
  const entry = { id, texts: [text] };
  to.push(entry);
  return enqueueRestoring(id, async () => {
    try {
      if (text.state !== oldState) throw new Refused(409, "The change was not stored.");
      await request(id, code, "POST", `/${action}`);
      text.state = newState;
    } catch (error) {
      moveBack(entry, action, error);
      throw error;
    }
  });
}

/** Run `work`, and show its error as a notice. True if it succeeded. */
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
