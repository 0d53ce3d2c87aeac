// What is above the list: buttons, search, filters, order, layout, and the totals of the current run. And the list of shortcuts.

import { html, useEffect, useRef } from "./preact.js";
import { bytes, duration, number } from "./format.js";
import { Dialog } from "./messages.js";
import { useObservable } from "./observable.js";
import { SHOWS, SORTS } from "./order.js";
import { NO_FILTERS, arrangement, choices, connected, filters, projects, selection, totals } from "./store.js";

export const isFiltered = (value) => Object.keys(NO_FILTERS).some((name) => value[name] !== NO_FILTERS[name]);

/** `languages` are those that the service offers; `searchRef` is set to the search field. */
export function Toolbar({ languages, searchRef, onAdd, onExport, onDelete, onHelp }) {
  const value = useObservable(filters);
  const { counts, languages: used } = useObservable(arrangement);
  const known = useObservable(projects);
  const selected = useObservable(selection).size;
  const filter = (changes) => filters.set({ ...filters.value, ...changes });
  // "All", the chosen filter, and those that some picture passes
  const shows = Object.entries(SHOWS).filter(([name]) => counts[name] > 0 || name === value.show || name === "all");
  const offered = languages.filter(({ code }) => used.has(code) || code === value.language);
  return html`
    <div class="toolbar" role="group" aria-label="Actions and filters">
      <button type="button" class="main" onClick=${onAdd} aria-keyshortcuts="n">Add pictures…</button>
      <input ref=${searchRef} class="search" type="search" aria-label="Search names and texts" placeholder="Search" autocomplete="off"
        spellcheck=${false} aria-keyshortcuts="/" value=${value.text} onInput=${(event) => filter({ text: event.target.value })} />
      ${offered.length > 0 && html`
        <select class="filter" aria-label="Language missing" value=${value.language} onChange=${(event) => filter({ language: event.target.value })}>
          <option value="">Any language</option>
          ${offered.map(({ code, name }) => html`<option key=${code} value=${code}>${name} missing</option>`)}
        </select>`}
      ${(known.length > 1 || value.project !== "") && html`
        <select class="filter" aria-label="Project" value=${value.project} onChange=${(event) => filter({ project: event.target.value })}>
          <option value="">All projects</option>
          ${known.map(({ id, name }) => html`<option key=${id} value=${id}>${name}</option>`)}
        </select>`}
      <button type="button" disabled=${counts.all === 0} aria-keyshortcuts="e" onClick=${onExport}>Export${selected > 0 ? ` ${number(selected)}` : ""}…</button>
    </div>
    <div class="toolbar second">
      <div class="chips" role="group" aria-label="Show">
        ${shows.map(([name, { label }]) => html`
          <button key=${name} type="button" class="chip" aria-pressed=${String(value.show === name)} onClick=${() => filter({ show: name })}>
            ${label} <span class="count number">${number(counts[name])}</span></button>`)}
      </div>
      ${selected > 0 && html`
        <span class="selected number">${number(selected)} selected</span>
        <button type="button" class="small" onClick=${() => selection.set(new Set())}>Clear</button>
        <button type="button" class="small danger" onClick=${onDelete}>Delete…</button>`}
      <${ViewMenu} />
      <button type="button" class="icon" aria-label="Keyboard shortcuts" aria-keyshortcuts="?" onClick=${onHelp}>?</button>
    </div>`;
}

