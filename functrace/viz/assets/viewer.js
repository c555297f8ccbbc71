// Selection, pointing, keys; starts the page.
"use strict";

FT.selected = null;

FT.select = (item) => {
  FT.selected = item;
  if (item) FT.centerOn(item);
  FT.markSelection();
  FT.showTab(item ? "Details" : FT.tab);
};

FT.linesOf = (item) => {
  const keys = new Set();
  if (item.kind === "end") return keys;
  for (let k = item.first; k < item.end; k++) keys.add(FT.lineKey(item.program.ops[k].at));
  keys.delete("");
  return keys;
};

FT.markSelection = () => {
  const { selected } = FT;
  for (const { item, node } of FT.graph.boxes) node.classList.toggle("sel", Boolean(selected) && item.key === selected.key);
  const lines = selected ? FT.linesOf(selected) : new Set();
  let first = null;
  for (const [key, row] of FT.rows) {
    row.classList.toggle("sel", lines.has(key));
    if (lines.has(key)) first = first || row;
  }
  if (first) first.scrollIntoView({ block: "nearest" });
  FT.markMemory(selected);
};

// -- pointing ------------------------------------------------------------------------------------

FT.lightRows = (keys) => {
  for (const [key, row] of FT.rows) row.classList.toggle("lit", keys.has(key));
};

FT.lightBoxes = (chosen) => {
  const lit = new Set();
  for (const { item, node } of FT.graph.boxes) {
    const isLit = chosen(item);
    node.classList.toggle("lit", isLit);
    if (isLit) lit.add(item);
  }
  return lit;
};

FT.lightWires = (chosen) => {
  for (const { wire, path } of FT.graph.wires) path.classList.toggle("lit", chosen(wire));
};

FT.lightLines = (keys) => {
  FT.lightRows(keys);
  const ops = [...keys].flatMap((key) => FT.opsAt.get(key) || []);
  FT.lightBoxes((item) => item.kind !== "end" && ops.some(([n, k]) => FT.covers(item, n, k)));
  FT.graph.root.classList.toggle("dim", ops.length > 0);
};

// Does a box show an operation, or hide it in a closed one?
FT.covers = (item, number, k) => {
  for (let at = [number, k]; at; at = FT.callers.get(at[0])) {
    if (item.program.number === at[0] && item.first <= at[1] && at[1] < item.end) {
      return at[0] === number ? !item.isOpen : !item.isOpen && item.kind !== "end";
    }
  }
  return false;
};

FT.lightOps = (ops) => {
  FT.lightRows(new Set(ops.map(([n, k]) => FT.lineKey(FT.programs[n].ops[k].at))));
  FT.lightBoxes((item) => item.kind !== "end" && ops.some(([n, k]) => FT.covers(item, n, k)));
};

FT.hoverItem = (item, event) => {
  FT.lightRows(FT.linesOf(item));
  FT.lightBoxes((other) => other === item);
  FT.lightWires((wire) => wire.from === item || wire.to === item);
  if (item.kind === "end") FT.tip(item.title, event);
  else if (item.kind === "op") FT.tip(`${item.op.text}\n${FT.placeText(item.op.at)}`, event);
  else FT.tip(`${item.labels.join("\n")}\n${FT.number(item.costs.flops, "flop")}`, event);
};

FT.hoverWire = (wire, path, event) => {
  path.classList.add("lit");
  FT.lightBoxes((item) => item === wire.from || item === wire.to);
  const shown = wire.vars.slice(0, 12).map((i) => {
    const [name, aval, bytes] = wire.from.program.vars[i];
    const residual = wire.cross && FT.residualOf.get(`${wire.from.program.number}:${i}`);
    return `${name}: ${aval}  ${FT.number(bytes, "B")}${residual ? `\n  residual: ${residual.why}` : ""}`;
  });
  if (wire.vars.length > shown.length) shown.push(`… ${wire.vars.length - shown.length} more`);
  FT.tip(shown.join("\n"), event);
};

