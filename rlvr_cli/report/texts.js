
// Completions lie in the page as blocks of deflated JSON; a block is unpacked when it is read.
async function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

const blocks = [...document.querySelectorAll("script.block")];
const opened_blocks = new Map();
function blockOf(index) {
  if (!opened_blocks.has(index)) opened_blocks.set(index, unpacked(blocks[index].textContent));
  return opened_blocks.get(index);
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Set text is HTML that `rlvr report` made: what a model wrote is escaped in it.
function setPart(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

function textNode(packed) {
  const [head, left = 0, tail = "", set = null, setTail = null] = [].concat(packed);
  const gap = () => (left ? [element("p", { class: "cut" }, `… ${count(left, "character")} left out …`)] : []);
  const plain = (text) => element("pre", { dir: "auto" }, text || "(nothing)");
  const raw = [plain(head), ...gap(), ...(tail ? [plain(tail)] : [])];
  if (set === null) return raw;
  return [
    element("div", { class: "set", dir: "auto" }, setPart(set), ...gap(), setPart(setTail || "")),
    element("details", { class: "raw" }, element("summary", {}, "Raw text"), ...raw),
  ];
}

// All that a row of the table holds as text, for the search in completions.
const rawOf = (packed) => { const [head, , tail = ""] = [].concat(packed); return head + " " + tail; };
function wordsOf(row) {
  const said = row.prompt.map(([, text]) => rawOf(text));
  for (const side of row.sides) if (side) said.push(...side.texts.map(([text]) => rawOf(text)));
  return said.join("\n").toLowerCase();
}
