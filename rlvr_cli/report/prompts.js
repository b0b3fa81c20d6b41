
// The table of all prompts: sorted, filtered and searched as a whole, drawn as far as it is seen.
const AT_ONCE = 100;

function rowsOf(data) {
  const last = data.subjects.length - 1;
  return data.rows.map(([key, id, source, text, block, place, compared, counts]) => {
    const rates = counts.map((c) => (c && c[1] ? c[0] / c[1] : null));
    const diff = compared && rates[0] !== null && rates[last] !== null ? rates[last] - rates[0] : null;
    const share = counts.map((c) => (c && c[4] !== null ? c[4] / c[2] : null));
    return {
      key: key || id, id, source: data.sources[source] ?? "", text, block, place, counts, rates, diff,
      clusters: counts[last] ? counts[last][3] : null, cut: share[last], share,
      words: `${id} ${data.sources[source] ?? ""} ${text}`.toLowerCase(),
    };
  });
}

const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(share === 1 || share === 0 ? 0 : 1)}%`);
const signed = (share) => (share === null ? "–" : (share > 0 ? "+" : share < 0 ? "−" : "") + percent(Math.abs(share)));

function columnsOf(data) {
  const several = data.subjects.length > 1;
  const each = (row, show) => row.counts.map((c, at) => (c ? show(c, at) : "–"));
  const columns = [
    { key: "id", name: "prompt", value: (row) => row.id },
    ...(data.sources.length > 1 ? [{ key: "source", name: "source", value: (row) => row.source, show: (row) => row.source }] : []),
    ...data.subjects.map((subject, at) => ({
      key: "rate" + at, name: several ? subject.name : "right", number: true, rate: subject.colour, of: at,
      value: (row) => row.rates[at], show: (row) => percent(row.rates[at]),
    })),
    ...(several ? [{ key: "diff", name: "difference", number: true, value: (row) => row.diff, show: (row) => signed(row.diff) }] : []),
    { key: "clusters", name: "solutions", number: true, value: (row) => row.clusters, show: (row) => each(row, (c) => c[3]).join(" → ") },
    { key: "cut", name: "truncated", number: true, value: (row) => row.cut, show: (row) => {
      const shares = each(row, (c, at) => percent(row.share[at]));
      return new Set(shares).size === 1 ? shares[0] : shares.join(" → ");
    } },
  ];
  return columns;
}

const FILTERS = {
  "": ["all prompts", () => true],
  never: ["never right", (row) => lastRate(row) === 0],
  some: ["right at times", (row) => lastRate(row) > 0 && lastRate(row) < 1],
  always: ["always right", (row) => lastRate(row) === 1],
  gained: ["gained: never right before", (row) => row.diff !== null && row.rates[0] === 0 && row.diff > 0],
  lost: ["lost: never right after", (row) => row.diff !== null && lastRate(row) === 0 && row.diff < 0],
  better: ["better than before", (row) => row.diff > 0],
  worse: ["worse than before", (row) => row.diff !== null && row.diff < 0],
  cut: ["some truncated", (row) => row.counts.some((c) => c && c[4])],
  unknown: ["some without verdict", (row) => row.counts.some((c) => c && c[1] < c[2])],
};
const lastRate = (row) => row.rates[row.rates.length - 1];

function drawnRow(row, columns, open) {
  const tr = element("tr", {});
  for (const column of columns) {
    if (column.key === "id") {
      const link = element("a", { href: "#open=" + encodeURIComponent(row.key) }, row.id);
      tr.append(element("th", { scope: "row" }, link, element("span", { class: "asked" }, row.text)));
      link.addEventListener("click", (event) => { event.preventDefault(); open(row); });
      continue;
    }
    const cell = element("td", { class: column.number ? "n" : null, "data-name": column.name }, column.show(row));
    if (column.rate && row.rates[column.of] !== null) {
      const [right, judged] = row.counts[column.of];
      cell.title = `${right} of ${judged} right`;
      const bar = element("span", { class: "bar", "aria-hidden": "true" }, element("i", {}));
      bar.firstChild.style.width = percent(row.rates[column.of]);
      bar.firstChild.style.background = `var(--${column.rate})`;
      cell.append(bar);
    }
    if (column.key === "diff" && row.diff) cell.classList.add(row.diff > 0 ? "up" : "down");
    tr.append(cell);
  }
  tr.addEventListener("click", (event) => { if (!event.target.closest("a") && !String(getSelection())) open(row); });
  row.node = tr;
  return tr;
}

async function start() {
  const data = await unpacked(document.getElementById("table-data").textContent);
  const form = document.getElementById("find");
  const table = document.getElementById("prompt-table");
  const body = table.tBodies[0];
  const region = table.parentElement;
  const more = document.getElementById("more");
  const rows = rowsOf(data), columns = columnsOf(data);
  let listed = rows, drawn = 0, searched = 0;

  const open = (row) => read(listed, listed.indexOf(row), data);
  const draw = (until) => {
    for (; drawn < Math.min(until, listed.length); drawn++) body.append(drawnRow(listed[drawn], columns, open));
    more.hidden = drawn >= listed.length;
    more.textContent = `Show ${Math.min(AT_ONCE, listed.length - drawn)} more of ${listed.length.toLocaleString("en")}`;
  };

  function sorted(chosen) {
    const column = columns.find((c) => c.key === state.get("sort"));
    const down = state.get("down") ? -1 : 1;
    for (const th of table.tHead.rows[0].cells) {
      const here = column && th.dataset.key === column.key;
      th.setAttribute("aria-sort", here ? (down < 0 ? "descending" : "ascending") : "none");
    }
    if (!column) return chosen;
    const words = new Intl.Collator("en", { numeric: true });
    return [...chosen].sort((a, b) => {
      const [one, other] = [column.value(a), column.value(b)];
      if (one === null || other === null) return (one === null) - (other === null);
      return down * (column.number ? one - other : words.compare(one, other));
    });
  }

  async function deepWords() {
    for (const [index, row] of rows.entries()) {
      row.deep ??= wordsOf((await blockOf(row.block))[row.place]);
      if (index % 200 === 199) await new Promise((done) => setTimeout(done));
    }
  }

  async function show() {
    const number = ++searched, found = document.getElementById("found");
    const terms = state.get("q").toLowerCase().split(/\s+/).filter(Boolean);
    const deep = state.get("deep") && terms.length;
    if (deep) {
      found.textContent = "Searching the completions …";
      await deepWords();
      if (number !== searched) return;
    }
    const [, passes] = FILTERS[state.get("show")] ?? FILTERS[""];
    const source = state.get("source");
    listed = sorted(rows.filter((row) => passes(row) && (!source || row.source === source) &&
      terms.every((term) => row.words.includes(term) || (deep && row.deep.includes(term)))));
    body.replaceChildren();
    drawn = 0;
    draw(AT_ONCE);
    region.scrollTop = 0;
    found.textContent = listed.length === rows.length ? count(rows.length, "prompt")
      : `${listed.length.toLocaleString("en")} of ${count(rows.length, "prompt")}`;
  }

  for (const column of columns) {
    const button = element("button", { type: "button" }, column.name);
    const th = element("th", { scope: "col", "data-key": column.key, class: column.number ? "n" : null }, button);
    button.addEventListener("click", () => {
      const again = state.get("sort") === column.key;
      const first = column.number ? "1" : "";  // the largest number first, names from a to z
      state.set({ sort: column.key, down: again ? (state.get("down") ? "" : "1") : first });
      show();
    });
    table.tHead.rows[0].append(th);
  }

  const fields = form.elements;
  const able = (key) => !key || rows.some(FILTERS[key][1]) || key === state.get("show");
  fields.show.append(...Object.keys(FILTERS).filter(able).map((key) => new Option(FILTERS[key][0], key)));
  fields.source.append(new Option("all sources", ""), ...data.sources.map((name) => new Option(name, name)));
  fields.source.parentElement.hidden = data.sources.length < 2;
  for (const name of ["q", "show", "source"]) fields[name].value = state.get(name);
  fields.deep.checked = Boolean(state.get("deep"));
  let waiting;
  const changed = () => {
    state.set({ q: fields.q.value.trim(), show: fields.show.value, source: fields.source.value, deep: fields.deep.checked ? "1" : "" });
    show();
  };
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(changed, 120); });
  form.addEventListener("submit", (event) => { event.preventDefault(); changed(); });
  fields.q.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { event.preventDefault(); body.querySelector("a")?.focus(); }
    if (event.key === "Escape" && fields.q.value) { event.preventDefault(); fields.q.value = ""; changed(); }
  });

  more.addEventListener("click", () => draw(drawn + AT_ONCE));
  region.addEventListener("scroll", () => {
    if (region.scrollTop + 2 * region.clientHeight > region.scrollHeight) draw(drawn + AT_ONCE);
  });
  table.addEventListener("keydown", (event) => {
    const here = event.target.closest("tbody tr");
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!here || !step) return;
    event.preventDefault();
    if (step === 1 && here.sectionRowIndex + 1 === drawn) draw(drawn + AT_ONCE);
    const at = Math.max(0, Math.min(drawn - 1, here.sectionRowIndex + step));
    if (step === -1 && here.sectionRowIndex === 0) fields.q.focus();
    else body.rows[at].querySelector("a").focus();
  });

  const openNamed = () => {
    const row = rows.find((r) => r.key === state.get("open"));
    if (row) read(listed.includes(row) ? listed : rows, (listed.includes(row) ? listed : rows).indexOf(row), data);
  };
  addEventListener("hashchange", () => {
    if (!location.hash.startsWith("#open=")) return;
    state.set({ open: new URLSearchParams(location.hash.slice(1)).get("open") });
    openNamed();
  });
  await show();
  openNamed();
  root.dataset.ready = "1";
  performance.mark("table");
}

if (document.getElementById("table-data")) {
  if (typeof DecompressionStream === "undefined") {
    document.getElementById("found").textContent = "This browser cannot unpack the table of prompts: it has no DecompressionStream.";
  } else start();
}
