// Requests to the service. `local` calls the page's own endpoints and `api` the public ones; both throw the service's error
// message. While a problem is temporary (a rate limit, a stopped server, a session that has ended), `api` shows it and waits.
//
// Beside downloads, the page has at most three connections open: one for the event stream, and `MAX_CONNECTIONS` for
// everything else, so that thumbnails and uploads never delay each other by more than one request.

import { clearNotice, notice } from "./messages.js";

// The secret of the session is in localStorage, so that all tabs share it, and that browsers send it nowhere on their own:
// local.py says why a cookie would not do. It is the page's API key, too. No foreign script runs in this page.
const SESSION_STORAGE_KEY = "imgproc-local.session";
const SILENCE_MS = 45_000; // a stream without data for this time is closed; the service sends a comment every 15 s
const PREVIEW_TIMEOUT_MS = 120_000;
const MAX_INTERRUPTIONS = 3;
const MAX_CONNECTIONS = 2; // beside the event stream

/** Resolves after `ms`, or when `signal` is aborted. */
const sleep = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener("abort", () => {
    clearTimeout(timer);
    resolve();
  }, { once: true });
});

/** The service refused a request with `status`, or could not be reached (`status` 0). */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The connection was lost before the answer to a request arrived: the service may have carried it out. */
export class AnswerLost extends Error {}

/** This browser is not signed in, or no longer. */
export class SessionEnded extends Error {}

// ---- connections ----

/** Returns a function that does the work that it is given when less than `free` are being done, in turn. */
function inSlots(free) {
  const waiting = [];
  return async (work) => {
    if (free > 0) free -= 1;
    else await new Promise((start) => { waiting.push(start); }); // its slot is handed over
    try {
      return await work();
    } finally {
      const start = waiting.shift();
      if (start) start();
      else free += 1;
    }
  };
}

const withConnection = inSlots(MAX_CONNECTIONS);
const inBackground = inSlots(1); // of the thumbnails, only one at a time waits for a connection or uses one

/** The whole response: its connection is in use until its body was received. */
function limitedFetch(path, { urgent = true, ...options }) {
  const request = () => withConnection(async () => {
    const response = await fetch(path, options); // throws at once if it was aborted meanwhile
    const body = await response.blob();
    return new Response(body.size > 0 ? body : null, response);
  });
  return urgent ? request() : inBackground(request);
}

const authorization = () => `Bearer ${localStorage.getItem(SESSION_STORAGE_KEY) ?? ""}`;

// ---- endpoints of the page: /local ----

async function localResponse(method, path, body, signal = AbortSignal.timeout(30_000)) {
  let response;
  try {
    response = await limitedFetch(`/local${path}`, {
      method,
      body: JSON.stringify(body),
      headers: { Authorization: authorization(), ...(body && { "Content-Type": "application/json" }) },
      cache: "no-store",
      signal,
    });
  } catch (error) {
    throw new Error("The service can't be reached.", { cause: error });
  }
  if (response.status === 401) throw new SessionEnded("The session of this page has ended.");
  if (!response.ok) throw await readRefusal(response);
  return response;
}

async function localOnce(method, path, body) {
  const response = await localResponse(method, path, body);
  return response.status === 204 ? null : (await response.json()).data;
}

/** The `file` that a picture would become, as a Blob, and its `score` as text, null if unknown. Throws also after `signal` was aborted. */
export async function preview(body, signal) {
  const response = await localResponse("POST", "/preview", body, AbortSignal.any([signal, AbortSignal.timeout(PREVIEW_TIMEOUT_MS)]));
  return { file: await response.blob(), score: response.headers.get("X-Score") };
}

/** Call an endpoint below /local and return the data of the response. Throws `Refused`, also if the service can't be reached. */
export async function local(method, path, body) {
  try {
    return await localOnce(method, path, body);
  } catch (error) {
    if (error instanceof Refused) throw error;
    if (error instanceof SessionEnded) {
      showSessionEnded();
      throw new Refused(401, "The session of this page has ended.");
    }
    const advice = method === "GET" ? "" : " Check whether the change was made before you repeat it.";
    throw new Refused(0, `The service can't be reached, or has not answered within 30 seconds.${advice}`);
  }
}

/** Sign this browser in with the `token` of a link, unless it is signed in already. Throws `SessionEnded` if the link is not valid. */
export async function signIn(token) {
  const { secret } = await localOnce("POST", "/sign-in", { token });
  if (secret !== null) localStorage.setItem(SESSION_STORAGE_KEY, secret);
}

export async function signOut() {
  await local("POST", "/sign-out");
  localStorage.removeItem(SESSION_STORAGE_KEY);
}

/** Show that the session has ended until the user continues, or another tab has signed in. */
const showSessionEnded = () => notice(
  "session", "The session of this page has ended. In a terminal, run imgproc-local sign-in and open the link that it prints in this browser; then continue here.", "Continue");
addEventListener("storage", ({ key }) => { if (key === SESSION_STORAGE_KEY) clearNotice("session"); });

