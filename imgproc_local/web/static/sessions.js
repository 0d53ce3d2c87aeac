// The browsers that are signed in: list, revoke, sign out.

import { announce, byId, confirmed, el, line, time } from "./dom.js";
import { forgetKey, local } from "./service.js";

/** Fetch and show the sessions. Throws `Refused`. */
export async function showSessions() {
  const sessions = await local("GET", "/sessions");
  sessions.sort((a, b) => Number(b.current) - Number(a.current));
  byId("session-list").replaceChildren(...sessions.map(row));
}

function row(session) {
  const node = el("li", { class: "key" },
    el("h3", { dir: "auto", tabindex: "-1" }, browserName(session.browser)),
    el("dl", {}, line("Signed in", time(session.created_at)), line("Until", time(session.expires_at))));
  if (session.current) node.querySelector("h3").append(" ", el("span", { class: "tag" }, "this browser"));
  else node.append(el("button", { type: "button", class: "danger", onclick: () => revoke(session) }, "Sign out"));
  return node;
}

/** The browser and its system in a few words, from a User-Agent header. */
function browserName(userAgent) {
  const browser = [["Edg/", "Edge"], ["OPR/", "Opera"], ["Firefox/", "Firefox"], ["Chrome/", "Chrome"], ["Safari/", "Safari"]]
    .find(([mark]) => userAgent.includes(mark));
  const system = ["Android", "iPhone", "iPad", "Windows", "Mac OS X", "Linux"].find((mark) => userAgent.includes(mark));
  if (!browser) return userAgent.slice(0, 60) || "Unnamed browser";
  return system ? `${browser[1]} on ${system === "Mac OS X" ? "macOS" : system}` : browser[1];
}

async function revoke(session) {
  const name = browserName(session.browser);
  const sure = await confirmed({
    title: `Sign out ${name}?`,
    text: "That browser needs a new link to open this page again.",
    yes: "Sign out",
    no: "Cancel",
  });
  if (!sure) return;
  await showingErrors(async () => {
    await local("DELETE", `/sessions/${session.id}`);
    await showSessions();
    announce(`${name} was signed out.`);
    byId("session-list").querySelector("h3")?.focus();
  });
}

async function signOut() {
  await showingErrors(async () => {
    await local("POST", "/sign-out");
    forgetKey();
    location.replace("/");
  });
}

/** Run `work`, and show its error message beside the list. */
async function showingErrors(work) {
  byId("session-problem").textContent = "";
  try {
    await work();
  } catch (error) {
    byId("session-problem").textContent = error.message;
  }
}

byId("sign-out").addEventListener("click", signOut);
