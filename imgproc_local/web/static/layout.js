// Where the pictures of the list are: in justified rows as wide as the list, or one below the other.

export const GAP = 4;
const LINE_HEIGHT = 56; // of the layout with one picture in a row
const MIN_ASPECT = 0.4; // pictures that are narrower or wider than these are cropped
const MAX_ASPECT = 3;

/** The width of a picture divided by its height, 1 while it is not known. */
export const aspectOf = ({ details }) => (details.width_px && details.height_px ? details.width_px / details.height_px : 1);

/**
 * The `boxes` of pictures in a list that is `width` pixels wide: { x, y, width, height, row }; its `rows`, { y, first, count }; and
 * its `height`. Rows of the grid are at most `rowHeight` high, and have as much room at the left as `gutter`, which is beyond the
 * width, leaves for the scroll bar at the right.
 */
export function layOut({ layout, rowHeight }, { width, gutter }, pictures) {
  const isGrid = layout === "grid";
  const edge = isGrid ? Math.max(GAP, gutter) : 0;
  const inner = Math.max(1, width - (isGrid ? 2 * edge - gutter : 0));
  const boxes = [];
  const rows = [];
  let y = isGrid ? GAP : 0;
  let aspects = [];
  const endRow = (height) => {
    rows.push({ y, first: boxes.length, count: aspects.length });
    let x = edge;
    for (const aspect of aspects) {
      const end = x + (isGrid ? aspect * height : inner);
      boxes.push({ x: Math.round(x), y, width: Math.round(end) - Math.round(x), height: Math.round(height), row: rows.length - 1 });
      x = end + GAP;
    }
    y += Math.round(height) + (isGrid ? GAP : 0);
    aspects = [];
  };
  for (const picture of pictures) {
    aspects.push(Math.min(MAX_ASPECT, Math.max(MIN_ASPECT, aspectOf(picture))));
    const sum = aspects.reduce((total, aspect) => total + aspect, 0);
    const height = (inner - GAP * (aspects.length - 1)) / sum;
    if (!isGrid) endRow(LINE_HEIGHT);
    else if (height <= rowHeight) endRow(height);
  }
  if (aspects.length > 0) endRow(rowHeight);
  return { boxes, rows, height: y };
}

/** The place in the list that is `step` rows below a place, as near to its middle as possible. */
export function placeBelow({ boxes, rows }, place, step) {
  const middle = ({ x, width }) => x + width / 2;
  const { first, count } = rows[Math.min(rows.length - 1, Math.max(0, boxes[place].row + step))];
  const distance = (other) => Math.abs(middle(boxes[other]) - middle(boxes[place]));
  let nearest = first;
  for (let other = first; other < first + count; other += 1) if (distance(other) < distance(nearest)) nearest = other;
  return nearest;
}

/** The last of the `rows` that begins at `y` or above it. */
export const rowAt = (rows, y) => Math.max(0, rows.findLastIndex((row) => row.y <= y));
