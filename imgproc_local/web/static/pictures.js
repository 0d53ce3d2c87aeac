// The view "Pictures": the list of pictures, the details of one, and the keyboard shortcuts.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { AddDialog, NoPictures, UploadStatus, addPictures, useFileDrops } from "./add-pictures.js";
import { Detail } from "./detail.js";
import { ExportDialog } from "./export.js";
import { counted } from "./format.js";
import { PictureList } from "./list.js";
import { announce, confirmed, notice } from "./messages.js";
import { Observable, useObservable } from "./observable.js";
import { chosenFormat } from "./options.js";
import { api, fileOf } from "./service.js";
import { arrangement, chosenPictures, current, filters, forgetPicture, neighbour, pictureOf, selection, NO_FILTERS } from "./store.js";
import { acceptTexts, regenerateTexts, reporting, restoreLast } from "./texts.js";
import { HelpDialog, Toolbar, Totals, isFiltered } from "./toolbar.js";
import { addFiles, filesOfDrop, filesOfPaste } from "./upload.js";

/** Files that wait until the list and the languages are loaded: { file, path }. */
const added = new Observable([]);

const NARROW = matchMedia("(max-width: 899px)");

addEventListener("beforeunload", (event) => { if (added.value.length > 0) event.preventDefault(); });

/** Whether the keys of `event` belong to a field, a menu or a dialog. */
const isTyping = ({ target }) => target.closest("input:not([type=checkbox], [type=radio], [type=range]), textarea, select, dialog, [contenteditable]") !== null;

