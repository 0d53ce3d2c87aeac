// Values that components render. A change renders the components that use the value, and no other.

import { useLayoutEffect, useReducer, useRef } from "./preact.js";

export class Observable {
  #listeners = new Set();

  constructor(value) {
    this.value = value;
  }

  /** Replace the value and call the listeners, unless the new value is the same. */
  set(value) {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const listener of this.#listeners) listener(this.value);
  }

  /** Call `listener` with the value after each change, until the function that this returns is called. */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** An observable object that is preserved in localStorage under `key`, apart from `transient`; `defaults` are its first values. */
export function preserved(key, defaults, transient = []) {
  let stored = {};
  try {
    stored = JSON.parse(localStorage.getItem(key)) ?? {};
  } catch {
    // not JSON: the defaults remain
  }
  const observable = new Observable({ ...defaults, ...stored });
  observable.subscribe((value) => localStorage.setItem(key, JSON.stringify(value, (name, part) => (transient.includes(name) ? undefined : part))));
  return observable;
}

/** The value of `observable`; the component is rendered again after each change. */
export function useObservable(observable) {
  useChanges(observable, () => true);
  return observable.value;
}

/** Render the component again after a change of `observable` if `concerns(value)` is true. */
export function useChanges(observable, concerns) {
  const [, render] = useReducer((count) => count + 1, 0);
  const { value } = observable;
  const latest = useRef(concerns);
  latest.current = concerns;
  useLayoutEffect(() => {
    const onChange = () => { if (latest.current(observable.value)) render(); };
    // a change between rendering and this effect would be missed
    if (!Object.is(value, observable.value)) onChange();
    return observable.subscribe(onChange);
  }, [observable]);
}
