// Small things that every part of the page does to the document.
// Text only ever becomes text: nothing on this page parses markup, and its policy would not let it.

/** A new element; `on…` attributes are listeners, null and false ones are left out. */
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

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let said;

/** Have assistive technology say `text` when it has a pause; what comes quickly after it takes its place. */
export function announce(text) {
  clearTimeout(said);
  said = setTimeout(() => { byId("announcements").textContent = text; }, 300);
}

const notices = new Map();

/** Show a message at the top until `clearNotice(id)`; resolves when its button is pressed. */
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

/** Whether the person says yes; Escape is no. */
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

/** A button that copies what `text()` gives and says so. */
export function copyButton(label, what, text) {
  const button = el("button", { type: "button", class: "small", "aria-label": `${label} ${what}` }, label);
  button.addEventListener("click", async () => {
    const done = await copy(text());
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    announce(done ? `Copied ${what}` : "Copying was refused by the browser.");
    setTimeout(() => { button.textContent = label; }, 2000);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // an address of the local network is no secure context and has no clipboard object
    const field = el("textarea", { class: "unseen", readonly: true });
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

/** A size in words, on the 1024 scale that the service's own limit is told in. */
export function bytes(size) {
  let unit = 0;
  while (size >= 1000 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${new Intl.NumberFormat("en", { maximumFractionDigits: unit && size < 10 ? 1 : 0 }).format(size)} ${UNITS[unit]}`;
}