/** The list of pictures and the details of the current one. `app` is described in app.js; `path` has the identifier in the URL fragment, if any. */
export function PicturesView({ app, path }) {
  const [languages, setLanguages] = useState([]);
  const [dialog, setDialog] = useState(null); // add, export, help or null
  const [dragging, setDragging] = useState(false);
  const [comparison, setComparison] = useState({ variant: null, zoomed: false }); // see detail.js
  const [focusTexts, setFocusTexts] = useState(0);
  const { pictures, counts, loaded } = useObservable(arrangement);
  const currentId = useObservable(current);
  const search = useRef(null);
  const languageName = (code) => languages.find((language) => language.code === code)?.name ?? code;

  useEffect(() => {
    const load = () => api("/languages").then((answer) => answer.json()).then(({ data }) => setLanguages(data))
      .catch((error) => notice("languages", `The languages could not be read: ${error.message}`, "Read them again").then(load));
    load();
  }, []);
  // the address names the current picture, so that a reload and the browser's back button return to it
  useEffect(() => { if (path[0] !== undefined) current.set(path[0]); }, [path[0]]);
  useEffect(() => {
    if (currentId !== null && path[0] !== undefined && path[0] !== currentId) history.replaceState(null, "", `#pictures/${currentId}`);
  }, [currentId]);
  // on wide screens the first picture is shown at once
  useEffect(() => {
    if (currentId === null && pictures.length > 0 && !NARROW.matches && loaded) current.set(pictures[0].id);
  }, [currentId, pictures, loaded]);

  const open = (id) => {
    current.set(id);
    if (path[0] !== id) location.hash = `pictures/${id}`;
  };
  const go = (step) => {
    const next = neighbour(step);
    if (next === null) announce(step > 0 ? "This is the last picture." : "This is the first picture.");
    else current.set(next);
  };
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
  const addFound = (found) => added.set([...added.value, ...found]);

  /**
   * Accept the texts of the current picture and show the next one; if a person has to write a text, go to that instead.
   * `fromTexts` says that the text editor has accepted them already.
   */
  const accept = (fromTexts) => {
    const picture = pictureOf(current.value);
    if (picture === undefined) return;
    if (NARROW.matches && path[0] === undefined) {
      open(picture.id);
      return;
    }
    if (picture.needsText && !fromTexts) {
      setFocusTexts((count) => count + 1);
      return;
    }
    // found before the texts are accepted, because the picture may move in the list when it no longer needs text
    const next = neighbour(1);
    if (!fromTexts) acceptTexts(picture);
    if (next === null) announce("This was the last picture.");
    else {
      current.set(next);
      if (fromTexts) setFocusTexts((count) => count + 1);
    }
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
    for (const { id } of chosen) {
      const done = await reporting(async () => {
        await api(`/jobs/${id}`, { method: "DELETE" }).catch((error) => { if (error.status !== 404) throw error; });
        forgetPicture(id);
      });
      if (!done) break;
      deleted += 1;
    }
    announce(`${counted(deleted, "picture")} deleted.`);
  };

  /** Send the original of a picture again, with its options except the context. When that upload is accepted, delete the failed job. */
  const repeat = (picture) => reporting(async () => {
    const { id, name, image, details } = picture;
    const original = await fileOf(image.id, "original");
    const fields = details.languages.map((code) => ["languages", code]);
    fields.push(["format", image.converted_format ?? chosenFormat()], ["project_id", details.project.id], ["role", details.role]);
    for (const name of ["max_width_px", "max_height_px", "quality_target", "only_smaller"]) if (details[name]) fields.push([name, details[name]]);
    fields.push(...details.widths.map((width) => ["widths", width]));
    const file = new File([original], name);
    addFiles([{ file, path: name, operation: details.operation, onAccepted }], fields, app.overview);
    go(1);
  });

  const regenerate = (codes) => regenerateTexts(current.value, codes, app.overview.described_by);

  useFileDrops({
    onOver: setDragging,
    onDrop: async (transfer) => addFound(await filesOfDrop(transfer)),
    onPaste: (data) => addFound(filesOfPaste(data)),
  });

  useEffect(() => {
    const actions = {
      j: () => go(1),
      k: () => go(-1),
      "/": () => search.current?.focus(),
      t: () => filters.set({ ...filters.value, show: filters.value.show === "text" ? NO_FILTERS.show : "text" }),
      n: () => setDialog("add"),
      e: () => setDialog("export"),
      a: () => setFocusTexts((count) => count + 1),
      z: () => setComparison((old) => ({ ...old, zoomed: !old.zoomed })),
      o: () => setComparison((old) => ({ ...old, variant: (old.variant ?? pictureOf(current.value)?.best) === "optimized" ? "converted" : "optimized" })),
      r: () => {
        const picture = pictureOf(current.value);
        const codes = picture?.image.translations.map((translation) => translation.language_code) ?? [];
        if (codes.length === 0) announce("There is no text to regenerate.");
        else regenerate(codes);
      },
      "?": () => setDialog("help"),
      Enter: () => accept(false),
      Delete: () => remove(selection.value.size > 0 ? chosenPictures() : [pictureOf(current.value)].filter(Boolean)),
      Escape: () => {
        if (selection.value.size > 0) selection.set(new Set());
        else if (path[0] !== undefined && NARROW.matches) close();
      },
    };
    const onKeyDown = (event) => {
      if (event.isComposing || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      const control = event.ctrlKey || event.metaKey;
      if (control && !event.altKey && event.key.toLowerCase() === "z" && !isTyping(event)) {
        event.preventDefault();
        restoreLast(event.shiftKey ? "redo" : "undo").then((id) => { if (id !== null) current.set(id); });
        return;
      }
      if (event.key === "Escape" && isTyping(event)) {
        document.querySelector(".list")?.focus();
        return;
      }
      if (control || event.altKey || isTyping(event) || !(event.key in actions)) return;
      if (event.key === "Enter" && event.target.closest("button, a, summary, label, input")) return;
      event.preventDefault();
      actions[event.key]();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  });

  const exported = dialog === "export" ? chosenPictures() : [];
  const showDetail = currentId !== null && (path[0] !== undefined || !NARROW.matches);
  return html`
    <div class=${`pictures-view${counts.all > 0 ? " with-detail" : ""}${path[0] === undefined ? "" : " opened"}${dragging ? " dragging" : ""}`}>
      <div class="pictures-list">
        ${counts.all > 0 && html`
          <${Toolbar} languages=${languages} searchRef=${search} onAdd=${() => setDialog("add")} onExport=${() => setDialog("export")}
            onDelete=${() => remove(chosenPictures())} onHelp=${() => setDialog("help")} />`}
        <${Totals} />
        <${UploadStatus} />
        ${waiting.length > 0 && html`<p class="nothing" role="status">${counted(waiting.length, "file")} will be added when the list and the languages are loaded.</p>`}
        ${counts.all > 0 ? html`
          ${pictures.length === 0 && html`<p class="nothing">${isFiltered(filters.value) ? "No picture passes the filters." : ""}</p>`}
          <${PictureList} onOpen=${open} onEnter=${() => accept(false)} />`
        : isReady && html`<${NoPictures} app=${app} languages=${languages} onFiles=${addFound} />`}
      </div>
      ${counts.all > 0 && html`
        <div class="pictures-detail">
          ${showDetail ? html`
            <${Detail} id=${currentId} languageName=${languageName} onGo=${go} onClose=${close} onDelete=${remove} onRepeat=${repeat} onRegenerate=${regenerate} onAccepted=${() => accept(true)}
              focusTexts=${focusTexts} comparison=${comparison} onCompare=${(change) => setComparison((old) => ({ ...old, ...change }))} />`
          : html`<section class="detail empty"><p class="hint">Choose a picture.</p></section>`}
        </div>`}
      ${dragging && html`<p class="drop-note">Drop pictures or folders to add them</p>`}
      ${dialog === "add" && html`<${AddDialog} app=${app} languages=${languages} onFiles=${addFound} onClose=${() => setDialog(null)} />`}
      ${dialog === "export" && html`
        <${ExportDialog} pictures=${exported} everything=${selection.value.size === 0 && !isFiltered(filters.value)} languageName=${languageName} onClose=${() => setDialog(null)} />`}
      ${dialog === "help" && html`<${HelpDialog} onClose=${() => setDialog(null)} />`}
    </div>`;
}
