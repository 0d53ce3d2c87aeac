// The alt text, the file name and the long description of a picture in one language, editable in place.

import { html, useEffect, useId, useRef, useState } from "./preact.js";
import { announce, notice } from "./messages.js";
import { useObservable } from "./observable.js";
import { isUnreviewed } from "./order.js";
import { keyOf, pictureOf, sent } from "./store.js";
import { MAX_CHARS, reporting, restoreText, saveText, saving } from "./texts.js";
import { useListeners } from "./view-parts.js";

const USUAL_CHARS = 125;
const SOURCES = {
  vision: "written by the vision model",
  facts: "from words in the file",
  embedded: "from the file",
};
/** Roles whose texts are made from a context that is sent with the picture and not stored. */
export const CONTEXT_ROLES = { link: "where the link leads", button: "what the button does" };

/** Why a person has to write the alt text, and what to write, by `needs_text_reason`. */
const REASONS = {
  nothing_known: (language) => `Nothing is known but kind and date. Write in ${language} what the picture shows.`,
  other_language: (language) => `What is known is in another language. Write the text in ${language}.`,
  place_or_date_only: (language) => `Only a place or a date is known. Write in ${language} what the picture shows.`,
  unread_text: (language) => `The picture shows text that could not be read. Write in ${language} what it says.`,
};

const CHANGED_ELSEWHERE = "This text was changed elsewhere in the meantime.";

// a field that is left is saved, which may move the button under the pointer before it is released
const keepFocus = (event) => { if (event.target.closest("button")) event.preventDefault(); };
const inOneLine = (text) => text.replaceAll(/[\r\n]+/g, " ");
const characters = (text) => [...text].length;

/** What a person did with a text, or has to do, in words and as the class of a tag. `state` is that of the text in the details. */
function markOf(translation, state) {
  if (state.regenerating) return ["being written…", ""];
  if (translation.needs_text) return ["needs text", "warn"];
  if (translation.source === "person" && translation.seo_alt_text === "") return ["decorative", "good"];
  if (translation.review) return [translation.review, "good"];
  return [isUnreviewed(translation) ? "not reviewed" : SOURCES[translation.source] ?? "", ""];
}

/**
 * The texts of `picture` in one language: one line, or with `isOpen` all fields. `onOpen()` is called when a closed one gets the
 * focus, `onMove(step)` by arrow keys that leave the field, `onAccept()` when the user has accepted the texts, `onRegenerate()` and
 * `onTranslate()` by buttons; the latter is null where there is no other language.
 */
