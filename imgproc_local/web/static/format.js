// Numbers, sizes and times as text.

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];
const integer = new Intl.NumberFormat("en");
const dateAndTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

export const number = (value) => integer.format(value);

/** `count` and the noun in the right number, such as "1 picture". */
export const counted = (count, noun, plural = `${noun}s`) => `${number(count)} ${count === 1 ? noun : plural}`;

/** `size`, in bytes, as text such as "1.4 MB". A unit is 1024 of the one before, as in the settings of the service. */
export function bytes(size) {
  let unit = 0;
  while (size >= 1000 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${new Intl.NumberFormat("en", { maximumFractionDigits: unit && size < 10 ? 1 : 0 }).format(size)} ${UNITS[unit]}`;
}

/** An instant, as RFC 3339 or in milliseconds since 1970, as a local date and time. */
export const dateTime = (instant) => dateAndTime.format(new Date(instant));

/** An estimated duration as text, rounded, such as "about 3 min". */
export function duration(seconds) {
  if (seconds < 50) return `about ${Math.max(5, Math.ceil(seconds / 5) * 5)} s`;
  if (seconds < 3300) return `about ${Math.max(1, Math.round(seconds / 60))} min`;
  const hours = seconds / 3600;
  return `about ${hours < 10 ? Math.round(hours * 10) / 10 : Math.round(hours)} h`;
}
