// Changes of texts: save, accept, regenerate, undo and redo. The service stores every version of a text.
//
// Each action of the user is one entry of the history, also if it changes the texts of a picture in several languages. All
// requests are sent one after the other: an undo waits until the change before it is stored or refused.

import { counted, number } from "./format.js";
import { announce, confirmed, notice } from "./messages.js";
import { Observable } from "./observable.js";
import { AnswerLost, Refused, api } from "./service.js";
import { applyTranslation, eventsOf, latestText, pictureOf, reloadPicture } from "./store.js";

// Entries: { id, texts: [{ code, before }] }, the latest last. `before` is the text that the action replaced.
const HISTORY = { undo: [], redo: [] };
const OPPOSITE = { undo: "redo", redo: "undo" };

let queue = Promise.resolve(); // ends when all requests so far are answered

/** How many actions the service has not yet answered. */
export const saving = new Observable(0);
/** The words on their way to the service, { seo_alt_text, seo_filename, long_description }, by the `keyOf` of their text. */
export const sent = new Observable(new Map());

export const keyOf = (id, code) => `${id} ${code}`;

/** Whether the words and the source of two texts are the same. */
const isSame = (text, other) => ["seo_alt_text", "seo_filename", "long_description", "source"].every((name) => text?.[name] === other?.[name]);

/** Do `work` when all earlier requests are answered. */
function enqueue(work) {
  saving.set(saving.value + 1);
  const result = queue.then(work).finally(() => saving.set(saving.value - 1));
  queue = result.catch(() => {});
  return result;
}

/** Send a change of a text, and show the text of the answer. Throws `Refused`. */
async function request(id, code, method, action = "", words = undefined) {
  const headers = words === undefined ? {} : { "Content-Type": "application/json" };
  const body = words === undefined ? undefined : JSON.stringify(words);
  // sending the same words twice changes nothing; a repeated undo would undo one more change
  const isRepeatable = method === "PATCH";
  const events = eventsOf(id);
  if (latestText(id, code) === undefined) throw new Refused(404, "The picture was deleted.");
  try {
    const response = await api(`/images/${pictureOf(id).image.id}/translations/${code}${action}`, { method, headers, body, isRepeatable });
    const { data } = await response.json();
    // a regenerated text may be reported by an event before the answer to the request for it arrives
    if (eventsOf(id) === events) applyTranslation(id, data);
    else await reloadPicture(id);
  } catch (error) {
    if (!(error instanceof AnswerLost)) throw error;
    await reloadPicture(id); // the service may have carried the request out: the user sees what is in force
  }
}

/** Do `change(code)` for texts in turn, as one action. Throws the first error after all were tried. */
async function changeAll(id, codes, change) {
  const texts = [];
  const errors = [];
  for (const code of codes) {
    const before = latestText(id, code);
    await change(code).then(() => texts.push({ code, before }), (error) => errors.push(error));
  }
  if (texts.length > 0) {
    HISTORY.undo.push({ id, texts });
    HISTORY.redo.length = 0;
  }
  if (errors.length > 0) throw errors[0];
}

// ---- saving ----

/** Whether the alt text is a person's, or will be when all earlier requests were answered. */
const isFromPerson = (id, code) => latestText(id, code)?.source === "person" || sent.value.get(keyOf(id, code))?.seo_alt_text !== undefined;

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

/** Store words of a person as one action: `changes` has those of `sent` by language. Throws `Refused`. */
function save(id, changes) {
  for (const [code, words] of changes) setSent(id, code, { ...sent.value.get(keyOf(id, code)), ...words });
  return enqueue(() => changeAll(id, [...changes.keys()], async (code) => {
    try {
      await request(id, code, "PATCH", "", changes.get(code));
    } finally {
      removeSent(id, code, changes.get(code));
    }
  }));
}

/** Store `words` of a person; see `sent`. Throws `Refused`. */
export const saveText = (id, code, words) => save(id, new Map([[code, words]]));

/** Accept the texts of a picture, except those that are accepted, that are being saved, or that a person has to write. */
export const acceptTexts = ({ id, image }) => reporting(() => save(id, new Map(image.translations
  .filter(({ language_code: code, needs_text: needsText }) => !needsText && !isFromPerson(id, code))
  .map(({ language_code: code, seo_alt_text: altText }) => [code, { seo_alt_text: altText }]))));

