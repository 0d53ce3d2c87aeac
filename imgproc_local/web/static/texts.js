// Changes of texts: save, accept, write anew, undo and redo. The service stores every version; this module remembers in which
// order the texts were changed on this page, so that Ctrl+Z undoes the last change, whichever picture it belongs to.

import { announce, notice } from "./messages.js";
import { Observable } from "./observable.js";
import { api } from "./service.js";
import { applyTranslation, latestTranslation, pictureOf } from "./store.js";

const done = []; // { id, code } of changes, oldest first
const undone = [];

/** How many changes are not yet stored by the service. */
export const saving = new Observable(0);

async function request(id, code, method, action = "", body = undefined) {
  const { image } = pictureOf(id);
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await api(`/images/${image.id}/translations/${code}${action}`, {
    method, headers, body: body === undefined ? undefined : JSON.stringify(body),
  });
  const { data } = await response.json();
  applyTranslation(id, data);
}

// One after the other: Ctrl+Z waits until the last change is stored, and a second one until that change is undone.
let turn = Promise.resolve();
function inTurn(work) {
  saving.set(saving.value + 1);
  const result = turn.then(work).finally(() => saving.set(saving.value - 1));
  turn = result.catch(() => {});
  return result;
}

/** Store `changes` (seo_alt_text, seo_filename) of a text as a person's. Throws `Refused`. */
export const saveText = (id, code, changes) => inTurn(async () => {
  const stored = latestTranslation(id, code);
  // leaving a field that was just accepted saves the same again, which would be a change for Ctrl+Z
  if (stored?.source === "person" && Object.entries(changes).every(([name, text]) => stored[name] === text)) return;
  await request(id, code, "PATCH", "", changes);
  done.push({ id, code });
  undone.length = 0;
});

/** Accept the texts of a picture that no person has accepted yet, but none that a person has to write. */
export async function acceptTexts(picture) {
  for (const { language_code: code, seo_alt_text: altText, source, needs_text: needsText } of picture.image.translations) {
    if (source !== "person" && !needsText) await reporting(() => saveText(picture.id, code, { seo_alt_text: altText }));
  }
}

/** Let the service write a text anew. The event stream reports when it is written. */
export const regenerateText = (id, code) => inTurn(async () => {
  await request(id, code, "POST", "/regenerate");
  done.push({ id, code });
  undone.length = 0;
});

async function undo(id, code) {
  await request(id, code, "POST", "/undo");
  const last = done.findLastIndex((change) => change.id === id && change.code === code);
  if (last >= 0) done.splice(last, 1);
  undone.push({ id, code });
}

async function redo(id, code) {
  await request(id, code, "POST", "/redo");
  const last = undone.findLastIndex((change) => change.id === id && change.code === code);
  if (last >= 0) undone.splice(last, 1);
  done.push({ id, code });
}

export const undoText = (id, code) => inTurn(() => undo(id, code));
export const redoText = (id, code) => inTurn(() => redo(id, code));

/** Undo the last change on this page. Returns the identifier of its picture, or null if there is none. */
export const undoLast = () => inTurn(() => last(done, undo, "Undone.", "There is nothing to undo."));
export const redoLast = () => inTurn(() => last(undone, redo, "Redone.", "There is nothing to redo."));

async function last(changes, act, message, nothing) {
  while (changes.length > 0 && !pictureOf(changes.at(-1).id)) changes.pop();
  const change = changes.at(-1);
  if (change === undefined) {
    announce(nothing);
    return null;
  }
  const isDone = await reporting(async () => {
    try {
      await act(change.id, change.code);
    } catch (error) {
      // a text that was written anew in the same words has no other version: the next Ctrl+Z is for the change before
      if (error.status === 409) changes.splice(changes.lastIndexOf(change), 1);
      throw error;
    }
  });
  if (isDone) announce(message);
  return change.id;
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
