
// What a reader chose stands in the address, so that a reload or a link shows it again:
// #sort=rate0&down=1&q=triangle. An address without "=" names a part of the page.
const state = {
  values: new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : ""),
  get(name) { return this.values.get(name) ?? ""; },
  set(changes) {
    for (const [name, value] of Object.entries(changes)) {
      if (value) this.values.set(name, value);
      else this.values.delete(name);
    }
    const text = this.values.toString();
    try { history.replaceState(null, "", text ? "#" + text : location.href.split("#")[0]); }
    catch { /* too often for the browser: the next change writes it */ }
  },
};
