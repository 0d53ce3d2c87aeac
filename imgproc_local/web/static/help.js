// The list of keyboard shortcuts.

import { html } from "./preact.js";
import { Dialog } from "./messages.js";

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
