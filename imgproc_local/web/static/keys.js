// The API keys: list, create, revoke. A new key is shown in the page, not in a dialog that Escape would close.

import { announce, byId, confirmed, copyButton, el, line, time } from "./dom.js";
import { forgetKey, local, storedKey } from "./service.js";

let defaultLimit = null;

/** Show the keys when the page starts, and forget the page's own key if it was revoked. Throws `Refused`. */
export async function startKeys(rateLimitPerMinute) {
  defaultLimit = rateLimitPerMinute;
  byId("limit-hint").textContent = `Leave the limit empty for the default (${limitText(defaultLimit)}). 0 means no limit.`;
  const keys = await showKeys();
  const own = storedKey();
  if (own && !keys.some(({ id, revoked_at }) => id === own.id && revoked_at === null)) forgetKey();
}

/** Fetch, show and return the keys, active ones first. Throws `Refused`. */
export async function showKeys() {
  const keys = await local("GET", "/keys");
  keys.sort((a, b) => Number(a.revoked_at !== null) - Number(b.revoked_at !== null));
  byId("key-list").replaceChildren(...keys.map(row));
  return keys;
}

const limitText = (limit) => (limit === 0 ? "no limit" : `${limit} requests per minute`);

function row(key) {
  const limit = key.rate_limit === null ? `${limitText(defaultLimit)} (default)` : limitText(key.rate_limit);
  const node = el("li", { class: key.revoked_at ? "key revoked" : "key" },
    el("h3", { dir: "auto", tabindex: "-1" }, key.name),
    el("dl", {}, line("Account", key.account), line("Created", time(key.created_at)), line("Limit", limit),
      ...(key.revoked_at ? [line("Revoked", time(key.revoked_at))] : [])));
  if (key.id === storedKey()?.id) node.querySelector("h3").append(" ", el("span", { class: "tag" }, "this page"));
  if (!key.revoked_at) {
    node.append(el("button", { type: "button", class: "danger", "aria-label": `Revoke ${key.name}`, onclick: () => revoke(key) }, "Revoke"));
  }
  return node;
}

async function revoke(key) {
  const own = key.id === storedKey()?.id;
  const sure = await confirmed({
    title: `Revoke “${key.name}”?`,
    text: own
      ? "This page uses this key. It will ask you to create a new one when it next needs a key."
      : "Programs that use this key will be refused. This can't be undone.",
    yes: "Revoke",
    no: "Cancel",
  });
  if (!sure) return;
  await showingErrors(async () => {
    await local("DELETE", `/keys/${key.id}`);
    await showKeys();
    announce(`${key.name} was revoked.`);
    byId("key-list").querySelector("h3")?.focus();
  });
}

async function create(form) {
  const limit = form.elements.rate_limit.value.trim();
  await showingErrors(async () => {
    const created = await local("POST", "/keys", {
      name: form.elements.name.value,
      rate_limit: limit === "" ? null : Number(limit),
    });
    form.reset();
    showSecret(created);
    await showKeys();
  });
}

/** Run `work` and, if it throws, show the error message beside the form. */
async function showingErrors(work) {
  byId("key-problem").textContent = "";
  try {
    await work();
  } catch (error) {
    byId("key-problem").textContent = error.message;
  }
}

function showSecret({ name, key }) {
  const curl = `curl -H "Authorization: Bearer ${key}" -H "Prefer: wait=60" -F languages=en -F image=@picture.jpg ${location.origin}/api/v1/images/process`;
  const panel = byId("created-key");
  const close = () => {
    panel.hidden = true;
    panel.replaceChildren();
    byId("new-key").elements.name.focus();
  };
  panel.replaceChildren(
    el("h3", { id: "created-key-title" }, `Your new key “${name}”`),
    el("p", {}, "Copy it now: it can't be shown again."),
    el("p", { class: "secret" }, el("code", { dir: "ltr" }, key), " ", copyButton("Copy", "the key", () => key)),
    el("p", {}, "To try it with one of your pictures:"),
    el("p", { class: "secret" }, el("code", { dir: "ltr" }, curl), " ", copyButton("Copy", "the command", () => curl)),
    el("button", { type: "button", onclick: close }, "I have stored the key"));
  panel.hidden = false;
  panel.focus();
}

byId("new-key").addEventListener("submit", (event) => {
  event.preventDefault();
  create(event.target);
});
