// The view "Pictures": the list of pictures, the details of one, and the keyboard shortcuts.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { AddDialog, NoPictures, UploadStatus, addPictures, useFileDrops } from "./add-pictures.js";
import { compareOther, toggleFullScreen, toggleZoom } from "./compare.js";
import { Describe } from "./describe.js";
import { Detail } from "./detail.js";
import { ExportDialog } from "./export.js";
import { counted } from "./format.js";
import { PictureList } from "./list.js";
import { announce, clearNotice, confirmed, notice } from "./messages.js";
import { Observable, useObservable } from "./observable.js";
import { chosenFormat } from "./options.js";
import { isUnreviewed } from "./order.js";
import { api, fileOf } from "./service.js";
import { ACTS, Acts, importTables, openAct } from "./selection.js";
import { Splitter } from "./splitter.js";
import { arrangement, choices, chosenPictures, codesOf, current, filters, forgetPicture, neighbour, pictureOf, selection, NO_FILTERS } from "./store.js";
import { acceptTexts, acceptable, regenerateTexts, reporting, restoreLast, translateText, isOwn } from "./texts.js";
import { Foot, HelpDialog, Toolbar, isFiltered, toggleShow } from "./toolbar.js";
import { addFiles, filesOfDrop, filesOfPaste } from "./upload.js";
import { useListeners } from "./view-parts.js";

/** Files that wait until the list and the languages are loaded: { file, path }. */
const added = new Observable([]);

const LIST_SHARE = { usual: 36, min: 20, max: 60 };
const NARROW = matchMedia("(max-width: 899px)");

addEventListener("beforeunload", (event) => { if (added.value.length > 0) event.preventDefault(); });

/** Whether the keys of `event` belong to a field, a menu or a dialog. */
const isTyping = ({ target }) => target.closest("input:not([type=checkbox], [type=radio], [type=range]), textarea, select, dialog, [contenteditable]") !== null;

/** Delete a picture, also if it is gone already. Resolves with whether it was, and else shows why not. */
const deletePicture = ({ id }) => reporting(async () => {
  await api(`/jobs/${id}`, { method: "DELETE" }).catch((error) => { if (error.status !== 404) throw error; });
  forgetPicture(id);
});