/** Empty the alt texts of a picture, so that screen readers skip it, as one action. */
export const markDecorative = ({ id, image }) => reporting(async () => {
  await save(id, new Map(image.translations.map(({ language_code: code }) => [code, { seo_alt_text: "", decorative: true }])));
  announce("Marked as decorative.", () => restoreLast("undo"));
});

/**
 * Let the service write texts anew, as one action, but ask first where words of a person would be replaced. `describedBy` is that
 * of GET /local/overview. The event stream reports when they are written.
 */
export const regenerateTexts = (id, codes, { model, problem }) => reporting(async () => {
  const open = codes.filter((code) => !latestText(id, code)?.regenerating);
  if (open.length === 0) return;
  const hasModel = model !== null && problem === null;
  const own = open.filter((code) => isFromPerson(id, code) || latestText(id, code)?.source === "embedded");
  if (!hasModel && own.length === 0 && open.every((code) => latestText(id, code)?.source === "pixels")) {
    throw new Refused(0, "There is nothing to write this text from: no model is in use, and the file has no words. Write it yourself.");
  }
  const isAgreed = own.length === 0 || await confirmed({
    title: own.length === 1 ? "Replace a text that a person wrote?" : `Replace ${number(own.length)} texts that a person wrote?`,
    words: own.map((code) => ({ code, ...latestText(id, code), ...sent.value.get(keyOf(id, code)) })),
    text: `${hasModel ? "" : "No model is in use: the new text is made from words in the file. "}Undo brings these words back.`,
    yes: "Replace",
  });
  if (!isAgreed) return;
  // what another person has written since the question is not replaced: the service refuses the others without `replace`
  await enqueue(() => changeAll(id, open, (code) => request(id, code, "POST", `/regenerate${own.includes(code) ? "?replace=true" : ""}`)));
  announce(`${counted(open.length, "text")} being written.`);
});

// ---- undo and redo ----

/**
 * Undo the last action on this page, or redo the one that was undone last: `action` is "undo" or "redo". Resolves with the
 * identifier of its picture, or with null if there is nothing to do.
 */
export async function restoreLast(action) {
  let restoredId = null;
  await reporting(() => enqueue(async () => {
    for (let entry = HISTORY[action].pop(); entry !== undefined; entry = HISTORY[action].pop()) {
      const { id } = entry;
      if (entry.texts.some(({ code }) => latestText(id, code)?.regenerating)) {
        HISTORY[action].push(entry);
        throw new Refused(0, "The text is still being written. Undo it when it is finished.");
      }
      // an action that changed no words has no version to restore: go on with the one before it
      const texts = entry.texts.filter(({ code, before }) => pictureOf(id) && !(action === "undo" && isSame(latestText(id, code), before)));
      if (texts.length === 0) continue;
      restoredId = id;
      await restore(action, id, texts);
      announce(action === "undo" ? "Undone." : "Redone.");
      return;
    }
    announce(`There is nothing to ${action}.`);
  }));
  return restoredId;
}

/** Undo or redo the last change of one text, also if it was made before the page was opened. Throws `Refused`. */
export const restoreText = (id, code, action) => enqueue(() => {
  const earlier = HISTORY[action].findLast((entry) => entry.id === id && entry.texts.some((text) => text.code === code));
  const text = earlier?.texts.find((other) => other.code === code) ?? { code };
  if (earlier !== undefined) earlier.texts = earlier.texts.filter((other) => other !== text);
  return restore(action, id, [text]);
});

/** Undo or redo texts, which are then an entry of the opposite action. Throws `Refused`. */
async function restore(action, id, texts) {
  const restored = [];
  try {
    for (const text of texts) {
      await request(id, text.code, "POST", `/${action}`);
      restored.push(text);
    }
  } catch (error) {
    // another try is possible, unless there is no such version
    if (error.status !== 409) HISTORY[action].push({ id, texts: texts.filter((text) => !restored.includes(text)) });
    throw error;
  } finally {
    if (restored.length > 0) HISTORY[OPPOSITE[action]].push({ id, texts: restored });
  }
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
