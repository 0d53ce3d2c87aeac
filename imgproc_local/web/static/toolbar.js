// The bar above the list: the main act, search, filters, order and layout. The foot below it: the selection and the totals. And the
// list of shortcuts.

import { html, useId } from "./preact.js";
import { bytes, counted, duration, number } from "./format.js";
import { Dialog } from "./messages.js";
import { useObservable } from "./observable.js";
import { SHOWS, SORTS } from "./order.js";
import { ACTS, SelectionBar, openImport } from "./selection.js";
import { NO_FILTERS, arrangement, choices, connected, filters, selection, totals } from "./store.js";
import { Choice, Segments, Select } from "./view-parts.js";

const MIN_ROW_PX = 96;
const MAX_ROW_PX = 320;

export const isFiltered = (value) => Object.keys(NO_FILTERS).some((name) => value[name] !== NO_FILTERS[name]);

/** A tooltip that names the shortcut `key`, unless shortcuts of one letter are switched off. */
const hint = (text, key, { shortcuts }) => ({ title: shortcuts ? `${text} (${key})` : text, "aria-keyshortcuts": shortcuts ? key : null });

/** The bar above the list. `languages` are those that the service offers; `searchRef` is set to the search field. */
export function Toolbar({ languages, searchRef, onAdd }) {
  const { text } = useObservable(filters);
  const chosen = useObservable(choices);
  return html`
    <div class="bar" role="group" aria-label="Actions and filters">
      <button type="button" class="main" ...${hint("Add pictures", "n", chosen)} onClick=${onAdd}><span>Add<span class="label"> pictures</span>…</span></button>
      <input ref=${searchRef} class="search" type="search" aria-label="Search names, folders, projects and texts" placeholder="Search" autocomplete="off"
        spellcheck=${false} ...${hint("Search", "/", chosen)} value=${text} onInput=${(event) => filters.set({ ...filters.value, text: event.target.value })} />
      <${FilterMenu} languages=${languages} />
      <${ViewMenu} />
    </div>`;
}

/** Show only what the value `name` of the filter `show` includes, or all if the list does that already. */
export const toggleShow = (name) => filters.set({ ...filters.value, show: filters.value.show === name ? NO_FILTERS.show : name });

/**
 * What is below the list: what can be done with the selected pictures, the totals of all, and how much is left to do, as buttons that
 * show only that. It grows upwards, so that no picture moves.
 */
export function Foot({ onDelete, onExport, onHelp }) {
  const isSelecting = useObservable(selection).size > 0;
  const { counts } = useObservable(arrangement);
  const { show } = useObservable(filters);
  const chosen = useObservable(choices);
  const left = Object.entries({ text: counts.text === 1 ? "needs text" : "need text", unreviewed: "not reviewed" });
  return html`
    <div class="foot">
      ${isSelecting && html`<${SelectionBar} onExport=${onExport} onDelete=${onDelete} />`}
      <${Totals} />
      ${left.filter(([name]) => counts[name] > 0 || show === name).map(([name, label]) => html`
        <button key=${name} type="button" class="small number" aria-pressed=${String(show === name)} onClick=${() => toggleShow(name)}>${number(counts[name])} ${label}</button>`)}
      ${!isSelecting && html`<button type="button" class="small" disabled=${counts.all === 0} ...${hint("Export", "e", chosen)} onClick=${onExport}>Export…</button>`}
      <button type="button" class="icon" aria-label="Keyboard shortcuts" ...${hint("Keyboard shortcuts", "?", chosen)} onClick=${onHelp}>?</button>
    </div>`;
}

/** A button that opens what is in it. Escape, and a press outside, close it. */
function Menu({ label, title, children }) {
  const id = useId();
  return html`
    <div class="menu">
      <button type="button" title=${title} popovertarget=${id}>${label}</button>
      <div id=${id} class="menu-body" popover="auto">${children}</div>
    </div>`;
}

/** The filters beside the search. The button says which are chosen, and a second one clears them. */
function FilterMenu({ languages }) {
  const value = useObservable(filters);
  const { counts, languages: used, folders, projects } = useObservable(arrangement);
  const filter = (changes) => filters.set({ ...filters.value, ...changes });
  const missing = languages.filter(({ code }) => used.has(code) || code === value.language).map(({ code, name }) => [code, `${name} missing`]);
  const selects = [
    { name: "language", label: "Language missing", any: "Any language", offered: missing },
    { name: "project", label: "Project", any: "All projects", offered: projects.map(({ id, name }) => [id, name]) },
    { name: "folder", label: "Folder", any: "All folders", offered: folders.map((folder) => [folder, folder]) },
  ].filter(({ name, offered }) => offered.length > (name === "project" ? 1 : 0) || value[name] !== "");
  const chosen = [
    ...(value.show === "all" ? [] : [SHOWS[value.show].label]),
    ...selects.flatMap(({ name, offered }) => offered.filter(([key]) => key === value[name]).map(([, label]) => label)),
  ];
  const label = chosen.length === 0 ? "Filter" : html`<span class="chosen" dir="auto">${chosen.join(", ")}</span> <span class="number">${number(counts[value.show])}</span>`;
  return html`
    <div class=${`segments filters${chosen.length > 0 ? " active" : ""}`}>
      <${Menu} label=${label} title="Filter">
        <fieldset class="field shows"><legend>Show</legend>
          ${Object.entries(SHOWS).map(([name, { label: text }]) => html`
            <label key=${name} class="choice"><input type="radio" name="show" checked=${value.show === name} onChange=${() => filter({ show: name })} />
              <span>${text}</span><span class="count number">${number(counts[name])}</span></label>`)}
        </fieldset>
        ${selects.map(({ name, label: text, any, offered }) => html`
          <${Select} key=${name} label=${text} choices=${[["", any], ...offered]} value=${value[name]} onChoose=${(chosenValue) => filter({ [name]: chosenValue })} />`)}
      </${Menu}>
      ${chosen.length > 0 && html`<button type="button" aria-label="Clear filters" title="Clear filters" onClick=${() => filters.set({ ...NO_FILTERS, text: value.text })}>✕</button>`}
    </div>`;
}

