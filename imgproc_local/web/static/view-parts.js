// Parts that the views of models and access share.

import { html, useCallback, useEffect, useRef, useState } from "./preact.js";

/**
 * Calls `load`, again when a value in `dependencies` changes: what it resolves with is `data`, and its error message `problem`.
 * `reload()` calls it again and resolves with the data, or with null after an error, when `data` remains what it was.
 */
export function useLoaded(load, dependencies = []) {
  const [state, setState] = useState({ data: null, problem: null });
  const latest = useRef(0);
  const reload = useCallback(async () => {
    latest.current += 1;
    const turn = latest.current;
    try {
      const data = await load();
      if (turn === latest.current) setState({ data, problem: null });
      return data;
    } catch (error) {
      if (turn === latest.current) setState((before) => ({ ...before, problem: error.message }));
      return null;
    }
  }, dependencies);
  useEffect(() => {
    reload();
    return () => { latest.current += 1; };
  }, [reload]);
  return { ...state, reload };
}

/** `run` calls `work` and resolves with its result, or with null after an error, whose message is `problem`. `busy` meanwhile. */
export function useAction(work) {
  const [state, setState] = useState({ busy: false, problem: null });
  const run = async (...values) => {
    setState({ busy: true, problem: null });
    try {
      const result = await work(...values);
      setState({ busy: false, problem: null });
      return result;
    } catch (error) {
      setState({ busy: false, problem: error.message });
      return null;
    }
  };
  return { ...state, run };
}

/** The frame of a view with its heading. With `columns`, its sections are side by side on wide screens. */
export function Panel({ title, intro, problem, loading, columns = false, children }) {
  return html`
    <section class=${columns ? "panel columns" : "panel"} aria-labelledby="view-title">
      <header class="panel-head"><h2 id="view-title" tabindex="-1">${title}</h2>${intro && html`<p class="hint">${intro}</p>`}</header>
      <${Problem} text=${problem} />
      ${loading && !problem && html`<p class="hint" role="status">Loading…</p>`}
      ${children}
    </section>`;
}

/** An error message, which assistive technology reads when it appears. */
export function Problem({ text, id = null }) {
  return html`<div role="alert" id=${id} class="problem-text">${text && html`<p class="problem">${withCode(text)}</p>`}</div>`;
}

/** `text` with the parts between backticks as code. */
export const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? html`<code key=${index}>${part}</code>` : part));

/** A term and its description, in a `dl`. */
export function Fact({ term, children }) {
  return html`<div class="fact"><dt>${term}</dt><dd>${children}</dd></div>`;
}
