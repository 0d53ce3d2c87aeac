// Messages to the user: announcements that disappear, notices at the top of the page, and the confirmation dialog.
// What is shown is in observable values; `Messages` renders them.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { Observable, useObservable } from "./observable.js";

const ANNOUNCE_AFTER_MS = 300;
const ANNOUNCED_MS = 6000;

const announcement = new Observable(null);
const notices = new Observable([]);
const question = new Observable(null);
let announcementTimer;

/**
 * Show `text` for six seconds, and announce it to assistive technology. A later text replaces it. `undo()` is called by a button
 * beside it.
 */
export function announce(text, undo = null) {
  clearTimeout(announcementTimer);
  announcementTimer = setTimeout(() => announcement.set({ text, undo }), ANNOUNCE_AFTER_MS);
}

/**
 * Show a message at the top of the page until its button is pressed, or until `clearNotice(id)`: both resolve the promise. A message
 * that is already shown under this `id` gets the new text.
 */
export function notice(id, text, buttonText = null) {
  const shown = notices.value.find((other) => other.id === id);
  const { promise, resolve } = shown ?? Promise.withResolvers();
  const latest = { id, text, buttonText, promise, resolve };
  notices.set(shown ? notices.value.map((other) => (other === shown ? latest : other)) : [...notices.value, latest]);
  return promise;
}

export function clearNotice(id) {
  notices.value.find((other) => other.id === id)?.resolve();
  notices.set(notices.value.filter((other) => other.id !== id));
}

/**
 * Ask the user in a dialog. `words` are the texts that would be lost. Resolves with true for the button `yes`, with false for
 * Cancel or Escape.
 */
export const confirmed = ({ title, words = [], text, yes }) => new Promise((resolve) => question.set({ title, words, text, yes, resolve }));

/** The notices, the confirmation dialog and the announcement. Rendered once. */
export function Messages() {
  const asked = useObservable(question);
  return html`
    <div id="notices" role="alert">
      ${useObservable(notices).map(({ id, text, buttonText }) => html`
        <p key=${id} class="notice"><span>${text}</span>
          ${buttonText && html`<button type="button" onClick=${() => clearNotice(id)}>${buttonText}</button>`}
        </p>`)}
    </div>
    <${Announcement} />
    ${asked && html`<${Confirmation} ...${asked} />`}`;
}

/** The announcement, which remains while the pointer or the focus is in it. Its live region exists before its text. */
function Announcement() {
  const announced = useObservable(announcement);
  const [isHeld, setHeld] = useState(false);
  const hold = () => setHeld(true);
  const release = () => setHeld(false);
  const close = () => {
    announcement.set(null);
    release(); // a removed element sends no event when the pointer or the focus leaves it
  };
  useEffect(() => {
    if (announced === null || isHeld) return undefined;
    const timer = setTimeout(close, ANNOUNCED_MS);
    return () => clearTimeout(timer);
  }, [announced, isHeld]);
  return html`
    <div class="announcement" role="status" onPointerEnter=${hold} onPointerLeave=${release} onFocusIn=${hold} onFocusOut=${release}>
      ${announced && html`
        <p><span>${announced.text}</span>
          ${announced.undo && html`<button type="button" class="small" onClick=${() => { close(); announced.undo(); }}>Undo</button>`}
        </p>`}
    </div>`;
}

function Confirmation({ title, words, text, yes, resolve }) {
  const close = (answer) => {
    question.set(null);
    resolve(answer);
  };
  return html`
    <${Dialog} label=${title} onClose=${() => close(false)} class="confirmation">
      ${words.length > 0 && html`
        <ul class="lost" tabindex="0" aria-label="Texts that would be lost">${words.map(({ code, seo_alt_text: altText }) => html`
          <li key=${code} lang=${altText ? code : null} dir="auto">${altText || "No words, because the picture is decorative"}</li>`)}</ul>`}
      <p>${text}</p>
      <div class="dialog-actions">
        <button type="button" autofocus onClick=${() => close(false)}>Cancel</button>
        <button type="button" class="danger" onClick=${() => close(true)}>${yes}</button>
      </div>
    </${Dialog}>`;
}

/** A modal dialog with the heading `label`. `onClose` is called by Escape and by the close button. */
export function Dialog({ label, onClose, children, class: className = "" }) {
  const dialog = useRef(null);
  // useEffect would open it a frame later: a key that is pressed meanwhile would act on the page
  useLayoutEffect(() => {
    const focused = document.activeElement;
    dialog.current.showModal();
    (dialog.current.querySelector("[autofocus]") ?? dialog.current.querySelector("h2")).focus();
    return () => focused?.focus?.();
  }, []);
  return html`
    <dialog ref=${dialog} class=${className} aria-label=${label} onCancel=${(event) => { event.preventDefault(); onClose(); }}>
      <header class="dialog-head">
        <h2 tabindex="-1">${label}</h2>
        <button type="button" class="icon" aria-label="Close" onClick=${onClose}>✕</button>
      </header>
      ${children}
    </dialog>`;
}
