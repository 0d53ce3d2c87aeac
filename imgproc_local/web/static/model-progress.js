// What the service installs or tests now, with its progress.

import { html, useEffect, useRef, useState } from "./preact.js";
import { bytes, duration } from "./format.js";

const POLL_MS = 1000;
const MIN_MEASURED_S = 3; // the time left is not estimated earlier

const STEPS = {
  starting: "Connecting",
  downloading: "Downloading",
  verifying: "Verifying the files",
  copying: "Copying",
  testing: "Testing on this machine, which takes up to a few minutes",
};
const VERBS = { install: "Installing", import: "Importing", test: "Testing" };

/**
 * Reads the models, and reads them again every second while one is installed or tested. `onEnd(task, failure)` is called when
 * that has ended; `failure` is null if it succeeded. Pass a task that the page has just started or cancelled to the returned
 * `reload(task)`: it may have ended before the models are read, and `onEnd` is called then too.
 */
export function usePolledModels(app, onEnd) {
  const [state, setState] = useState({ data: null, problem: null });
  const running = useRef(null);
  const timer = useRef(null);
  const mounted = useRef(true);
  const latest = useRef(0);
  const read = async (task = null) => {
    clearTimeout(timer.current);
    running.current = task ?? running.current;
    const number = ++latest.current;
    let data = null;
    let problem = null;
    try {
      data = await app.local("GET", "/models");
    } catch (error) {
      problem = error.message;
    }
    // answers may arrive in another order than they were requested: an older one knows nothing of the task
    if (!mounted.current || number !== latest.current) return;
    if (problem) setState((old) => ({ ...old, problem }));
    if (data) {
      const previous = running.current;
      running.current = data.task;
      setState({ data, problem: null });
      if (previous && !data.task) onEnd(previous, data.failures[previous.name] ?? null);
    }
    clearTimeout(timer.current);
    if (running.current) timer.current = setTimeout(() => read(), POLL_MS);
  };
  useEffect(() => {
    mounted.current = true;
    read();
    return () => {
      mounted.current = false;
      clearTimeout(timer.current);
    };
  }, []);
  return { ...state, reload: read };
}

/** The progress of `task`, with a button that calls `onCancel`. */
export function TaskProgress({ task, onCancel }) {
  const left = useTimeLeft(task);
  const { name, step, done_bytes: done, total_bytes: total, is_cancelled: isCancelled, kind } = task;
  const known = total > 0 && (step === "downloading" || step === "copying");
  const sizes = known ? ` ${bytes(done)} of ${bytes(total)}` : "";
  const text = isCancelled ? "Stopping…" : `${STEPS[step]}${sizes}${left ? `, ${left} left` : ""}`;
  const verb = VERBS[kind];
  return html`
    <div class="task" role="group" aria-label=${`${verb} ${name}`}>
      <p class="task-text"><strong>${verb} ${name}</strong> <span class="number">${text}</span></p>
      <progress aria-label=${`${verb} ${name}`} value=${known ? done / total : null} max="1"></progress>
      <button type="button" disabled=${isCancelled} onClick=${onCancel}>${kind === "install" ? "Pause" : "Cancel"}</button>
    </div>`;
}

/** The estimated time until all bytes are there, as text; "" while it is unknown. */
function useTimeLeft({ name, step, done_bytes: done, total_bytes: total }) {
  const start = useRef(null);
  const key = `${name} ${step} ${total}`;
  const now = performance.now() / 1000;
  if (start.current?.key !== key) start.current = { key, done, at_s: now };
  const elapsed_s = now - start.current.at_s;
  const received = done - start.current.done;
  if (!total || elapsed_s < MIN_MEASURED_S || received <= 0 || done >= total) return "";
  return duration(((total - done) * elapsed_s) / received);
}
