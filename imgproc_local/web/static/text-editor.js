// The alt text, the file name and the long description of a picture in one language, editable in place.

import { html, useEffect, useId, useRef, useState } from "./preact.js";
import { announce, notice } from "./messages.js";
import { useObservable } from "./observable.js";
import { pictureOf } from "./store.js";
import { keyOf, reporting, restoreText, saveText, saving, sent } from "./texts.js";

const MAX_CHARS = 250;
const USUAL_CHARS = 125;
const SOURCES = {
  vision: "written by the vision model",
  facts: "from words in the metadata",
  embedded: "from the file",
  person: "accepted by you",
};

/** Why a person has to write the alt text, and what to write, by `needs_text_reason`. */
const REASONS = {
  nothing_known: (language) => `Nothing is known but kind and date. Write in ${language} what the picture shows.`,
  other_language: (language) => `What is known is in another language. Write the text in ${language}.`,
  place_or_date_only: (language) => `Only a place or a date is known. Write in ${language} what the picture shows.`,
  unread_text: (language) => `The picture shows text that could not be read. Write in ${language} what it says.`,
};

const inOneLine = (text) => text.replaceAll(/[\r\n]+/g, " ");
const characters = (text) => [...text].length;

/**
 * The texts of `picture` in one language. `onAccept()` is called when the user has accepted them, `onRegenerate()` by a button.
 */
