// Acts on texts and pictures: save, accept, regenerate, move, make results anew, undo and redo. The service stores every version
// of a text.
//
// Each act is one entry of the history, for one text as for those of a thousand pictures, and at most 10,000 items are one request.
// All requests are sent one after the other: an undo waits until the change before it is stored or refused.

import { counted, number } from "./format.js";
import { announce, confirmed, notice } from "./messages.js";
import { Observable } from "./observable.js";
import { AnswerLost, Refused, api, inWordsOfPage } from "./service.js";
import { applyDetails, applyTranslations, keyOf, latestText, load, pictureOf, sent, showSent, textsOf } from "./store.js";

const MAX_ITEMS = 10_000;
export const MAX_CHARS = 250; // of an alt text

// Entries, the latest last: { texts: [{ id, code, before }] }, of which the service has the versions, and `before` is the text that
// the act replaced; or { undo(), redo() }.
const HISTORY = { undo: [], redo: [] };
const OPPOSITE = { undo: "redo", redo: "undo" };

let queue = Promise.resolve(); // ends when all requests so far are answered

/** How many acts the service has not yet answered. */
export const saving = new Observable(0);

/** Whether the words and the source of two texts are the same. */
const isSame = (text, other) => ["seo_alt_text", "seo_filename", "long_description", "source"].every((name) => text?.[name] === other?.[name]);

/** Do `work` when all earlier requests are answered. */
function enqueue(work) {
  saving.set(saving.value + 1);
  const result = queue.then(work).finally(() => saving.set(saving.value - 1));
  queue = result.catch(() => {});
  return result;
}

/** Resolves when all earlier requests are answered. */
export const whenAnswered = () => enqueue(() => {});

function remember(entry) {
  HISTORY.undo.push(entry);
  HISTORY.redo.length = 0;
}

// ---- requests ----

/**
 * Send `items` in requests with the body `bodyOf(items)`, at most 10,000 in one. Resolves with { done, problems }: the items, with
 * the `result` that the service gave each. Throws `Refused`, and `AnswerLost` where the request is not `isRepeatable`.
 */
async function send(method, path, items, bodyOf, isRepeatable) {
  const results = [];
  for (let from = 0; from < items.length; from += MAX_ITEMS) {
    const part = items.slice(from, from + MAX_ITEMS);
    const options = { method, body: JSON.stringify(bodyOf(part)), headers: { "Content-Type": "application/json" }, isRepeatable };
    const { data } = await (await api(path, options)).json();
    results.push(...data.map((result, place) => ({ ...part[place], result })));
  }
  return { done: results.filter(({ result }) => !result.problem), problems: results.filter(({ result }) => result.problem) };
}

/**
 * Change `texts`, { id, code, fields }, and show those of the answer. `once` are the fields of the request. Resolves as `send` does;
 * `before` is the text that was replaced.
 */
async function sendTexts(method, action, texts, once = {}) {
  const items = texts.map(({ id, code, fields }) => ({ id, code, fields, before: latestText(id, code) }));
  const there = items.filter(({ id }) => pictureOf(id));
  const gone = items.filter(({ id }) => !pictureOf(id)).map((item) => ({ ...item, result: { status: 404, problem: "The picture was deleted." } }));
  const bodyOf = (part) => ({ ...once, texts: part.map(({ id, code, fields }) => ({ image_id: pictureOf(id).image.id, language_code: code, ...fields })) });
  try {
    // sending the same words twice changes nothing; a repeated undo would undo one more change
    const { done, problems } = await send(method, `/translations${action}`, there, bodyOf, method === "PATCH");
    // a text that an event has changed meanwhile has this change already, or a newer one
    const current = done.filter(({ id, code, before }) => JSON.stringify(latestText(id, code)) === JSON.stringify(before));
    // a text that was not changed because it has become another one is shown too
    const changedElsewhere = problems.filter(({ result }) => result.data).map(({ id, result }) => ({ id, translation: result.data }));
    applyTranslations([...current.map(({ id, result }) => ({ id, translation: result })), ...changedElsewhere]);
    return { done, problems: [...problems, ...gone] };
  } catch (error) {
    if (!(error instanceof AnswerLost)) throw error;
    await load(); // the service may have carried the request out: the user sees what is in force
    return { done: there, problems: gone };
  }
}

/** An error that says how many of an act's items were not changed, and why. */
function refusalOf(problems, total) {
  const reasons = [...new Set(problems.map(({ result }) => inWordsOfPage(result.problem)))];
  const told = reasons.slice(0, 2).join(" ") + (reasons.length > 2 ? ` And ${counted(reasons.length - 2, "other reason")}.` : "");
  const { status } = problems[0].result;
  if (total === 1 || (problems.length === total && reasons.length === 1)) return new Refused(status, told);
  return new Refused(status, `${number(total - problems.length)} of ${number(total)} changed. ${number(problems.length)} ${problems.length === 1 ? "was" : "were"} not: ${told}`);
}

