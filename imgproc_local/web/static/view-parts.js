// Parts that the views of models and access share.

import { html, useEffect, useRef, useState } from "./preact.js";

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
