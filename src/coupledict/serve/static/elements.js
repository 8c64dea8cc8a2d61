// Elements by construction: text is always escaped, so no file name can become part of the page.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function copyOf(template) {
  return document.getElementById(template).content.firstElementChild.cloneNode(true);
}

export function sizeOf(bytes) {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}

/** Scroll an element into view, if necessary. */
export function bringIntoSight(place) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  place.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "nearest" });
}
