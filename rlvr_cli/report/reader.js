
// The reader: one prompt with its completions, those of several runs side by side.
const reader = document.getElementById("reader");
const VERDICT = { 1: "right", 0: "wrong", "-1": "no verdict" };

function groupNode([verdict, answer, reason, members], number, side, open) {
  const title = element("summary", {}, element("span", { class: "verdict v" + verdict }, VERDICT[verdict]));
  if (verdict === 1) title.append(` solution ${number}`);
  if (answer !== null) title.append(verdict === 1 ? ", " : " ", element("code", {}, answer || "(nothing)"));
  if (reason) title.append(": " + reason);
  title.append(` · ${count(members.length, "completion")}`);
  const body = element("div", { class: "member" });
  const fold = element("details", { class: "group" }, title, body);
  let at = 0;
  const show = () => {
    const [text, length, cut] = side.texts[members[at]];
    const facts = element("p", { class: "small" },
      `Sample ${members[at]} · ${count(length, side.unit.replace(/s$/, ""))}${cut ? " · truncated" : ""} `);
    if (members.length > 1) {
      for (const [word, step] of [["Previous", -1], ["Next", 1]]) {
        const button = element("button", { type: "button", class: "step" }, word);
        button.disabled = !members[at + step] && members[at + step] !== 0;
        button.addEventListener("click", () => {
          at += step;
          show();
          const again = [...body.querySelectorAll(".step")];
          (again.find((b) => b.textContent === word && !b.disabled) ?? again.find((b) => !b.disabled)).focus();
        });
        facts.append(button, " ");
      }
      facts.append(`${at + 1} of ${members.length}`);
    }
    body.replaceChildren(facts, ...textNode(text));
  };
  fold.addEventListener("toggle", () => { if (fold.open && !body.firstChild) show(); });
  fold.open = open;
  if (open) show();
  return fold;
}

function sideNode(subject, side) {
  const node = element("section", { class: "side" }, element("h3", { style: `--run: var(--${subject.colour})` }, subject.name));
  if (!side) {
    node.append(element("p", { class: "small" }, "It has no completions of this prompt."));
    return node;
  }
  side.unit = subject.unit;
  const total = (kind) => side.groups.filter(([v]) => v === kind).reduce((sum, g) => sum + g[3].length, 0);
  const solutions = side.groups.filter(([v]) => v === 1).length;
  const mistakes = side.groups.filter(([v, answer]) => v === 0 && answer !== null).length;
  const parts = [`${total(1)} of ${total(1) + total(0)} right`];
  if (solutions) parts.push(count(solutions, "solution"));
  if (mistakes) parts.push(count(mistakes, "different wrong answer"));
  if (total(-1)) parts.push(`${total(-1)} without verdict`);
  node.append(element("p", { class: "small" }, parts.join(", ")));
  const firstWrong = side.groups.findIndex(([v]) => v === 0);
  side.groups.forEach((group, at) => node.append(groupNode(group, at + 1, side, at === 0 || at === firstWrong)));
  return node;
}

// `list` has the rows in the order of the table: the reader goes on to the next one.
let reading = { list: [], at: -1, back: null };
async function read(list, at, data) {
  const row = list[at];
  reading = { list, at, data, back: reading.back ?? document.activeElement };
  state.set({ open: row.key });
  const held = (await blockOf(row.block))[row.place];
  if (reading.list !== list || reading.at !== at) return;
  reader.querySelector("h2").textContent = row.id;
  reader.querySelector(".where").textContent =
    `${at + 1} of ${list.length.toLocaleString("en")}${data.sources.length > 1 ? " · " + row.source : ""}`;
  const [previous, next] = reader.querySelectorAll(".turn");
  previous.disabled = at === 0;
  next.disabled = at === list.length - 1;
  const body = reader.querySelector(".body");
  const asked = held.prompt.map(([role, text]) => element("div", {}, element("h4", {}, role), ...textNode(text)));
  const gold = held.gold === null || held.gold === "" ? [] :
    [element("details", { class: "keep" }, element("summary", {}, "Gold answer"), ...textNode(held.gold))];
  if (gold.length && rawOf(held.gold).length < 200) gold[0].open = true;
  const sides = held.sides.map((side, index) => sideNode(data.subjects[index], side));
  body.replaceChildren(...asked, ...gold, element("div", { class: "sides" }, ...sides));
  if (!reader.open) reader.showModal();
  body.scrollTop = 0;
  body.focus({ preventScroll: true });
}

if (reader) {
  const turn = (step) => {
    const { list, at, data } = reading;
    if (list[at + step]) read(list, at + step, data);
  };
  const [previous, next] = reader.querySelectorAll(".turn");
  previous.addEventListener("click", () => turn(-1));
  next.addEventListener("click", () => turn(1));
  reader.querySelector(".close").addEventListener("click", () => reader.close());
  reader.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select") || event.altKey || event.ctrlKey || event.metaKey) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) { event.preventDefault(); turn(step); }
  });
  reader.addEventListener("click", (event) => { if (event.target === reader) reader.close(); });
  reader.addEventListener("close", () => {
    state.set({ open: "" });
    const row = reading.list[reading.at];
    (row?.node?.querySelector("a") ?? reading.back)?.focus();
    reading = { list: [], at: -1, back: null };
  });
}
