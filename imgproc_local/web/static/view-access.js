// The view "Access": API keys, and the browsers that are signed in.

import { html, useEffect, useId, useRef, useState } from "./preact.js";
import { CopyButton } from "./copy.js";
import { counted, dateTime } from "./format.js";
import { announce, confirmed } from "./messages.js";
import { local, signOut as endOwnSession } from "./service.js";
import { Fact, Panel, Problem, useAction, useLoaded } from "./view-parts.js";

/** Shows the view. `app` has the functions of the page, see app.js. */
export const AccessView = ({ app }) => html`
  <${Panel} title="Access" columns=${true} intro="Programs such as a website’s plugin send an API key with every request. Browsers open this page with a link.">
    <${Keys} app=${app} />
    <${Sessions} />
  </${Panel}>`;

// ---- API keys ----

const limitText = (limit) => limit === 0 ? "no limit" : `${counted(limit, "request")} per minute`;

/** Ends what a person has agreed to end: its `path`, the question, and what is `told` afterwards. Then the heading has the focus. */
const useEnding = (reload, heading) => useAction(async ({ path, told, ...question }) => {
  if (!(await confirmed(question))) return;
  await local("DELETE", path);
  await reload();
  announce(told);
  document.getElementById(heading)?.focus();
});

/** An item of a list: its name with a mark, what is known of it, and its button. */
const Entry = ({ name, mark, facts, children }) => html`
  <li class="entry">
    <div class="entry-head"><h4 dir="auto">${name}</h4>${mark}</div>
    <dl class="facts">${Object.entries(facts).map(([term, value]) => html`<${Fact} key=${term} term=${term}>${value}</${Fact}>`)}</dl>
    ${children}
  </li>`;

function Keys({ app }) {
  const { data, problem, reload } = useLoaded(() => local("GET", "/keys"));
  const [created, setCreated] = useState(null);
  const action = useEnding(reload, "keys-title");
  const revoke = (key) => action.run({
    path: `/keys/${key.id}`, told: `${key.name} was revoked.`, title: `Revoke “${key.name}”?`, yes: "Revoke",
    text: "Programs that use this key will be refused. This can’t be undone.",
  });
  const active = (data ?? []).filter((key) => !key.revoked_at);
  const revoked = (data ?? []).filter((key) => key.revoked_at);
  const row = (key) => html`<${Key} key=${key.id} item=${key} defaultLimit=${app.overview.rate_limit_per_minute} onRevoke=${() => revoke(key)} />`;
  return html`
    <section aria-labelledby="keys-title" class="group">
      <h3 id="keys-title" tabindex="-1">API keys</h3>
      ${created
        ? html`<${CreatedKey} created=${created} onClose=${() => setCreated(null)} />`
        : html`<${NewKey} app=${app} onCreated=${(key) => { setCreated(key); reload(); }} />`}
      <${Problem} text=${problem ?? action.problem} />
      ${active.length > 0 && html`<ul class="entries sheet" aria-label="Active keys">${active.map(row)}</ul>`}
      ${revoked.length > 0 && html`<details><summary>${counted(revoked.length, "revoked key")}</summary><ul class="entries sheet" aria-label="Revoked keys">${revoked.map(row)}</ul></details>`}
    </section>`;
}

function Key({ item, defaultLimit, onRevoke }) {
  const limit = item.rate_limit === null ? `${limitText(defaultLimit)} (default)` : limitText(item.rate_limit);
  const facts = { Account: item.account, Limit: limit, Created: dateTime(item.created_at), ...(item.revoked_at && { Revoked: dateTime(item.revoked_at) }) };
  return html`
    <${Entry} name=${item.name} facts=${facts}>
      ${!item.revoked_at && html`<button type="button" class="danger small" aria-label=${`Revoke ${item.name}`} onClick=${onRevoke}>Revoke</button>`}
    </${Entry}>`;
}

