// Messages to the user: announcements for assistive technology, notices at the top of the page, and the confirmation dialog.
// What is shown is in observable values; `Messages` renders them.

import { html, useEffect, useRef } from "./preact.js";
import { Observable, useObservable } from "./observable.js";

const ANNOUNCE_AFTER_MS = 300;

const announcement = new Observable("");
const notices = new Observable([]);
const question = new Observable(null);
let announcementTimer;

/** Announce `text` to assistive technology. A later text within 300 ms replaces it. */
export function announce(text) {
  clearTimeout(announcementTimer);
  announcementTimer = setTimeout(() => announcement.set(text), ANNOUNCE_AFTER_MS);
}

/**
 * Show a message at the top of the page until its button is pressed, which resolves the promise, or until `clearNotice(id)`,
 * which does not. A message that is already shown under this `id` remains.
 */
export function notice(id, text, buttonText = null) {
  const shown = notices.value.find((other) => other.id === id);
  if (shown) return shown.pressed;
  let press;
  const pressed = new Promise((resolve) => { press = resolve; });
  notices.set([...notices.value, { id, text, buttonText, press, pressed }]);
  return pressed;
}

export function clearNotice(id) {
  notices.set(notices.value.filter((other) => other.id !== id));
}

/** Ask the user in a dialog. Resolves with true for `yes`, with false for `no` or Escape. `danger` colours the button `yes`. */
export function confirmed({ title, text, yes, no = "Cancel", danger = true }) {
  return new Promise((resolve) => question.set({ title, text, yes, no, danger, resolve }));
}

/** The notices, the confirmation dialog and the live region. Rendered once. */
export function Messages() {
  const asked = useObservable(question);
  return html`
    <div id="notices" role="alert">
      ${useObservable(notices).map(({ id, text, buttonText, press }) => html`
        <p key=${id} class="notice"><span>${text}</span>
          ${buttonText && html`<button type="button" onClick=${() => { clearNotice(id); press(); }}>${buttonText}</button>`}
        </p>`)}
    </div>
    <p class="visually-hidden" role="status">${useObservable(announcement)}</p>
    ${asked && html`<${Confirmation} ...${asked} />`}`;
}

function Confirmation({ title, text, yes, no, danger, resolve }) {
  const close = (answer) => {
    question.set(null);
    resolve(answer);
  };
  return html`
    <${Dialog} label=${title} onClose=${() => close(false)} class="confirmation">
      <p>${text}</p>
      <div class="dialog-actions">
        <button type="button" autofocus onClick=${() => close(false)}>${no}</button>
        <button type="button" class=${danger ? "danger" : "main"} onClick=${() => close(true)}>${yes}</button>
      </div>
    </${Dialog}>`;
}

/** A modal dialog with the heading `label`. `onClose` is called by Escape and by the close button. */
export function Dialog({ label, onClose, children, class: className = "" }) {
  const dialog = useRef(null);
  useEffect(() => {
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