/** The list of pictures and the details of the current one. `app` is described in app.js; `path` has the identifier in the URL fragment, if any. */
export function PicturesView({ app, path }) {
  const [languages, setLanguages] = useState([]);
  const [dialog, setDialog] = useState(null); // add, export, help or null
  const [dragging, setDragging] = useState(false);
  const [focusTexts, setFocusTexts] = useState(0);
  const { pictures, places, filteredBy, total, loaded } = useObservable(arrangement);
  const currentId = useObservable(current);
  const search = useRef(null);
  const languageName = (code) => languages.find((language) => language.code === code)?.name ?? code;

  useEffect(() => {
    const load = () => api("/languages").then((answer) => answer.json()).then(({ data }) => setLanguages(data))
      .catch((error) => notice("languages", `The languages could not be read: ${error.message}`, "Read them again").then(load));
    load();
  }, []);
  // the address names the current picture, so that a reload and the browser's back button return to it
  useLayoutEffect(() => { if (path[0] !== undefined) current.set(path[0]); }, [path[0]]);
  useEffect(() => {
    if (currentId !== null && path[0] !== undefined && path[0] !== currentId) history.replaceState(null, "", `#pictures/${currentId}`);
  }, [currentId]);
  // on wide screens the first picture is shown at once
  useEffect(() => {
    if (currentId === null && pictures.length > 0 && !NARROW.matches && loaded) current.set(pictures[0].id);
  }, [currentId, pictures, loaded]);

  // what is shown in detail follows the filters, but not a picture that leaves the list later, because of a text that was accepted
  useEffect(() => {
    if (currentId !== null && !places.has(currentId) && pictures.length > 0) current.set(pictures[0].id);
  }, [filteredBy]);

  const open = (id) => {
    current.set(id);
    if (location.hash === `#pictures/${id}`) return;
    history.pushState(null, "", `#pictures/${id}`);
    dispatchEvent(new Event("hashchange")); // the browser's own would come after a key that has chosen another picture by then
  };
  /** Show the picture `id`, or say in `words` that there is none. */
  const showOr = (id, words) => (id === null ? announce(words) : current.set(id));
  const go = (step) => showOr(neighbour(step), step > 0 ? "This is the last picture." : "This is the first picture.");
  const close = () => {
    location.hash = "pictures";
    document.querySelector(".list")?.focus();
  };
  // without the languages, texts would be in English instead of the chosen ones; without the list, duplicates are not known
  const isReady = loaded && languages.length > 0;
  const waiting = useObservable(added);
  useLayoutEffect(() => {
    if (!isReady || waiting.length === 0) return;
    added.set([]);
    addPictures(waiting, { overview: app.overview, languages });
  }, [isReady, waiting]);
  const addFound = (found) => added.set([...added.value, ...importTables(found)]);

  /** The next picture with texts to review that the list shows, also before the current one; null if there is none. */
  const nextToReview = () => {
    const place = places.get(current.value) ?? -1;
    const others = [...pictures.slice(place + 1), ...pictures.slice(0, Math.max(0, place))];
    return others.find(({ id }) => pictureOf(id)?.image.translations.some(isUnreviewed))?.id ?? null;
  };
  const skip = () => showOr(nextToReview(), "No other picture in the list is to be reviewed.");

  /**
   * Accept the texts of the current picture that can be accepted, and show the next one that the list shows. Where nothing is left
   * but a text that a person has to write, go to that instead. `fromTexts` says that the text editor has accepted them already.
   */
  const accept = (fromTexts) => {
    const picture = pictureOf(current.value);
    if (picture === undefined) return;
    if (NARROW.matches && path[0] === undefined) {
      open(picture.id);
      return;
    }
    if (picture.needsText && !fromTexts && (acceptable([picture]).length === 0 || filters.value.show === "text")) {
      setFocusTexts((count) => count + 1);
      return;
    }
    // found before the texts are accepted, because the picture may move in the list when it no longer needs text
    const next = neighbour(1) ?? (filters.value.show === "unreviewed" ? nextToReview() : null);
    if (!fromTexts) acceptTexts(picture);
    showOr(next, "This was the last picture.");
    if (next !== null && fromTexts) setFocusTexts((count) => count + 1);
  };

  const remove = async (chosen) => {
    if (chosen.length === 0) return;
    const [{ name }] = chosen;
    const sure = await confirmed({
      title: chosen.length === 1 ? `Delete “${name}”?` : `Delete ${counted(chosen.length, "picture")}?`,
      text: "The files and texts are removed from this computer for good. Your own copy of the picture is not touched.",
      yes: "Delete",
    });
    if (!sure) return;
    const gone = new Set(chosen.map(({ id }) => id));
    const shown = arrangement.value.pictures;
    const place = arrangement.value.places.get(current.value) ?? 0;
    const next = shown.slice(place).find(({ id }) => !gone.has(id)) ?? shown.slice(0, place).findLast(({ id }) => !gone.has(id));
    if (gone.has(current.value)) current.set(next?.id ?? null);
    let deleted = 0;
    while (deleted < chosen.length && await deletePicture(chosen[deleted])) deleted += 1;
    announce(`${counted(deleted, "picture")} deleted.`);
  };

  /** Send the original of a picture again, with its options except the context. When that upload is accepted, delete the failed job. */
  const repeat = (picture) => reporting(async () => {
    const { id, name, image, details } = picture;
    const words = image.translations.filter(({ language_code: code }) => isOwn({ id, code }));
    const text = "The picture is sent again, and these texts are not taken over.";
    if (words.length > 0 && !(await confirmed({ title: "Process the picture again?", words: words.map((each) => ({ ...each, code: each.language_code })), text, yes: "Process again" }))) return;
    const original = await fileOf(image.id, "original");
    const fields = details.languages.map((code) => ["languages", code]);
    fields.push(["format", image.converted_format ?? chosenFormat()], ["project_id", details.project.id], ["role", details.role]);
    for (const name of ["max_width_px", "max_height_px", "quality_target", "only_smaller"]) if (details[name]) fields.push([name, details[name]]);
    fields.push(...details.widths.map((width) => ["widths", width]));
    const file = new File([original], name);
    addFiles([{ file, path: [details.folder, name].filter(Boolean).join("/"), operation: details.operation, onAccepted: () => deletePicture(picture) }], fields, app.overview);
    go(1);
  });

  const translate = (code) => translateText(pictureOf(current.value), code, app.overview.described_by);
  const isRefused = useRef(false); // whether a notice says why the texts of the current picture were not regenerated
  const regenerate = async (codes) => {
    isRefused.current = !(await regenerateTexts(current.value, codes, app.overview.described_by));
  };
  useEffect(() => {
    if (isRefused.current) clearNotice("change");
    isRefused.current = false;
  }, [currentId]);

  useFileDrops({
    onOver: setDragging,
    onDrop: async (transfer) => addFound(await filesOfDrop(transfer)),
    onPaste: (data) => addFound(filesOfPaste(data)),
  });

  const actions = {
    j: () => go(1),
    k: () => go(-1),
    s: skip,
    "/": () => search.current?.focus(),
    t: () => toggleShow("text"),
    n: () => setDialog("add"),
    e: () => setDialog("export"),
    a: () => setFocusTexts((count) => count + 1),
    z: toggleZoom,
    f: toggleFullScreen,
    o: () => compareOther(pictureOf(current.value)),
    r: () => {
      const codes = codesOf([pictureOf(current.value)].filter(Boolean));
      if (codes.length === 0) announce("There is no text to regenerate.");
      else regenerate(codes);
    },
    x: () => document.querySelector(".text[data-open] [aria-keyshortcuts=x]")?.click(),
    "?": () => setDialog("help"),
    "Ctrl a": () => selection.set(new Set(pictures.map(({ id }) => id))),
    "Ctrl z": ({ shiftKey }) => restoreLast(shiftKey ? "redo" : "undo").then((id) => { if (id !== null) current.set(id); }),
    Enter: () => accept(false),
    Delete: () => remove(selection.value.size > 0 ? chosenPictures() : [pictureOf(current.value)].filter(Boolean)),
    Escape: () => {
      if (selection.value.size > 0) selection.set(new Set());
      else if (path[0] !== undefined && NARROW.matches) close();
    },
    ...Object.fromEntries(Object.entries(ACTS).map(([name, { key }]) => [key, () => openAct(name)])),
  };
  const onKeyDown = (event) => {
    const isHeld = event.repeat && event.key === "Enter"; // each picture is looked at before its texts are accepted
    if (event.isComposing || isHeld || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && document.querySelector(":popover-open")) return; // it closes a menu
    const key = event.ctrlKey || event.metaKey ? `Ctrl ${event.key.toLowerCase()}` : event.key;
    if (event.key === "Escape" && isTyping(event)) {
      document.querySelector(".list")?.focus();
      return;
    }
    if (event.altKey || isTyping(event) || !(key in actions)) return;
    if (key.length === 1 && !choices.value.shortcuts) return;
    if (/^[A-Z]$/.test(key) && !event.shiftKey) return; // Caps Lock
    if (key === "Enter" && event.target.closest("button, a, summary, label, input")) return;
    event.preventDefault();
    actions[key](event);
  };
  useListeners(document, { keydown: onKeyDown });

  const exported = dialog === "export" ? chosenPictures() : [];
  const showDetail = currentId !== null && (path[0] !== undefined || !NARROW.matches);
  return html`
    <div class=${`pictures-view${total > 0 ? " with-detail" : ""}${path[0] === undefined ? "" : " opened"}${dragging ? " dragging" : ""}`}>
      <div class="pictures-list" id="pictures-list">
        ${total > 0 && html`
          <${Toolbar} languages=${languages} searchRef=${search} onAdd=${() => setDialog("add")} />`}
        <${UploadStatus} onAdd=${() => setDialog("add")} />
        <${Describe} describedBy=${app.overview.described_by} />
        ${waiting.length > 0 && html`<p class="nothing" role="status">${counted(waiting.length, "file")} will be added when the list and the languages are loaded.</p>`}
        ${total > 0 ? html`
          ${pictures.length === 0 && isFiltered(filteredBy) && html`
            <p class="nothing">No picture passes the filters. <button type="button" onClick=${() => filters.set(NO_FILTERS)}>Clear filters</button></p>`}
          <${PictureList} onOpen=${open} />
          <${Foot} onExport=${() => setDialog("export")} onDelete=${() => remove(chosenPictures())} onHelp=${() => setDialog("help")} />`
        : isReady && html`<${NoPictures} app=${app} languages=${languages} onFiles=${addFound} />`}
      </div>
      ${total > 0 && html`
        <${Splitter} name="list" label="Width of the list" of="pictures-list" share=${LIST_SHARE} />
        <div class="pictures-detail">
          ${showDetail ? html`
            <${Detail} id=${currentId} languageName=${languageName} onGo=${go} onClose=${close} onDelete=${remove} onRepeat=${repeat} onRegenerate=${regenerate} onTranslate=${translate} onAccept=${accept} focusTexts=${focusTexts} />`
          : html`<section class="detail empty"><p class="hint">Choose a picture.</p></section>`}
        </div>`}
      ${dragging && html`<p class="drop-note">Drop pictures or folders to add them</p>`}
      <${Acts} app=${app} languages=${languages} languageName=${languageName} />
      ${dialog === "add" && html`<${AddDialog} app=${app} languages=${languages} onFiles=${addFound} onClose=${() => setDialog(null)} />`}
      ${dialog === "export" && html`
        <${ExportDialog} pictures=${exported} everything=${selection.value.size === 0 && !isFiltered(filters.value)} languageName=${languageName} onClose=${() => setDialog(null)} />`}
      ${dialog === "help" && html`<${HelpDialog} onClose=${() => setDialog(null)} />`}
    </div>`;
}