// what the page calls the fields that refusals name
const FIELD_LABELS = {
  seo_alt_text: "alt text",
  seo_filename: "file name",
  long_description: "long description",
  language_code: "language",
  project_name: "project name",
  project_id: "project",
  max_width_px: "longest side",
  max_height_px: "longest side",
  rate_limit: "rate limit",
  name_template: "pattern of the names",
};

/** A message of the service with the names of fields as the page calls them. */
export function inWordsOfPage(message) {
  const text = message.replace("send decorative: true", "press “Mark as decorative”").replaceAll(/\b[a-z]+(?:_[a-z]+)+\b/g, (name) => FIELD_LABELS[name] ?? name);
  return text === message ? message : text[0].toUpperCase() + text.slice(1);
}

async function readRefusal(response) {
  const { message, error } = await response.json().catch(() => ({})); // not JSON: the status is all that is known
  return new Refused(response.status, inWordsOfPage(message ?? error ?? `The service responded with status ${response.status}.`));
}

// ---- the API ----

/**
 * The response to a request to /api/v1, repeated while the service is busy or can't be reached. A `stream` has a connection of
 * its own until the caller has read it. A request that is not `urgent` leaves a connection to those that are. `onWait(text)` is
 * called with the reason for waiting, and with null when the wait is over. A request that is not `isRepeatable` is not sent again
 * after its answer was lost: `AnswerLost` is thrown as soon as the service can be reached. Throws also `Refused`, and the error of
 * `signal`.
 */
export async function api(path, { method = "GET", body, headers = {}, signal, cache = "no-store", stream = false, urgent = true, isRepeatable = true, onWait = () => {} } = {}) {
  for (let interruptions = 0; ; ) {
    signal?.throwIfAborted();
    const sent = { ...headers, Authorization: authorization() };
    const options = { method, body, headers: sent, signal, cache };
    let response;
    try {
      response = await (stream ? fetch(`/api/v1${path}`, options) : limitedFetch(`/api/v1${path}`, { ...options, urgent }));
    } catch (error) {
      signal?.throwIfAborted();
      onWait("Waiting for the service.");
      interruptions += (await reachable()) ? 1 : 0;
      if (!isRepeatable) throw new AnswerLost(`The answer to ${method} ${path} was lost.`, { cause: error });
      if (interruptions >= MAX_INTERRUPTIONS) throw new Refused(0, "The connection was interrupted several times. Try again.");
      onWait(null);
      continue;
    }
    if (response.status === 401) {
      if (authorization() === sent.Authorization) {
        onWait("Waiting for a new session of this page.");
        await showSessionEnded();
      }
    } else if (response.status === 429 || response.status === 503) {
      const { message } = await readRefusal(response);
      const wait_s = Number(response.headers.get("Retry-After")) || 5;
      onWait(`${message} The page tries it again by itself.`);
      await sleep(wait_s * 1000, signal);
    } else if (!response.ok) throw await readRefusal(response);
    onWait(null);
    if (response.ok) return response;
  }
}

/** A file of an image as a Blob; `which` is original, optimized, converted or thumbnail. Throws as `api` does. */
export const fileOf = async (imageId, which, options) => (await api(`/images/${imageId}/${which}`, { cache: "default", ...options })).blob();

let probing = null;

/** Wait until the service responds. True if it did at once: then something else interrupted the request. */
function reachable() {
  probing ??= probe().finally(() => { probing = null; });
  return probing;
}

async function probe() {
  for (let tries = 0; ; tries += 1) {
    try {
      await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(10_000) });
      clearNotice("unreachable");
      return tries === 0;
    } catch {
      notice("unreachable", "The service can't be reached. Nothing is lost: this page continues when the service answers again.");
      await sleep(Math.min(1000 * 2 ** tries, 8000));
    }
  }
}

// ---- the event stream ----

/**
 * Follow the events of the account for ever. `onEvent(name, data)` is called for each one, and with "lost" and null when
 * the connection was lost: changes until the next "snapshot" are unknown. Throws `Refused`.
 */
export async function followAccount(onEvent) {
  for (let delay_ms = 500; ; delay_ms = Math.min(2 * delay_ms, 8000)) {
    await readEvents((name, data) => {
      delay_ms = 250;
      onEvent(name, data);
    });
    onEvent("lost", null);
    await sleep(delay_ms);
  }
}

async function readEvents(onEvent) {
  const stop = new AbortController();
  let silence;
  const restartSilenceTimer = () => {
    clearTimeout(silence);
    silence = setTimeout(() => stop.abort(), SILENCE_MS);
  };
  try {
    const response = await api("/events", { signal: stop.signal, stream: true });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      restartSilenceTimer();
      const { value, done } = await reader.read();
      if (done) return;
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        const field = (name) => event.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        if (field("data") !== undefined) onEvent(field("event"), JSON.parse(field("data")));
      }
    }
  } catch (error) {
    if (error instanceof Refused || error instanceof SyntaxError) throw error;
    // interrupted or silent: the caller connects again
  } finally {
    clearTimeout(silence);
    stop.abort();
  }
}