/** Do `requests` in turn with `sendOne`. Resolves as `send` does, for all of them. */
async function sendAll(requests, sendOne) {
  const answers = await Array.fromAsync(requests, sendOne);
  return { done: answers.flatMap(({ done }) => done), problems: answers.flatMap(({ problems }) => problems) };
}

/** Change texts as one act: `requests` are { texts, once } of `sendTexts`. Throws `Refused` if one was not changed. Resolves with how many were. */
async function changeTexts(method, action, requests) {
  const { done, problems } = await sendAll(requests, ({ texts, once }) => sendTexts(method, action, texts, once));
  if (done.length > 0) remember({ texts: done.map(asEntry) });
  if (problems.length > 0) throw refusalOf(problems, done.length + problems.length);
  return done.length;
}

const asEntry = ({ id, code, before }) => ({ id, code, before });

/** What a button beside the confirmation of the last act does: it undoes that act, also if others follow. */
function undoLast() {
  const entry = HISTORY.undo.at(-1);
  return () => restoreLast("undo", entry);
}

// ---- saving ----

/** Whether the alt text is a person's, or will be when all earlier requests were answered. */
const isFromPerson = (id, code) => latestText(id, code)?.source === "person" || sent.value.get(keyOf(id, code))?.seo_alt_text !== undefined;

/**
 * Store words of a person as one act: `texts` are { id, code, words, fields }, with the words that are shown at once, and the
 * `fields` of the request, which are the words if they are left out. Throws `Refused`. Resolves with how many were changed.
 */
function save(texts) {
  showSent(texts.map(({ id, code, words }) => ({ id, code, words: { ...sent.value.get(keyOf(id, code)), ...words } })));
  return enqueue(async () => {
    try {
      return await changeTexts("PATCH", "", [{ texts: texts.map(({ id, code, words, fields = words }) => ({ id, code, fields })) }]);
    } finally {
      // what was answered is no longer on its way, except fields that were changed again since
      showSent(texts.map(({ id, code, words }) => {
        const waiting = Object.entries(sent.value.get(keyOf(id, code)) ?? {});
        return { id, code, words: Object.fromEntries(waiting.filter(([name, value]) => words[name] !== value)) };
      }));
    }
  });
}

/** Store `words` of a person; see `sent`. Throws `Refused`, with the status 412 if the text has another `version`. */
export const saveText = (id, code, { version, ...words }) => save([{ id, code, words, fields: { ...words, version } }]);

/** Store words in many texts, as one act: { id, code, words }. */
export const saveTexts = (texts) => reporting(async () => announce(`${counted(await save(texts), "text")} changed.`, undoLast()));

/** The texts of pictures that a person can accept: not those that are accepted, that are being saved, or that a person has to write. */
export const acceptable = (pictures) => textsOf(pictures)
  .filter(({ id, code, needs_text: needsText, review, regenerating }) => !needsText && !review && !isFromPerson(id, code) && !regenerating)
  .map(({ id, code, seo_alt_text: altText, source, version }) => ({ id, code, source, words: { seo_alt_text: altText }, fields: { accept: true, version } }));

/** Accept the texts of a picture that can be accepted. */
export const acceptTexts = (picture) => {
  const texts = acceptable([picture]);
  return texts.length > 0 && reporting(() => save(texts));
};

/** Accept `texts`, which `acceptable` returned, as one act. */
export const acceptAll = (texts) => reporting(async () => announce(`${counted(await save(texts), "text")} accepted.`, undoLast()));

/** Empty the alt texts of a picture, so that screen readers skip it, as one act. */
export const markDecorative = (picture) => reporting(async () => {
  await save(textsOf([picture]).map(({ id, code }) => ({ id, code, words: { seo_alt_text: "" }, fields: { seo_alt_text: "", decorative: true } })));
  announce("Marked as decorative.", undoLast());
});

// ---- writing anew ----

/** Whether a text is a person's or from the file, so that it is replaced only if the person agrees. */
export const isOwn = ({ id, code }) => isFromPerson(id, code) || latestText(id, code)?.source === "embedded";

/**
 * Let the service write `texts`, { id, code }, anew, as one act, `own` ones among them only with the person's agreement. `once` are
 * fields of the request. The event stream reports when they are written. Throws `Refused`. Resolves with how many will be written.
 */
