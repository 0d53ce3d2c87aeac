// Helpers of the other modules: elements, notices, the confirmation dialog, and sizes as text.
// Text is always inserted as a text node: no module parses HTML, and the Content Security Policy forbids it.

/** A new element. Attributes named `on…` add event listeners; attributes that are null, undefined or false are omitted. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

export const byId = (id) => document.getElementById(id);

/** A term and its description, for a list of them. */
export const line = (term, content) => el("div", {}, el("dt", {}, term), el("dd", {}, content));

const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

/** An instant in RFC 3339, in words. */
export const time = (at) => el("time", { datetime: at }, day.format(new Date(at)));

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let announcementTimer;

/** Announce `text` to assistive technology. A later text within 300 ms replaces it. */
export function announce(text) {
  clearTimeout(announcementTimer);
  announcementTimer = setTimeout(() => { byId("announcements").textContent = text; }, 300);
}

const notices = new Map();

/**
 * Show a message at the top of the page until `clearNotice(id)`. The promise resolves when its button is pressed. A message
 * that is already shown under this `id` remains.
 */
export function notice(id, text, buttonText = null) {
  if (notices.has(id)) return notices.get(id).pressed;
  const node = el("p", { class: "notice" }, text, " ");
  const pressed = new Promise((resolve) => {
    if (buttonText) node.append(el("button", { type: "button", onclick: () => { clearNotice(id); resolve(); } }, buttonText));
  });
  notices.set(id, { node, pressed });
  byId("notices").append(node);
  return pressed;
}

export function clearNotice(id) {
  notices.get(id)?.node.remove();
  notices.delete(id);
}

/** Ask the user in a dialog. Resolves with true for `yes`, with false for `no` or Escape. */
export function confirmed({ title, text, yes, no }) {
  const dialog = byId("confirm");
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-yes").textContent = yes;
  byId("confirm-no").textContent = no;
  return new Promise((resolve) => {
    byId("confirm-yes").onclick = () => dialog.close("yes");
    byId("confirm-no").onclick = () => dialog.close("no");
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
    dialog.returnValue = "no";
    dialog.showModal();
  });
}

/** A button that copies the result of `text()` to the clipboard and confirms it. */
export function copyButton(label, what, text) {
  const button = el("button", { type: "button", class: "small", "aria-label": `${label} ${what}` }, label);
  button.addEventListener("click", async () => {
    const done = await copy(text());
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    announce(done ? `Copied ${what}` : "The browser did not allow copying.");
    setTimeout(() => { button.textContent = label; }, 2000);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // browsers offer the clipboard only to secure contexts, to which pages over http from another machine do not belong
    const field = el("textarea", { class: "visually-hidden", readonly: true });
    field.value = text;
    const focused = document.activeElement;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return done;
  }
}

const UNITS = ["bytes", "KB", "MB", "GB"];

/** `size`, in bytes, as text such as "1.4 MB". A unit is 1024 of the one before, as in the settings of the service. */
export function bytes(size) {
  let unit = 0;
  while (size >= 1000 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${new Intl.NumberFormat("en", { maximumFractionDigits: unit && size < 10 ? 1 : 0 }).format(size)} ${UNITS[unit]}`;
}