/** The order and the layout of the list. `descending` reverses an order, and some begin with the largest or the newest. */
function ViewMenu() {
  const { sort, descending: isReversed, textFirst, layout } = useObservable(choices);
  const { counts } = useObservable(arrangement);
  const { show } = useObservable(filters);
  // the label says "Needs text" only where such pictures are shown with others
  const order = textFirst && counts.text > 0 && ["all", "done"].includes(show) ? `Needs text, ${SORTS[sort].label.toLowerCase()}` : SORTS[sort].label;
  const choose = (changes) => choices.set({ ...choices.value, ...changes });
  const menu = useRef(null);
  useEffect(() => {
    const closeOutside = (event) => { if (!menu.current.contains(event.target)) menu.current.open = false; };
    document.addEventListener("pointerdown", closeOutside);
    return () => document.removeEventListener("pointerdown", closeOutside);
  }, []);
  const onKeyDown = (event) => {
    if (event.key !== "Escape" || !menu.current.open) return;
    event.stopPropagation();
    menu.current.open = false;
    menu.current.querySelector("summary").focus();
  };
  return html`
    <div class="segments" role="group" aria-label="Layout">
      <button type="button" class="small" aria-pressed=${String(layout === "grid")} onClick=${() => choose({ layout: "grid" })}>Grid</button>
      <button type="button" class="small" aria-pressed=${String(layout === "rows")} onClick=${() => choose({ layout: "rows" })}>List</button>
    </div>
    <details ref=${menu} class="menu" onKeyDown=${onKeyDown}>
      <summary class="button">${order}${isReversed ? " ↑" : ""}</summary>
      <div class="menu-body">
        <fieldset class="field"><legend>Order</legend>
          ${Object.entries(SORTS).map(([name, { label }]) => html`
            <label key=${name} class="choice"><input type="radio" name="order" checked=${sort === name} onChange=${() => choose({ sort: name })} />${label}</label>`)}
        </fieldset>
        <label class="choice"><input type="checkbox" checked=${isReversed} onChange=${() => choose({ descending: !isReversed })} />Reversed</label>
        <label class="choice"><input type="checkbox" checked=${textFirst} onChange=${() => choose({ textFirst: !textFirst })} />Needs text first</label>
      </div>
    </details>`;
}

/** Progress of the current run: pictures, time left, and what was saved. Nothing is rendered before the first run. */
export function Totals() {
  const { total, finished, failed, open, originalBytes, savedBytes, secondsLeft } = useObservable(totals);
  const isConnected = useObservable(connected);
  if (total === 0) return null;
  const left = open === 0 ? "" : secondsLeft === null ? "estimating the time left" : `${duration(secondsLeft)} left`;
  return html`
    <div class="totals">
      <progress aria-label="Finished pictures" max=${total} value=${finished}></progress>
      <p class="number">
        <strong>${number(finished)} of ${number(total)}</strong> finished${failed > 0 ? html` · <span class="problem">${number(failed)} failed</span>` : ""}
        ${left && html` · ${left}`}
        ${savedBytes > 0 && html` · <span class="saved">${bytes(savedBytes)} saved (${Math.round((100 * savedBytes) / originalBytes)} %)</span>`}
        ${!isConnected && html` · <span class="problem">not connected</span>`}
      </p>
    </div>`;
}

// ---- keyboard shortcuts ----

const SHORTCUTS = [
  ["Pictures", [
    [["j", "k"], "next and previous picture"],
    [["↑", "↓", "←", "→"], "move in the list"],
    [["Space"], "select the picture"],
    [["Shift", "↑", "↓", "←", "→"], "select a range"],
    [["Ctrl", "A"], "select all that the list shows"],
    [["Esc"], "clear the selection, go back to the list"],
    [["/"], "search"],
    [["t"], "show only pictures that need text"],
    [["n"], "add pictures"],
    [["e"], "export"],
    [["Del"], "delete"],
  ]],
  ["Texts", [
    [["Enter"], "accept the texts and go on; in a text: accept it and go to the next one"],
    [["a"], "edit the alt text"],
    [["Ctrl", "Enter"], "save the text and stay"],
    [["Ctrl", "Z"], "undo the last change"],
    [["Ctrl", "Shift", "Z"], "redo"],
    [["r"], "regenerate the texts"],
  ]],
  ["Comparison", [
    [["z"], "fit the picture, or show it at 100 %; there, the arrow keys move it when it has the focus"],
    [["o"], "compare with the other result"],
  ]],
];

export function HelpDialog({ onClose }) {
  return html`
    <${Dialog} label="Keyboard shortcuts" onClose=${onClose} class="help-dialog">
      ${SHORTCUTS.map(([title, shortcuts]) => html`
        <h3 key=${title}>${title}</h3>
        <dl class="shortcuts">
          ${shortcuts.map(([keys, text]) => html`
            <div key=${text}><dt>${keys.map((key) => html`<kbd key=${key}>${key}</kbd> `)}</dt><dd>${text}</dd></div>`)}
        </dl>`)}
    </${Dialog}>`;
}