function writeAnew(texts, own = [], once = {}) {
  const asked = (chosen, replace) => ({ texts: chosen, once: { ...once, replace } });
  // what another person has written since the question is not replaced: the service refuses the others without `replace`
  return enqueue(() => changeTexts("POST", "/regenerate", [asked(texts.filter((text) => !own.includes(text)), false), asked(own, true)]));
}

/** `writeAnew`, with a confirmation that has an Undo. */
export const regenerateAll = (texts, own, once) => reporting(async () => announce(`${counted(await writeAnew(texts, own, once), "text")} being written.`, undoLast()));

/** Withdraw the texts that wait to be written anew. What was written remains. */
export const cancelWriting = (texts) => reporting(() => enqueue(async () => {
  const { done } = await sendTexts("POST", "/cancel", texts);
  announce(`Stopped: ${counted(done.length, "text")} not written.`);
}));

/**
 * Let the service write texts of a picture anew, but ask first where words of a person would be replaced. `describedBy` is that of
 * GET /local/overview.
 */
export const regenerateTexts = (id, codes, { model, problem }) => reporting(async () => {
  const open = codes.filter((code) => !latestText(id, code)?.regenerating).map((code) => ({ id, code }));
  if (open.length === 0) return;
  const hasModel = model !== null && problem === null;
  const own = open.filter(isOwn);
  if (!hasModel && own.length === 0 && open.every(({ code }) => latestText(id, code)?.source === "pixels")) {
    throw new Refused(0, "There is nothing to write this text from: no model is in use, and the file has no words. Write it yourself.");
  }
  const isAgreed = own.length === 0 || await confirmed({
    title: own.length === 1 ? "Replace a text that a person wrote?" : `Replace ${number(own.length)} texts that a person wrote?`,
    words: own.map(({ code }) => ({ code, ...latestText(id, code), ...sent.value.get(keyOf(id, code)) })),
    text: `${hasModel ? "" : "No model is in use: the new text is made from words in the file. "}Undo brings these words back.`,
    yes: "Replace",
  });
  if (isAgreed) announce(`${counted(await writeAnew(open, own), "text")} being written.`);
});

// ---- pictures ----

/** Send `changes` of pictures, { id, ...fields }, and show them. Throws `Refused` if one was not changed. Resolves with those that were. */
async function sendPictures({ method, path, changes, once = {} }) {
  const there = changes.filter(({ id }) => pictureOf(id));
  const { done, problems } = await send(method, path, there, (part) => ({
    ...once, images: part.map(({ id, ...fields }) => ({ image_id: pictureOf(id).image.id, ...fields })),
  }), true);
  applyDetails(done.filter(({ result }) => result.words !== undefined).map(({ id, result: { words } }) => ({ id, details: { words } })));
  return { done, problems };
}

/** What `changes` of pictures replace: the same fields with their former values. */
const formerWords = (changes) => changes.map(({ id, ...fields }) => {
  const { words, project } = pictureOf(id)?.details ?? {};
  const former = { ...words, project_name: project?.name };
  return { id, ...Object.fromEntries(Object.keys(fields).map((name) => [name, former[name] ?? null])) };
});

/** Change the project or the words of pictures as one act: { id, project_name, caption, keywords, credit }. */
export const changePictures = (changes) => actOnPictures(
  [{ method: "PATCH", path: "/images", changes }], () => [{ method: "PATCH", path: "/images", changes: formerWords(changes) }], "changed");

/** What the `options` of `POST /images/remake` are for the results of a picture now. */
const formerOptions = ({ image, details }, options) =>
  Object.fromEntries(Object.keys(options).map((name) => [name, name === "format" ? image.converted_format ?? options.format : details[name]]));

/** Make the results of `pictures` anew with other `options`, as one act. The texts are kept. */
export function remakePictures(pictures, options) {
  const request = (chosen, once) => ({ method: "POST", path: "/images/remake", changes: chosen.map(({ id }) => ({ id })), once });
  const former = () => Map.groupBy(pictures, (picture) => JSON.stringify(formerOptions(picture, options)));
  return actOnPictures([request(pictures, options)], () => [...former()].map(([once, chosen]) => request(chosen, JSON.parse(once))), "being made anew");
}

/**
 * Send `requests` as one act, and those that `oppositeOf()` returns just before it to undo it. `what` says in the confirmation what
 * happens to the pictures.
 */