/** The order and the layout of the list. `descending` reverses an order, and some begin with the largest or the newest. */
function ViewMenu() {
  const { sort, descending: isReversed, textFirst, layout, rowHeight } = useObservable(choices);
  const choose = (changes) => choices.set({ ...choices.value, ...changes });
  return html`
    <${Menu} label="View" title="Layout and order">
      <${Segments} label="Layout" choices=${[["grid", "Grid"], ["rows", "List"]]} value=${layout} onChoose=${(chosen) => choose({ layout: chosen })} />
      ${layout === "grid" && html`
        <label class="field"><span>Size of the pictures</span>
          <input type="range" min=${MIN_ROW_PX} max=${MAX_ROW_PX} step="8" value=${rowHeight} onInput=${(event) => choose({ rowHeight: Number(event.target.value) })} /></label>`}
      <fieldset class="field"><legend>Order</legend>
        ${Object.entries(SORTS).map(([name, { label }]) => html`
          <${Choice} key=${name} type="radio" name="order" label=${label} checked=${sort === name} onChange=${() => choose({ sort: name })} />`)}
      </fieldset>
      <${Choice} label="Reversed" checked=${isReversed} onChange=${() => choose({ descending: !isReversed })} />
      <${Choice} label="Needs text first" checked=${textFirst} onChange=${() => choose({ textFirst: !textFirst })} />
      <button type="button" onClick=${() => openImport()}>Import texts…</button>
    </${Menu}>`;
}

/** The number of pictures and what was saved. While there is work, also a line, how far it is, and the time left. */
function Totals() {
  const { total, finished, failed, open, originalBytes, savedBytes, secondsLeft } = useObservable(totals);
  const { total: all } = useObservable(arrangement);
  const isConnected = useObservable(connected);
  const percent = Math.round((100 * savedBytes) / originalBytes);
  const parts = [
    open > 0 ? html`<strong>${number(finished)} of ${number(total)}</strong>` : counted(all, "picture"),
    open > 0 && (secondsLeft === null ? "estimating the time left" : `${duration(secondsLeft)} left`),
    failed > 0 && html`<span class="problem">${number(failed)} failed</span>`,
    savedBytes > 0 && html`<span class="saved" title=${`${bytes(savedBytes)} of ${bytes(originalBytes)}`}>${percent} % saved</span>`,
    !isConnected && html`<span class="problem">not connected</span>`,
  ].filter(Boolean);
  return html`
    ${open > 0 && html`<progress aria-label="Finished pictures" max=${total} value=${finished}></progress>`}
    <p class="totals number">${parts.map((part, place) => [place > 0 && " · ", part])}</p>`;
}

// ---- keyboard shortcuts ----

const SHORTCUTS = {
  Pictures: [
    [["j", "k"], "next and previous picture"],
    [["↑", "↓", "←", "→"], "move in the list"],
    [["/"], "search"],
    [["t"], "show only those that need text"],
    [["n"], "add pictures"],
    [["e"], "export"],
    [["Del"], "delete"],
  ],
  Selection: [
    [["Space"], "select the picture"],
    [["Shift", "↑", "↓", "←", "→"], "select a range; with the mouse, hold Shift, or draw a rectangle from an empty place or a check"],
    [["Ctrl", "A"], "select all that the list shows"],
    [["Esc"], "clear the selection, go back to the list"],
    ...Object.values(ACTS).map(({ key, label }) => [["Shift", key], label.replace("…", "").toLowerCase()]),
  ],
  Texts: [
    [["Enter"], "accept the texts and go on; in a text: accept it and go to the next one"],
    [["s"], "skip to the next picture with texts to review"],
    [["a"], "edit the alt text"],
    [["Ctrl", "Enter"], "save the text and stay"],
    [["Ctrl", "Z"], "undo; with Shift, redo"],
    [["r"], "regenerate the texts"],
    [["x"], "translate the open text into the other languages"],
  ],
  Comparison: [
    [["z"], "fit the picture, or show it at 100 %; there, the arrow keys move it when it has the focus"],
    [["f"], "full screen; there, the arrow keys go to the next and previous picture"],
    [["o"], "compare with the other result"],
  ],
};

/** The list of shortcuts, with a choice to switch off those of one letter: they are in the way of speech input. */
export function HelpDialog({ onClose }) {
  const chosen = useObservable(choices);
  return html`
    <${Dialog} label="Keyboard shortcuts" onClose=${onClose} class="help-dialog">
      <${Choice} label="Shortcuts of a single letter or sign" checked=${chosen.shortcuts} onChange=${() => choices.set({ ...chosen, shortcuts: !chosen.shortcuts })} />
      ${!chosen.shortcuts && html`<p class="hint">They are off: of those below, the ones with a single letter or sign do nothing.</p>`}
      ${Object.entries(SHORTCUTS).map(([title, shortcuts]) => html`
        <h3 key=${title}>${title}</h3>
        <dl class="shortcuts">
          ${shortcuts.map(([keys, text]) => html`
            <div key=${text}><dt>${keys.map((key) => html`<kbd key=${key}>${key}</kbd> `)}</dt><dd>${text}</dd></div>`)}
        </dl>`)}
    </${Dialog}>`;
}
