// Requests to the service. A call returns the response or throws the error message of the service. Temporary problems (a
// rate limit, a stopped server, a revoked key) are shown and waited for here.

import { clearNotice, notice, sleep } from "./dom.js";

// The key of the page is in localStorage instead of sessionStorage: one key per browser instead of one per tab. The session
// cookie can create any number of keys, so hiding this one better would protect nothing; foreign scripts never run here.
const KEY_STORE = "imgproc-local.key";
const KEY_NAME = "Local page";
const KEY_RATE_LIMIT = 600; // enough for a large folder, and still a limit if this script should fail
const SILENCE_MS = 45_000; // the event stream sends a comment every 15 s
const MAX_CUTS = 3;

/** The service refused a request. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

class Unreachable extends Error {}
class SessionEnded extends Error {}

// ---- the session of the page: /local ----

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

/** Call an endpoint of the page. Throws `Refused`, also if the service can't be reached. */
export async function local(method, path, body) {
  try {
    return await localOnce(method, path, body);
  } catch (error) {
    if (error instanceof Refused) throw error;
    if (error instanceof SessionEnded) {
      sessionEnded();
      throw new Refused(401, "The session of this page has ended.");
    }
    throw new Refused(0, "The service can't be reached. Nothing was changed.");
  }
}

function sessionEnded() {
  return notice(
    "session",
    "The session of this page has ended. Open the link that imgproc-local serve printed in this browser, then continue here.",
    "Continue",
  );
}

async function refusal(answer) {
  let message = `The service answered ${answer.status}.`;
  try {
    const body = await answer.json();
    message = body.message ?? body.error ?? message;
  } catch {
    // not JSON: the status is all that is known
  }
  return new Refused(answer.status, message);
}

// ---- the key of the page ----

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

/** Dispatches "made" when the page has created a key for itself. */
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
 * The response to a request to /api/v1, repeated while the service is busy or can't be reached.
 * `onWait(text)` is called with the reason for waiting, and with null when the wait is over. Throws `Refused`, or the error
 * of `signal`.
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
        onWait("Waiting for a new session of this page.");
        await sessionEnded();
      } else {
        onWait("Waiting for the service.");
        cuts += (await reachable()) ? 1 : 0;
        if (cuts >= MAX_CUTS) throw new Refused(0, "The connection was interrupted several times during the upload.");
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
    "The API key of this page was revoked. Your pictures are not lost. To continue, the page needs a new key.",
    "Create a key and continue",
  );
  if (storedKey()?.key === key) forgetKey();
}

let probing = null;

/** Wait until the service answers. True if it did at once, so that the problem is another one. */
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

/**
 * Follow a job by its event stream, and call `onJob` with every change. Ends when the job is final, when the stream ends,
 * or after `maxMs`. Throws `Refused`.
 */
export async function follow(jobId, maxMs, onJob, onWait, signal) {
  const stop = new AbortController();
  const limit = setTimeout(() => stop.abort(), maxMs);
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
    // interrupted or out of time: the caller follows the job again
  } finally {
    clearTimeout(limit);
    clearTimeout(silence);
    stop.abort();
  }
}