export function TextEditor({ picture, translation, language, onAccept, onRegenerate }) {
  const { id, name } = picture;
  const { language_code: code, source } = translation;
  const state = picture.details.texts?.[code] ?? {};
  const heading = useId();
  // words on their way to the service count as saved: leaving the field does not send them again, Escape does not discard them
  const waiting = useObservable(sent).get(keyOf(id, code));
  const needsText = translation.needs_text && waiting?.seo_alt_text === undefined;
  const isAccepted = source === "person" || waiting?.seo_alt_text !== undefined;
  // what is known stays beside the empty field until a person has written a text
  const known = needsText ? translation.seo_alt_text : "";
  const savedAltText = waiting?.seo_alt_text ?? (needsText ? "" : translation.seo_alt_text);
  const savedFilename = waiting?.seo_filename ?? translation.seo_filename;
  const [altText, setAltText, altSaved] = useDraft(savedAltText);
  const [filename, setFilename, filenameSaved] = useDraft(savedFilename);
  const [longText, setLongText, longSaved] = useDraft(waiting?.long_description ?? translation.long_description ?? "");
  const [isAdding, setAdding] = useState(false); // the user has asked for a field for a long description
  const hasLongText = isAdding || longText !== "" || !longSaved;
  const [problem, setProblem] = useState("");

  /** Save what was changed. Returns whether the service accepted it; null if there was nothing to save. */
  const save = async ({ acceptance = false } = {}) => {
    const words = {};
    // leaving the field is not enough to accept what was only copied into it
    if ((!altSaved && (acceptance || altText !== known)) || (acceptance && !isAccepted)) words.seo_alt_text = altText;
    if (!filenameSaved) words.seo_filename = filename;
    if (!longSaved) words.long_description = longText;
    if (Object.keys(words).length === 0) return null;
    // from here on, `sent` has the words
    if (words.seo_alt_text !== undefined) setAltText(null);
    setFilename(null);
    setLongText(null);
    try {
      await saveText(id, code, words);
      setProblem("");
      return true;
    } catch (error) {
      setProblem(error.message);
      // the refused words become a draft again, unless the user has typed others meanwhile
      setAltText((typed) => typed ?? words.seo_alt_text ?? null);
      setFilename((typed) => typed ?? words.seo_filename ?? null);
      setLongText((typed) => typed ?? words.long_description ?? null);
      if (!mounted.current && pictureOf(id)) {
        notice(`text ${id} ${code}`, `The text of ${name} in ${language} was not saved: ${error.message} It was: ${Object.values(words).join(", ")}`, "Close");
      }
      return false;
    }
  };
  const latest = useRef(save);
  latest.current = save;
  const mounted = useRef(true);
  // when another picture is shown, or the user leaves the page, what was typed is saved; if the service refuses it, a notice says why
  useEffect(() => {
    // the listener in texts.js has been called before this one
    const onBeforeUnload = (event) => {
      latest.current();
      if (saving.value > 0) event.preventDefault();
    };
    addEventListener("beforeunload", onBeforeUnload);
    return () => {
      removeEventListener("beforeunload", onBeforeUnload);
      mounted.current = false;
      latest.current();
    };
  }, []);

  /** Whether there is an alt text to accept; else a problem is shown. */
  const checkAcceptable = () => {
    if (!needsText || !altSaved) return true;
    setProblem("Write an alt text first.");
    return false;
  };
  const saveAndAnnounce = async (acceptance) => {
    const isStored = await save({ acceptance });
    if (isStored !== false) announce("Saved.", isStored ? () => restore("undo") : null);
  };
  const accept = () => {
    if (!checkAcceptable()) return;
    saveAndAnnounce(true);
    // the service will refuse a text that is too long or empty: it stays in view to be corrected
    if (altSaved || (characters(altText) <= MAX_CHARS && altText.trim() !== "")) onAccept();
  };
  /** Accept the texts without going on. While there is no alt text, only the other fields are saved. */
  const saveAndStay = () => {
    if (filenameSaved && longSaved && !checkAcceptable()) return;
    saveAndAnnounce(!needsText || !altSaved);
  };
  const isSaved = altSaved && filenameSaved && longSaved;
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.isComposing && event.target.closest("button") === null) {
      event.preventDefault();
      event.stopPropagation();
      if (event.ctrlKey || event.metaKey) saveAndStay();
      else accept();
    } else if (event.key === "Escape" && !isSaved) {
      event.stopPropagation();
      setAltText(null);
      setFilename(null);
      setLongText(null);
      setProblem("");
    } else if (event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && !isSaved) {
      event.stopPropagation(); // undo the typing, which the browser does, not the last action
    }
  };
  const addLongText = (event) => {
    const text = event.target.closest(".text");
    setAdding(true);
    requestAnimationFrame(() => text.querySelector(".long").focus());
  };
  const startFromKnown = (event) => {
    setAltText(known);
    event.target.closest(".text").querySelector(".alt").focus();
  };
  const restore = (action) => reporting(async () => {
    await restoreText(id, code, action);
    announce(action === "undo" ? "Undone." : "Redone.");
  });

  const length = characters(altText);
  const tone = length > MAX_CHARS ? "bad" : length > USUAL_CHARS ? "warn" : "good";
  return html`
    <section class="text" aria-labelledby=${heading} data-needs=${needsText ? "" : null} onKeyDown=${onKeyDown}>
      <header class="text-head">
        <h3 id=${heading}>${language}</h3>
        ${waiting ? html`<span class="tag">saving…</span>`
          : needsText ? html`<span class="tag warn">needs text</span>`
          : html`<span class=${source === "person" ? "tag good" : "tag"}>${source === "person" && savedAltText === "" ? "decorative" : SOURCES[source] ?? source}</span>`}
        ${state.regenerating && html`<span class="tag">being written…</span>`}
      </header>
      ${needsText && html`
        <div class="reason">
          <p id=${`${heading}-reason`}>${REASONS[translation.needs_text_reason]?.(language) ?? `Write the text in ${language}.`}</p>
          ${known && html`<p lang=${code} dir="auto">${known}</p>`}
          ${known && translation.needs_text_reason !== "nothing_known" && html`
            <button type="button" class="small" aria-label=${`Start from this text, ${language}`} onClick=${startFromKnown}>Start from this text</button>`}
        </div>`}
      <label class="field"><span class="visually-hidden">Alt text, ${language}</span>
        <textarea class="alt" rows="3" lang=${code} dir="auto" value=${altText} aria-describedby=${`${needsText ? `${heading}-reason ` : ""}${heading}-length`}
          aria-invalid=${length > MAX_CHARS ? "true" : null} data-alt=${code} spellcheck
          onInput=${(event) => setAltText(inOneLine(event.target.value))} onBlur=${() => save()}></textarea>
      </label>
      <div class="gauge" data-tone=${tone}>
        <span class="gauge-bar" aria-hidden="true"><span style=${{ width: `${Math.min(100, (100 * length) / MAX_CHARS)}%` }}></span></span>
        <span id=${`${heading}-length`} class="number">${length} of ${length > USUAL_CHARS ? MAX_CHARS : USUAL_CHARS} characters</span>
      </div>
      <label class="field filename"><span>File name</span>
        <input type="text" value=${filename} dir="ltr" spellcheck=${false} autocomplete="off" maxlength="80"
          onInput=${(event) => setFilename(event.target.value)} onBlur=${() => save()} />
      </label>
      ${hasLongText && html`
        <label class="field"><span>Long description</span>
          <textarea class="long" rows="4" lang=${code} dir="auto" value=${longText} spellcheck aria-label=${`Long description, ${language}`}
            onInput=${(event) => setLongText(inOneLine(event.target.value))} onBlur=${() => save()}></textarea>
        </label>`}
      ${(problem || state.error) && html`<p class="problem" role="alert">${problem || state.error}</p>`}
      <div class="text-actions">
        <button type="button" class="small" onClick=${accept} aria-label=${`Accept ${language}`}>Accept <kbd aria-hidden="true">⏎</kbd></button>
        <button type="button" class="small" disabled=${state.regenerating} aria-label=${`Regenerate ${language}`}
          onClick=${onRegenerate}>Regenerate</button>
        <button type="button" class="small" disabled=${!state.can_undo || state.regenerating} aria-label=${`Undo ${language}`}
          onClick=${() => restore("undo")}>Undo</button>
        <button type="button" class="small" disabled=${!state.can_redo || state.regenerating} aria-label=${`Redo ${language}`}
          onClick=${() => restore("redo")}>Redo</button>
        ${!hasLongText && picture.image.suggested_role === "chart" && html`
          <button type="button" class="small" aria-label=${`Add long description, ${language}`} onClick=${addLongText}>Add long description</button>`}
      </div>
    </section>`;
}

/** A text that the user edits: [text, set, whether it is saved]. `set(null)` discards the draft: the text is the `saved` one. */
function useDraft(saved) {
  const [typed, setTyped] = useState(null);
  // a draft that was saved must not hide a later change of the saved text, such as an undo
  if (typed !== null && typed === saved) setTyped(null);
  const text = typed ?? saved;
  return [text, setTyped, text === saved];
}