function actOnPictures(requests, oppositeOf, what) {
  return reporting(() => enqueue(async () => {
    const opposite = oppositeOf();
    const { done, problems } = await sendAll(requests, sendPictures);
    const ids = new Set(done.map(({ id }) => id));
    const again = (all) => async () => {
      const answer = await sendAll(all.map((request) => ({ ...request, changes: request.changes.filter(({ id }) => ids.has(id)) })), sendPictures);
      if (answer.problems.length > 0) throw refusalOf(answer.problems, ids.size);
    };
    if (done.length > 0) remember({ undo: again(opposite), redo: again(requests) });
    if (problems.length > 0) throw refusalOf(problems, done.length + problems.length);
    announce(`${counted(done.length, "picture")} ${what}.`, undoLast());
  }));
}

// ---- undo and redo ----

/**
 * Undo the last act on this page, or redo the one that was undone last: `action` is "undo" or "redo". Resolves with the identifier
 * of the picture, or with null if it was an act on several, or there is nothing to do. `entry` is another act to undo than the last.
 */
export async function restoreLast(action, entry = null) {
  let restoredId = null;
  await reporting(() => enqueue(async () => {
    const at = HISTORY[action].indexOf(entry);
    if (at >= 0) HISTORY[action].push(...HISTORY[action].splice(at, 1));
    for (let last = HISTORY[action].pop(); last !== undefined; last = HISTORY[action].pop()) {
      if (last.texts?.some(({ id, code }) => latestText(id, code)?.regenerating)) {
        HISTORY[action].push(last);
        throw new Refused(0, "The text is still being written. Undo it when it is finished.");
      }
      // an act that changed no words has no version to restore: go on with the one before it
      const texts = last.texts?.filter(({ id, code, before }) => pictureOf(id) && !(action === "undo" && isSame(latestText(id, code), before)));
      if (texts?.length === 0) continue;
      if (texts?.every(({ id }) => id === texts[0].id)) restoredId = texts[0].id;
      await restore(action, texts === undefined ? last : { texts });
      announce(action === "undo" ? "Undone." : "Redone.");
      return;
    }
    announce(`There is nothing to ${action}.`);
  }));
  return restoredId;
}

/** Undo or redo the last change of one text, also if it was made before the page was opened. Throws `Refused`. */
export const restoreText = (id, code, action) => enqueue(() => {
  const isIt = (text) => text.id === id && text.code === code;
  const earlier = HISTORY[action].findLast(({ texts }) => texts?.some(isIt));
  const text = earlier?.texts.find(isIt) ?? { id, code };
  if (earlier !== undefined) earlier.texts = earlier.texts.filter((other) => other !== text);
  return restore(action, { texts: [text] });
});

/** Undo or redo an entry of the history, which is then one of the opposite action. Throws `Refused`. */
async function restore(action, entry) {
  const restored = entry.texts === undefined ? entry[action]() : sendTexts("POST", `/${action}`, entry.texts);
  const answer = await restored.catch((error) => {
    HISTORY[action].push(entry);
    throw error;
  });
  if (entry.texts === undefined) {
    HISTORY[OPPOSITE[action]].push(entry);
    return;
  }
  const { done, problems } = answer;
  if (done.length > 0) HISTORY[OPPOSITE[action]].push({ texts: done.map(asEntry) });
  // another try is possible, unless there is no such version
  const open = problems.filter(({ result }) => result.status !== 409).map(asEntry);
  if (open.length > 0) HISTORY[action].push({ texts: open });
  if (problems.length > 0) throw refusalOf(problems, entry.texts.length);
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

/**
 * Have the text of a picture in the language `code` translated into its other languages, of which those with words of a person are
 * kept. Where there are no others, ask whether they are replaced. `describedBy` is that of GET /local/overview.
 */
export async function translateText({ id, image }, code, { model, problem }) {
  const others = image.translations.map((translation) => ({ id, code: translation.language_code }))
    .filter((text) => text.code !== code && !latestText(id, text.code)?.regenerating);
  const open = others.filter((text) => !isOwn(text));
  const own = open.length === 0 ? others : [];
  const hasModel = model !== null && problem === null;
  const isAgreed = (hasModel && own.length === 0) || await confirmed({
    title: own.length === 0 ? "Use this text for the other languages?" : `Replace ${counted(own.length, "text")} of a person?`,
    words: own.map((text) => ({ code: text.code, ...latestText(id, text.code), ...sent.value.get(keyOf(id, text.code)) })),
    text: `${hasModel ? "" : "No model is in use: a text that belongs to no language, such as a name, is used as it is, and any other one is shown beside the empty field for you to translate. "}Undo brings back what was there.`,
    yes: own.length === 0 ? "Use it" : "Replace",
  });
  if (isAgreed) await regenerateAll(others.filter((text) => open.includes(text) || own.includes(text)), own, { from_language: code });
}

addEventListener("beforeunload", (event) => { if (saving.value > 0) event.preventDefault(); });
