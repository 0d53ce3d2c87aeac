// Parts that views and dialogs share.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { Dialog } from "./messages.js";

/**
 * Calls `load`: what it resolves with is `data`, and its error message `problem`. `reload()` calls it again; after an error, `data`
 * remains what it was. `answer` is another object after each call.
 */
export function useLoaded(load) {
  const [answer, setAnswer] = useState({ data: null, problem: null });
  const latest = useRef(0);
  const reload = async () => {
    const turn = ++latest.current;
    const result = await load().then((data) => ({ data, problem: null }), ({ message }) => ({ problem: message }));
    // answers may arrive in another order than they were requested
    if (turn === latest.current) setAnswer((before) => ({ ...before, ...result }));
  };
  useEffect(() => {
    reload();
    return () => { latest.current += 1; };
  }, []);
  return { ...answer, answer, reload };
}

/** Calls the `listeners` of `target`, by the name of the event, from the first frame of the component to its last. */
export function useListeners(target, listeners) {
  useLayoutEffect(() => {
    const stop = new AbortController();
    for (const [name, listener] of Object.entries(listeners)) target.addEventListener(name, listener, { signal: stop.signal });
    return () => stop.abort();
  });
}

/** `run` calls `work` and resolves with its result, or with null after an error, whose message is `problem`. `busy` meanwhile. */
export function useAction(work) {
  const [state, setState] = useState({ busy: false, problem: null });
  const run = async (...values) => {
    setState({ busy: true, problem: null });
    const { result, problem } = await work(...values).then((answer) => ({ result: answer, problem: null }), ({ message }) => ({ result: null, problem: message }));
    setState({ busy: false, problem });
    return result;
  };
  return { ...state, run };
}

/**
 * What `load(signal)` resolves with, an object, or the `problem` that it throws. It is called `delay_ms` after each change of
 * `inputs`, which ends an older call; what that one has brought remains until then. `isLoading` meanwhile.
 */
export function useLatest(load, inputs, delay_ms) {
  const [state, setState] = useState({});
  useEffect(() => {
    const abort = new AbortController();
    setState((old) => ({ ...old, isLoading: true }));
    const timer = setTimeout(async () => {
      const loaded = await load(abort.signal).catch(({ message }) => ({ problem: message }));
      if (!abort.signal.aborted) setState(loaded);
    }, delay_ms);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, inputs);
  return state;
}

/** The frame of a view with its heading. With `columns`, its sections are side by side on wide screens. */
export const Panel = ({ title, intro, problem, loading, columns = false, children }) => html`
  <section class=${columns ? "panel columns" : "panel"} aria-labelledby="view-title">
    <header class="panel-head"><h2 id="view-title" tabindex="-1">${title}</h2>${intro && html`<p class="hint">${intro}</p>`}</header>
    <${Problem} text=${problem} />
    ${loading && !problem && html`<p class="hint" role="status">Loading…</p>`}
    ${children}
  </section>`;

/** An error message, which assistive technology reads when it appears. */
export const Problem = ({ text, id = null }) => html`<div role="alert" id=${id} class="problem-text">${text && html`<p class="problem">${withCode(text)}</p>`}</div>`;

/** `text` with the parts between backticks as code. */
export const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? html`<code key=${index}>${part}</code>` : part));

/** A term and its description, in a `dl`. */
export const Fact = ({ term, children }) => html`<div class="fact"><dt class="hint">${term}</dt><dd>${children}</dd></div>`;

/** A select. `choices` are [value, text]; `onChoose(value)` is called after a choice. */
export const Picker = ({ choices, value, onChoose, ...others }) => html`
  <select value=${value} onChange=${({ target }) => onChoose(target.value)} ...${others}>
    ${choices.map(([each, text]) => html`<option key=${each} value=${each}>${text}</option>`)}
  </select>`;

/** A `Picker` with its label. */
export const Select = ({ label, ...others }) => html`<label class="field"><span>${label}</span><${Picker} ...${others} /></label>`;

/** Buttons side by side, of which one is pressed. `choices` are [value, text]; `onChoose(value)` is called after a choice. */
export const Segments = ({ label, choices, value, onChoose, ...others }) => html`
  <div class="segments" role="group" aria-label=${label}>
    ${choices.map(([each, text]) => html`
      <button key=${each} type="button" aria-pressed=${String(each === value)} onClick=${() => onChoose(each)} ...${others}>${text}</button>`)}
  </div>`;

/** A box to tick, or a radio button, and what it means. */
export const Choice = ({ label, hint = null, type = "checkbox", ...others }) => html`
  <label class="choice"><input type=${type} ...${others} /><span>${label}${hint && html` <span class="hint">${hint}</span>`}</span></label>`;

/**
 * The dialog of an act: its fields, a sentence that says what it changes, and a button that does it, which Enter presses too. Without
 * a `preview` there is nothing to do, which `nothing` says.
 */
export function ActDialog({ label, yes, preview, nothing = "Nothing to change.", onApply, onClose, class: className = "", children }) {
  const apply = (event) => {
    event.preventDefault();
    if (!preview) return;
    onClose();
    onApply();
  };
  const onKeyDown = (event) => {
    // browsers submit a form by Enter in its one-line fields only
    if (event.key !== "Enter" || event.isComposing || !event.target.matches("textarea, select")) return;
    event.preventDefault();
    event.currentTarget.requestSubmit();
  };
  return html`
    <${Dialog} label=${label} onClose=${onClose} class=${`act-dialog ${className}`}>
      <form onSubmit=${apply} onKeyDown=${onKeyDown}>
        ${children}
        <p class="number" role="status">${preview || nothing}</p>
        <div class="dialog-actions">
          <button type="button" onClick=${onClose}>Cancel</button>
          <button type="submit" class="main" autofocus disabled=${!preview}>${yes}</button>
        </div>
      </form>
    </${Dialog}>`;
}