function NewKey({ app, onCreated }) {
  const hint = useId();
  const problem = useId();
  const action = useAction(async ({ name, limit }) => {
    onCreated(await local("POST", "/keys", { name: name.value, rate_limit: limit.value === "" ? null : Number(limit.value) }));
  });
  return html`
    <form class="sheet new-key" onSubmit=${(event) => { event.preventDefault(); action.run(event.currentTarget.elements); }}>
      <label class="field"><span>Name of the new key</span>
        <input type="text" required maxlength="100" autocomplete="off" placeholder="Shop website" aria-describedby=${problem} name="name" /></label>
      <label class="field"><span>Requests per minute</span>
        <input type="text" inputmode="numeric" pattern="[0-9]{1,7}" title="digits" autocomplete="off" aria-describedby=${hint} placeholder=${String(app.overview.rate_limit_per_minute)} name="limit" /></label>
      <button type="submit" class="main" disabled=${action.busy}>Create key</button>
      <p id=${hint} class="hint">Without a number, the limit is the default (${limitText(app.overview.rate_limit_per_minute)}). 0 means no limit.</p>
      <${Problem} id=${problem} text=${action.problem} />
    </form>`;
}

/** The secret of a new key, shown once: in the page, not in a dialog that Escape would close. */
function CreatedKey({ created: { name, key }, onClose }) {
  const region = useRef(null);
  useEffect(() => region.current.focus(), []);
  const curl = `curl -H "Authorization: Bearer ${key}" -H "Prefer: wait=60" -F languages=en -F image=@picture.jpg ${location.origin}/api/v1/images/process`;
  const close = () => {
    onClose();
    document.getElementById("keys-title")?.focus();
  };
  return html`
    <div class="sheet created-key" ref=${region} tabindex="-1" role="region" aria-labelledby="created-title">
      <h4 id="created-title">Your new key “${name}”</h4>
      <p><strong>Copy it now: it can’t be shown again.</strong></p>
      <p class="secret"><code dir="ltr">${key}</code><${CopyButton} class="small" write=${() => key} what="the key" /></p>
      <p>To try it with one of your pictures:</p>
      <p class="secret"><code dir="ltr">${curl}</code><${CopyButton} class="small" write=${() => curl} what="the command" /></p>
      <div class="actions"><button type="button" class="main" onClick=${close}>I have stored the key</button></div>
    </div>`;
}

// ---- browsers ----

/** The browser and its system in a few words, from a User-Agent header. */
function browserName(userAgent) {
  const browser = [["Edg/", "Edge"], ["OPR/", "Opera"], ["Firefox/", "Firefox"], ["Chrome/", "Chrome"], ["Safari/", "Safari"]]
    .find(([mark]) => userAgent.includes(mark));
  const system = ["Android", "iPhone", "iPad", "Windows", "Mac OS X", "Linux"].find((mark) => userAgent.includes(mark));
  if (!browser) return userAgent.slice(0, 60) || "Unnamed browser";
  return system ? `${browser[1]} on ${system === "Mac OS X" ? "macOS" : system}` : browser[1];
}

function Sessions() {
  const { data, problem, reload } = useLoaded(() => local("GET", "/sessions"));
  const endSession = useEnding(reload, "sessions-title");
  const signOutOther = (session) => {
    const name = browserName(session.browser);
    return endSession.run({
      path: `/sessions/${session.id}`, told: `${name} was signed out.`, title: `Sign out ${name}?`, yes: "Sign out",
      text: "That browser needs a new link to open this page again.",
    });
  };
  const signOut = useAction(async () => {
    await endOwnSession();
    location.replace("/");
  });
  const sessions = [...(data ?? [])].sort((a, b) => Number(b.current) - Number(a.current));
  return html`
    <section aria-labelledby="sessions-title" class="group">
      <h3 id="sessions-title" tabindex="-1">Signed-in browsers</h3>
      <p class="hint">To sign in another one, run <code>imgproc-local sign-in</code> in a terminal and open the link that it prints.</p>
      <${Problem} text=${problem ?? endSession.problem ?? signOut.problem} />
      <ul class="entries sheet" aria-label="Signed-in browsers">
        ${sessions.map((session) => html`
          <${Entry} key=${session.id} name=${browserName(session.browser)} mark=${session.current && html`<span class="tag good">this browser</span>`}
            facts=${{ "Signed in": dateTime(session.created_at), Until: dateTime(session.expires_at) }}>
            ${session.current
              ? html`<button type="button" class="small" disabled=${signOut.busy} onClick=${() => signOut.run()}>Sign out of this browser</button>`
              : html`<button type="button" class="danger small" aria-label=${`Sign out ${browserName(session.browser)}`} onClick=${() => signOutOther(session)}>Sign out</button>`}
          </${Entry}>`)}
      </ul>
    </section>`;
}