FT.unhover = () => {
  FT.lightRows(new Set());
  FT.lightBoxes(() => false);
  FT.lightWires(() => false);
  FT.graph.root.classList.remove("dim");
  document.getElementById("tip").hidden = true;
};

FT.tip = (text, event) => {
  const tip = document.getElementById("tip");
  const box = document.getElementById("center").getBoundingClientRect();
  tip.textContent = text;
  tip.hidden = false;
  tip.style.left = `${Math.min(event.clientX - box.left + 14, Math.max(0, box.width - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.min(event.clientY - box.top + 14, Math.max(0, box.height - tip.offsetHeight - 8))}px`;
};

// -- search --------------------------------------------------------------------------------------

FT.startSearch = () => {
  const field = document.getElementById("search");
  let found = [], next = 0;
  field.addEventListener("input", () => {
    const text = field.value.toLowerCase();
    found = [];
    next = 0;
    if (text) {
      FT.programs.forEach((program) => program.ops.forEach((op, k) => {
        if (op.text.toLowerCase().includes(text) || FT.sourceText(op.at).toLowerCase().includes(text)) found.push([program.number, k]);
      }));
      FT.lightOps(found);
    } else FT.unhover();
    field.title = text ? `${found.length} found; Enter goes to the next` : "";
  });
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") { field.value = ""; field.blur(); FT.unhover(); }
    if (event.key === "Enter" && found.length) {
      FT.select(FT.reveal(...found[next % found.length]));
      next += 1;
    }
  });
};

// -- start ---------------------------------------------------------------------------------------

FT.startSplitters = () => {
  for (const bar of document.querySelectorAll(".splitter")) {
    const pane = document.getElementById(bar.dataset.for);
    bar.addEventListener("pointerdown", (event) => {
      bar.setPointerCapture(event.pointerId);
      const x = event.clientX, width = pane.offsetWidth, sign = bar.dataset.for === "source" ? 1 : -1;
      bar.onpointermove = (moved) => { pane.style.width = `${Math.max(80, width + sign * (moved.clientX - x))}px`; };
      bar.onpointerup = () => { bar.onpointermove = null; };
    });
  }
};

FT.start = () => {
  const { title, totals, profile } = FT.data;
  document.getElementById("title").textContent = title;
  const facts = [`${totals.operations} operations`, FT.number(totals.flops, "flop"), `peak ${FT.number(totals.peak, "B")}`];
  if (totals.residuals) facts.push(`residuals ${FT.number(totals.residuals, "B")}`);
  if (profile) facts.push(`${FT.number(profile.seconds, "s")} per run`);
  document.getElementById("facts").textContent = facts.join(" · ");
  FT.fillSource();
  FT.openFirst();
  FT.draw();
  FT.fillMemory();
  FT.fit();
  FT.startPanZoom();
  FT.startSearch();
  FT.startSplitters();
  const tabs = document.getElementById("tabs");
  for (const name of Object.keys(FT.tabs)) tabs.append(FT.el("button", { role: "tab", onclick: () => FT.showTab(name) }, name));
  FT.showTab(FT.data.residuals.length ? "Residuals" : "Details");
  const on = (id, act) => document.getElementById(id).addEventListener("click", act);
  on("fit", FT.fit);
  on("zoom-in", () => FT.zoom(1.3));
  on("zoom-out", () => FT.zoom(1 / 1.3));
  on("expand", FT.expandAll);
  on("collapse", () => { FT.graph.expanded.clear(); FT.redraw(null); FT.fit(); });
  const keys = { f: FT.fit, "+": () => FT.zoom(1.3), "-": () => FT.zoom(1 / 1.3), Escape: () => FT.select(null),
    "/": () => document.getElementById("search").focus() };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT" || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.body.dataset.ready = "1";
};

FT.start();
