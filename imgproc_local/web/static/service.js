// Talks to the service. A call comes back with its answer or with a refusal in the service's own words; what is only a
// matter of waiting (a pause asked for, a stopped server, a revoked key) is waited for here, and told meanwhile.

import { clearNotice, notice, sleep } from "./dom.js";

// The page's key lives in localStorage, not in sessionStorage: one key per browser instead of one per tab. The session
// cookie beside it can make any number of keys, so hiding this one better would protect nothing; scripts of others
// never run here.
const KEY_STORE = "imgproc-local.key";
const KEY_NAME = "Local page";
const KEY_RATE_LIMIT = 600; // a folder of pictures dropped at once; still a brake should this script ever run wild
const SILENCE_MS = 45_000; // the event stream shows a sign of life every 15 s
const MAX_CUTS = 3;

/** The service said no. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

class Unreachable extends Error {}
class SessionEnded extends Error {}

// ---- the page's session: /local ----

async function localOnce(method, path, body) {
  let answer;
  try {
    answer = await fetch(`/local${path}`, {
      method,
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      cache: "no-store",
      signal: AbortSignal.timeout(30_000),
    });
  } catch (error) {
    throw new Unreachable("The service can't be reached.", { cause: error });
  }
  if (answer.status === 401) throw new SessionEnded();
  if (!answer.ok) throw await refusal(answer);
  return answer.status === 204 ? null : (await answer.json()).data;
}

/** Ask one of the page's own endpoints. Throws `Refused`, also where the service can't be reached. */
export async function local(method, path, body) {
  try {
    return await localOnce(method, path, body);
  } catch (error) {
    if (error instanceof Refused) throw error;
    if (error instanceof SessionEnded) {
      sessionEnded();
      throw new Refused(401, "This page's session has ended.");
    }
    throw new Refused(0, "The service can't be reached just now; nothing was changed.");
  }
}

function sessionEnded() {
  return notice(
    "session",
    "This page's session has ended. Open the link that imgproc-local serve printed, in this browser, then go on here.",
    "Go on",
  );
}

async function refusal(answer) {
  let message = `The service answered ${answer.status}.`;
  try {
    const body = await answer.json();
    message = body.message ?? body.error ?? message;
  } catch {
    // no JSON: the status is all there is to tell
  }
  return new Refused(answer.status, message);
}

// ---- the page's key ----

export function storedKey() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY_STORE));
    return stored?.id && stored?.key ? stored : null;
  } catch {
    return null;
  }
}

export function forgetKey() {
  localStorage.removeItem(KEY_STORE);
}

/** Told when the page made itself a key. */
export const keyMade = new EventTarget();
let making = null;

async function currentKey() {
  const stored = storedKey();
  if (stored) return stored.key;
  making ??= localOnce("POST", "/keys", { name: KEY_NAME, rate_limit: KEY_RATE_LIMIT })
    .then((made) => {
      localStorage.setItem(KEY_STORE, JSON.stringify({ id: made.id, key: made.key }));
      keyMade.dispatchEvent(new Event("made"));
      return made.key;
    })
    .finally(() => { making = null; });
  return making;
}

// ---- the API ----

/**
 * The service's answer to a call of /api/v1, once it is neither "later" nor out of reach.
 * `onWait(text)` is told what is waited for, and called with null when that is over. Throws `Refused`, or the signal's own error.
 */
export async function api(path, { method = "GET", body, headers = {}, signal, onWait = () => {} } = {}) {
  for (let cuts = 0; ; ) {
    signal?.throwIfAborted();
    let key;
    let answer;
    try {
      key = await currentKey();
      const sent = { ...headers, Authorization: `Bearer ${key}` };
      answer = await fetch(`/api/v1${path}`, { method, body, headers: sent, signal, cache: "no-store", credentials: "omit" });
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof Refused) throw error;
      if (error instanceof SessionEnded) {
        onWait("Waiting for this page's session.");
        await sessionEnded();
      } else {
        onWait("Waiting for the service to come back.");
        cuts += (await reachable()) ? 1 : 0;
        if (cuts >= MAX_CUTS) throw new Refused(0, "The connection was cut several times while this was sent.");
      }
      onWait(null);
      continue;
    }
    if (answer.status === 401) {
      if (storedKey()?.key === key) {
        onWait("Waiting for a new key.");
        await keyRefused(key);
      }
    } else if (answer.status === 429 || answer.status === 503) {
      const { message } = await refusal(answer);
      const wait_s = Number(answer.headers.get("Retry-After")) || 5;
      onWait(`${message} Trying again in ${wait_s} s.`);
      await sleep(wait_s * 1000);
    } else if (answer.ok) {
      onWait(null);
      return answer;
    } else {
      throw await refusal(answer);
    }
    onWait(null);
  }
}

async function keyRefused(key) {
  await notice(
    "key",
    "This page's own API key was revoked. Your pictures are safe; to go on, the page needs another key.",
    "Make a new key and go on",
  );
  if (storedKey()?.key === key) forgetKey();
}

let probing = null;

/** Wait until the service answers; true where it did so at once, so that the fault lies elsewhere. */
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
      notice("unreachable", "The service can't be reached. Nothing is lost: this page goes on as soon as it is back.");
      await sleep(Math.min(1000 * 2 ** tries, 8000));
    }
  }
}

/**
 * Follow a job by its event stream and hand every change to `onJob`. Ends when the job is final, the stream ends, or
 * `patience_ms` are over. Throws `Refused`.
 */
export async function follow(jobId, patience_ms, onJob, onWait, signal) {
  const stop = new AbortController();
  const patience = setTimeout(() => stop.abort(), patience_ms);
  let silence;
  const alive = () => {
    clearTimeout(silence);
    silence = setTimeout(() => stop.abort(), SILENCE_MS);
  };
  const either = AbortSignal.any([stop.signal, signal]);
  try {
    const answer = await api(`/jobs/${jobId}/events`, { signal: either, onWait });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      alive();
      const { value, done } = await reader.read();
      if (done) return;
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        const data = event.split("\n").find((line) => line.startsWith("data: "));
        if (data) onJob(JSON.parse(data.slice(6)).data);
      }
    }
  } catch (error) {
    if (error instanceof Refused) throw error;
    // cut off or out of patience: whoever follows comes back to it
  } finally {
    clearTimeout(patience);
    clearTimeout(silence);
    stop.abort();
  }
}