export function TextEditor({ picture, translation, language, isOpen: isChosen, onOpen, onMove, onAccept, onRegenerate, onTranslate }) {
  const { id, name } = picture;
  const { language_code: code, source } = translation;
  const state = picture.details.texts?.[code] ?? {};
  const heading = useId();
  // words on their way to the service count as saved: leaving the field does not send them again, Escape does not discard them
  const waiting = useObservable(sent).get(keyOf(id, code));
  const needsText = translation.needs_text;
  const isAccepted = source === "person";
  // what is known stays beside the empty field until a person has written a text
  const known = needsText ? translation.seo_alt_text : "";
  const saved = { ...translation, long_description: translation.long_description ?? "", ...(needsText ? { seo_alt_text: "" } : {}) };
  const [words, typed, setTyped] = useDrafts(saved);
  const altText = words.seo_alt_text;
  const altSaved = typed.seo_alt_text === undefined;
  const isSaved = Object.keys(typed).length === 0;
  const [isAdding, setAdding] = useState(false); // the user has asked for a field for a long description
  const hasLongText = isAdding || words.long_description !== "" || typed.long_description !== undefined;
  const [refusal, setRefusal] = useState(null); // { message }; or { conflict }, the words for a text that was changed elsewhere
  const conflict = refusal?.conflict ?? null;
  const isOpen = isChosen || refusal !== null; // a reason is not hidden
  const section = useRef(null);
  useEffect(() => { if (refusal) section.current.scrollIntoView({ block: "nearest" }); }, [refusal]);
  // the version that the typed words replace: the one in force when the typing began, or when an earlier change was answered
  const base = useRef(null);
  if (isSaved) base.current = null;
  else if (!waiting) base.current ??= state.version;

  /** Save what was changed. Returns whether the service accepted it; null if there was nothing to save. */
  const save = async ({ acceptance = false, isDecided = false } = {}) => {
    const changed = { ...typed };
    // leaving the field is not enough to accept what was only copied into it
    if (!acceptance && needsText && altText === known) delete changed.seo_alt_text;
    if (acceptance && !isAccepted) changed.seo_alt_text = altText;
    // the field that Enter leaves is not rendered again yet: its words are on their way already
    const onTheirWay = sent.value.get(keyOf(id, code)) ?? {};
    for (const field of Object.keys(changed)) if (changed[field] === onTheirWay[field]) delete changed[field];
    if (Object.keys(changed).length === 0) return null;
    const lost = Object.values(changed).join(", ");
    const report = (reason) => notice(`text ${id} ${code} ${lost}`, `The text of ${name} in ${language} was not saved: ${reason} It was: ${lost}`, "Close");
    if (conflict !== null && !isDecided) {
      if (!mounted.current) report(CHANGED_ELSEWHERE);
      return false;
    }
    const version = base.current ?? (waiting ? undefined : state.version);
    setTyped((drafts) => kept(drafts, (field) => changed[field] === undefined)); // `sent` has the others
    try {
      await saveText(id, code, { ...changed, version });
      base.current = null; // what is typed still replaces the version that was just stored
      setRefusal(null);
      return true;
    } catch (error) {
      setRefusal(error.status === 412 ? { conflict: changed } : { message: error.message });
      setTyped((newer) => ({ ...changed, ...newer })); // a draft again, unless the user has typed other words meanwhile
      if (!mounted.current && pictureOf(id)) report(error.message);
      return false;
    }
  };
  const latest = useRef(save);
  latest.current = save;
  const mounted = useRef(true);
  // when another picture is shown, or the user leaves the page, what was typed is saved; if the service refuses it, a notice says why
  useEffect(() => () => {
    mounted.current = false;
    latest.current();
  }, []);
  useListeners(window, {
    beforeunload(event) {
      save();
      if (saving.value > 0) event.preventDefault(); // the listener in texts.js has been called before this one
    },
  });

  /** Whether there is an alt text to accept; else a problem is shown. */
  const checkAcceptable = () => {
    if (conflict !== null) return false;
    if (!needsText || !altSaved) return true;
    setRefusal({ message: "Write an alt text first." });
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
    if ((typed.seo_filename ?? typed.long_description) === undefined && !checkAcceptable()) return;
    saveAndAnnounce(!needsText || !altSaved);
  };
  const discard = () => {
    setTyped({});
    setRefusal(null);
  };
  const keepMine = () => {
    base.current = state.version;
    save({ isDecided: true });
    setRefusal(null);
  };
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    if (event.key === "Enter" && event.target.closest("button") === null) {
      event.preventDefault();
      event.stopPropagation();
      if (event.ctrlKey || event.metaKey) saveAndStay();
      else accept();
    } else if (event.key === "Escape" && !isSaved) {
      event.stopPropagation();
      discard();
    } else if (event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && !isSaved) {
      event.stopPropagation(); // undo the typing, which the browser does, not the last action
    } else if (["ArrowUp", "ArrowDown"].includes(event.key) && event.target.dataset.alt && !event.shiftKey && !event.altKey) {
      const { target, target: { selectionStart: caret } } = event;
      // where the caret can't go further, the key goes to the next text
      setTimeout(() => { if (target === document.activeElement && target.selectionStart === caret) onMove(event.key === "ArrowUp" ? -1 : 1); });
    }
  };
  const focusOn = (field) => section.current.querySelector(field).focus();
  const addLongText = () => {
    setAdding(true);
    requestAnimationFrame(() => focusOn(".long"));
  };
  const startFromKnown = () => {
    type({ seo_alt_text: known });
    focusOn(".alt");
  };
  const restore = (action) => reporting(async () => {
    await restoreText(id, code, action);
    announce(action === "undo" ? "Undone." : "Redone.");
  });

  const type = (newer) => setTyped((drafts) => ({ ...drafts, ...newer }));
  /** The properties of the field for the words `name`. */
  const fieldOf = (name) => ({ value: words[name], onInput: ({ target }) => type({ [name]: inOneLine(target.value) }), onBlur: () => save() });
  const action = (label, onClick, properties = {}) => html`
    <button type="button" class="small" aria-label=${`${label} ${language}`} onClick=${onClick} ...${properties}>${label}</button>`;

  const length = characters(altText);
  const [mark, tone] = waiting ? ["saving…", ""] : markOf(translation, state);
  const role = CONTEXT_ROLES[picture.details.role];
  const writer = source === "vision" && translation.model ? ` ${translation.model.split("@")[0]}` : "";
  const origin = role && source === "facts" ? `from what you said: ${role}` : SOURCES[source] && SOURCES[source] + writer;
  const reason = needsText ? REASONS[translation.needs_text_reason]?.(language) ?? `Write the text in ${language}.` : "";
  const message = refusal?.message ?? state.error;
  const described = [[isOpen && needsText, "reason"], [message, "problem"], [isOpen, "length"]].filter(([isShown]) => isShown).map(([, name]) => `${heading}-${name}`);
  return html`
    <section ref=${section} class="text" aria-labelledby=${heading} data-needs=${needsText ? "" : null} data-open=${isOpen ? "" : null} onKeyDown=${onKeyDown}
      onMouseDown=${keepFocus} onFocusIn=${onOpen} onClick=${isOpen ? null : () => focusOn(".alt")}>
      <header class="text-head">
        <h3 id=${heading}>${language}</h3>
        <span class=${`tag ${tone}`}>${mark}</span>
        ${isOpen && !needsText && SOURCES[source] !== mark && html`<span class="hint">${origin}</span>`}
      </header>
      ${isOpen && needsText && html`
        <div class="reason">
          <p id=${`${heading}-reason`}>${reason}</p>
          ${known && html`<p lang=${code} dir="auto">${known}</p>`}
          ${known && translation.needs_text_reason !== "nothing_known" && html`
            <button type="button" class="small" aria-label=${`Start from this text, ${language}`} onClick=${startFromKnown}>Start from this text</button>`}
        </div>`}
      <label class="field"><span class="visually-hidden">Alt text, ${language}</span>
        ${!isOpen && html`<span class=${altText ? "line" : "line hint"} aria-hidden="true" lang=${code} dir="auto">${altText || reason}</span>`}
        <textarea class="alt" rows="3" lang=${code} dir="auto" aria-describedby=${described.join(" ") || null}
          aria-invalid=${length > MAX_CHARS || refusal?.message ? "true" : null} data-alt=${code} spellcheck ...${fieldOf("seo_alt_text")}></textarea>
      </label>
      ${conflict !== null && html`
        <div class="reason" role="alert">
          <p>${CHANGED_ELSEWHERE} Which one stays?</p>
          ${Object.keys(conflict).map((field) => html`<p key=${field} lang=${code} dir="auto">${translation[field]}</p>`)}
          <div class="text-foot">
            <button type="button" class="small" onClick=${discard}>Take this one</button>
            <button type="button" class="small" onClick=${keepMine}>Keep mine</button>
          </div>
        </div>`}
      ${message && html`<p id=${`${heading}-problem`} class="problem" role="alert">${message}</p>`}
      ${isOpen && html`
        <div class="gauge" data-tone=${length > MAX_CHARS ? "bad" : length > USUAL_CHARS ? "warn" : "good"}>
          <progress aria-hidden="true" max=${MAX_CHARS} value=${length}></progress>
          <span id=${`${heading}-length`} class="number">${length} of ${length > USUAL_CHARS ? MAX_CHARS : USUAL_CHARS} characters</span>
        </div>
        ${hasLongText && html`
          <label class="field"><span>Long description</span>
            <textarea class="long" rows="4" lang=${code} dir="auto" spellcheck aria-label=${`Long description, ${language}`} ...${fieldOf("long_description")}></textarea>
          </label>`}
        <div class="text-foot">
          <label class="field filename"><span>File name</span>
            <input type="text" dir="ltr" spellcheck=${false} autocomplete="off" maxlength="80" ...${fieldOf("seo_filename")} />
          </label>
          <button type="button" class="main" onClick=${accept} aria-label=${`Accept ${language}`}>Accept <kbd aria-hidden="true">⏎</kbd></button>
        </div>
        <div class="text-actions">
          ${action("Regenerate", onRegenerate, { disabled: state.regenerating || role !== undefined, "aria-describedby": role ? "role-note" : null })}
          ${action("Undo", () => restore("undo"), { disabled: !state.can_undo || state.regenerating })}
          ${action("Redo", () => restore("redo"), { disabled: !state.can_redo || state.regenerating })}
          ${onTranslate && !needsText && altText !== "" && action("Translate", async () => { if ((await save()) !== false) onTranslate(); }, { "aria-label": `Translate ${language} into the others`, "aria-keyshortcuts": "x", title: "Translate into the other languages (x)" })}
          ${!hasLongText && action("Long description", addLongText, { "aria-label": `Add long description, ${language}` })}
        </div>`}
    </section>`;
}

/** The entries of `words` whose name and value `isKept` is true for. */
const kept = (words, isKept) => Object.fromEntries(Object.entries(words).filter(([name, value]) => isKept(name, value)));

/** The words that the user edits, as they are shown: [words, typed, setTyped]. `typed` are those that differ from the `saved` ones. */
function useDrafts(saved) {
  const [drafts, setTyped] = useState({});
  const typed = kept(drafts, (name, draft) => draft !== saved[name]);
  // a draft that was saved must not hide a later change of the saved text, such as an undo
  if (Object.keys(typed).length < Object.keys(drafts).length) setTyped(typed);
  return [{ ...saved, ...typed }, typed, setTyped];
}
