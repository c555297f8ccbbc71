// The panes around the graph: source lines, memory timeline, and the tabs on the right.
"use strict";

// -- source --------------------------------------------------------------------------------------

FT.WORDS = new Set(("and as assert async await break class continue def del elif else except False finally for from " +
  "global if import in is lambda None nonlocal not or pass raise return True try while with yield").split(" "));
FT.TOKENS = /(#.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(\b\d[\w.]*)|([A-Za-z_]\w*)/g;

FT.colored = (text) => {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(FT.TOKENS)) {
    const kind = found[1] ? "c" : found[2] ? "s" : found[3] ? "n" : FT.WORDS.has(found[4]) ? "k" : null;
    if (!kind) continue;
    parts.push(text.slice(end, found.index), FT.el("span", { class: `tok-${kind}` }, found[0]));
    end = found.index + found[0].length;
  }
  return [...parts, text.slice(end)];
};

// Per line: what is shown next to it.
FT.lineCosts = () => {
  const { profile, sources } = FT.data;
  const found = new Map();
  const of = (key) => {
    if (!found.has(key)) found.set(key, { cost: 0, kept: 0 });
    return found.get(key);
  };
  FT.programs.forEach((program) => {
    let runs = 1;
    for (let at = program.number; FT.callers.has(at); at = FT.callers.get(at)[0]) runs *= Math.max(0, FT.programs[at].runs) || (FT.programs[at].runs < 0 ? 0 : 1);
    for (const op of program.ops) {
      if (op.at >= 0 && !op.subs && !profile) of(FT.lineKey(op.at)).cost += op.flops * runs;
    }
  });
  if (profile) {
    const keys = new Map(sources.places.map((place, n) => [FT.placeText(n), FT.lineKey(n)]));
    for (const [place, , seconds] of profile.lines) if (keys.has(place)) of(keys.get(place)).cost += seconds;
  }
  for (const r of FT.data.residuals) if (r.kept && r.at >= 0) of(FT.lineKey(r.at)).kept += r.bytes;
  return found;
};

FT.fillSource = () => {
  const pane = document.getElementById("source");
  const costs = FT.lineCosts();
  const unit = FT.data.profile ? "s" : "";
  const most = Math.max(0, ...[...costs.values()].map(({ cost }) => cost)) || 1;
  FT.rows = new Map();
  FT.data.sources.files.forEach((file, n) => {
    pane.append(FT.el("h2", {}, file.name));
    pane.append(FT.el("div", { class: "row heads" }, FT.el("span"), FT.el("span", {}, unit ? "time" : "flops"),
      FT.el("span", {}, "kept bytes"), FT.el("span")));
    let last = null;
    for (const [line, text] of file.lines) {
      if (last !== null && line > last + 1) pane.append(FT.el("div", { class: "gap" }, "⋯"));
      last = line;
      const key = `${n}:${line}`;
      const ops = FT.opsAt.get(key);
      const cost = costs.get(key) || { cost: 0, kept: 0 };
      const bar = FT.el("span", { class: "cost" });
      if (cost.cost) {
        const share = cost.cost / most;
        bar.append(FT.el("i", { style: `width:${Math.max(2, 54 * share)}px` }), FT.el("b", {}, FT.number(cost.cost, unit)));
      }
      const row = FT.el("div", { class: ops ? "row has" : "row" }, FT.el("span", { class: "no" }, String(line)), bar,
        FT.el("span", { class: "kept" }, cost.kept ? FT.number(cost.kept, "B") : ""),
        FT.el("code", {}, ...FT.colored(text || (ops ? "(source not available)" : ""))));
      if (ops) {
        row.title = `${ops.length} operations`;
        row.addEventListener("mouseenter", () => FT.lightLines(new Set([key])));
        row.addEventListener("mouseleave", FT.unhover);
        row.addEventListener("click", () => FT.select(FT.firstItemAt(key)));
      }
      FT.rows.set(key, row);
      pane.append(row);
    }
  });
  if (!FT.data.sources.files.length) pane.append(FT.el("div", { class: "gap" }, "The source lines of this program are not known."));
};

// The box that shows the first operation of a line now; else the operation itself.
FT.firstItemAt = (key) => {
  const [number, k] = FT.opsAt.get(key)[0];
  const shown = FT.graph.boxes.filter(({ item }) => item.kind !== "end" && item.program.number === number &&
    item.first <= k && k < item.end);
  return shown.length ? shown[shown.length - 1].item : FT.reveal(number, k);
};

// -- memory --------------------------------------------------------------------------------------

FT.fillMemory = () => {
  const { memory } = FT.data;
  const figure = document.getElementById("memory");
  const svg = figure.querySelector("svg");
  const caption = figure.querySelector("figcaption");
  const count = memory.during.length;
  const text = `Live bytes by operation: peak ${FT.number(memory.peak, "B")} (without arguments and constants, before the passes of jit)`;
  caption.textContent = text;
  if (!count) return;
  const width = 1000, height = 100;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  const x = (n) => (n * width) / count;
  const y = (bytes) => height - (bytes / Math.max(1, memory.peak)) * (height - 6);
  const area = (values) => values.reduce((path, bytes, n) => `${path}L${x(n)},${y(bytes)}L${x(n + 1)},${y(bytes)}`, `M0,${height}`) + `L${width},${height}z`;
  const ops = FT.programs[0].ops;
  memory.ops.forEach((k, n) => {
    if (ops[k].role === "r") svg.append(FT.svg("rect", { class: "rev", x: x(n), y: 0, width: width / count, height }));
  });
  svg.append(FT.svg("path", { class: "live", d: area(memory.during), "vector-effect": "non-scaling-stroke" }));
  svg.append(FT.svg("path", { class: "held", d: area(memory.kept) }));
  const cursor = FT.svg("line", { class: "now", y1: 0, y2: height, "vector-effect": "non-scaling-stroke", visibility: "hidden" });
  svg.append(cursor);
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    return Math.min(count - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * count)));
  };
  svg.addEventListener("mousemove", (event) => {
    const n = at(event);
    caption.textContent = `${FT.number(memory.during[n], "B")} live, residuals ${FT.number(memory.kept[n], "B")}: ${ops[memory.ops[n]].text}`;
    FT.lightOps([[0, memory.ops[n]]]);
  });
  svg.addEventListener("mouseleave", () => { caption.textContent = text; FT.unhover(); });
  svg.addEventListener("click", (event) => FT.select(FT.reveal(0, memory.ops[at(event)])));
  FT.markMemory = (item) => {
    const n = item && item.program.number === 0 && item.kind !== "end" ? memory.ops.findIndex((k) => item.first <= k && k < item.end) : -1;
    cursor.setAttribute("visibility", n < 0 ? "hidden" : "visible");
    if (n >= 0) { cursor.setAttribute("x1", x(n + 0.5)); cursor.setAttribute("x2", x(n + 0.5)); }
  };
};
FT.markMemory = () => {};

// -- tabs ----------------------------------------------------------------------------------------

FT.table = (titles, rows) => {
  const kind = (title) => (title.startsWith("#") ? "num" : title.startsWith("=") ? "word" : "text");
  const heads = titles.map((title) => FT.el("th", { class: kind(title) }, title.replace(/^[#=]/, "")));
  const table = FT.el("table", {}, FT.el("thead", {}, FT.el("tr", {}, ...heads)));
  const body = FT.el("tbody");
  for (const { cells, op } of rows) {
    const row = FT.el("tr", { class: op ? "go" : "" },
      ...cells.map((cell, k) => FT.el("td", { class: kind(titles[k]) }, cell)));
    if (op) {
      row.addEventListener("click", () => FT.select(FT.reveal(...op)));
      row.addEventListener("mouseenter", () => FT.lightOps([op]));
      row.addEventListener("mouseleave", FT.unhover);
    }
    body.append(row);
  }
  table.append(body);
  return table;
};

FT.tabs = {
  Details: () => FT.detailsOf(FT.selected),
  Residuals: () => {
    const sorted = [...FT.data.residuals].sort((a, b) => b.kept - a.kept || b.again - a.again);
    const rows = sorted.map((r) => ({
      cells: [r.kept ? FT.number(r.bytes, "B") : r.again ? `(${FT.number(r.bytes, "B")})` : "–", `${r.name}: ${r.aval}`,
        `${r.at < 0 ? r.what : `${r.what} at ${FT.placeText(r.at)}`}\nfor the ${r.why}`],
      op: [r.program, r.made >= 0 ? r.made : r.readers[0]],
    }));
    const note = rows.length
      ? `Values of the forward pass that the reverse pass reads: ${FT.number(FT.data.totals.residuals, "B")}. Arguments and constants (–) take no additional memory.${sorted.some((r) => r.again) ? " Values in brackets are recomputed in the reverse pass." : ""}`
      : "No value crosses from a forward to a reverse pass: show ft.grad(f) for the derivative.";
    return [FT.el("p", {}, note), FT.table(["#bytes", "=value", "what it is, what it is kept for"], rows)];
  },
  Profile: () => {
    const { profile, totals } = FT.data;
    if (!profile) {
      const note = `${FT.number(totals.flops, "flop")}, ${FT.number(totals.bytes, "B")} of operands and results. Times: ft.show(…, profile=True).`;
      const rows = FT.programs.flatMap((program) => program.ops.map((op, k) => ({ cells: [FT.number(op.flops), FT.number(op.bytes), op.text], op: [program.number, k], n: op.flops })));
      return [FT.el("p", {}, note), FT.table(["#flops", "#bytes", "operation"], rows.sort((a, b) => b.n - a.n).slice(0, 60))];
    }
    const total = profile.lines.reduce((sum, [, , seconds]) => sum + seconds, 0) || 1;
    const share = (seconds) => `${((100 * seconds) / total).toFixed(1)}%`;
    return [
      FT.el("p", {}, `${FT.number(profile.seconds, "s")} per run of jit; ${FT.number(profile.clocked, "s")} with a clock around every operation (medians of ${profile.runs} runs); at most ${FT.number(profile.peak, "B")}.`),
      FT.table(["#time", "#share", "line"], profile.lines.map(([place, text, seconds]) => ({ cells: [FT.number(seconds, "s"), share(seconds), `${place}  ${text}`] }))),
      FT.el("h3", {}, "by operation"),
      FT.table(["#time", "#bytes", "#flops", "operation"], profile.rows.map((row) => ({
        cells: [(row.estimated ? "≈ " : "") + FT.number(row.seconds, "s"), FT.number(row.bytes), FT.number(row.flops), `${"  ".repeat(row.depth)}${row.text}`] }))),
    ];
  },
  Policies: () => {
    const rows = FT.data.policies.map((p) => ({ cells: [p.text, FT.placeText(p.at), FT.programs[p.program].ops[p.op].text], op: [p.program, p.op] }));
    const note = rows.length ? "Residual policies and named values of this program." : "No residual policy (ft.checkpoint) and no named value (ft.checkpoint_name) is in this program.";
    return [FT.el("p", {}, note), rows.length ? FT.table(["policy", "line", "operation"], rows) : ""];
  },
  Listing: () => FT.programs.flatMap((program) => {
    const title = `${program.path ? `${program.path}: ` : ""}${program.name}${program.runs === 1 || program.runs < 0 ? "" : ` × ${program.runs || "?"}`}`;
    return [FT.el("div", { class: "oprow program" }, title), ...program.ops.map((op, k) => {
      const row = FT.el("div", { class: `oprow ${op.role}`, title: FT.placeText(op.at) }, op.text);
      row.addEventListener("click", () => FT.select(FT.reveal(program.number, k)));
      row.addEventListener("mouseenter", () => FT.lightOps([[program.number, k]]));
      row.addEventListener("mouseleave", FT.unhover);
      return row;
    })];
  }),
};

FT.showTab = (name) => {
  FT.tab = name;
  for (const button of document.querySelectorAll("#tabs button")) button.setAttribute("aria-selected", button.textContent === name);
  document.getElementById("panel").replaceChildren(...FT.tabs[name]());
};

FT.detailsOf = (item) => {
  if (!item) {
    return [FT.el("p", {}, "Click a box for its details; double-click, or ▸, opens a line, a loop, a branch or a call. Scroll to zoom, drag to move. Pointing at a box lights its source line, and the other way around.")];
  }
  const { program } = item;
  const number = program.number;
  if (item.kind === "end") {
    const what = item.what !== "in" ? "result" : program.constants.has(item.variables[0]) ? "constant" : program.inputs.includes(item.variables[0]) ? "argument" : "value";
    const rows = item.variables.map((i) => {
      const [name, aval, bytes] = program.vars[i];
      const k = program.maker.get(i);
      return { cells: [what, `${name}: ${aval}`, FT.number(bytes)], op: k === undefined ? null : [number, k] };
    });
    return [FT.el("h3", {}, item.title), FT.table(["", "value", "#bytes"], rows)];
  }
  const costs = FT.costs(item);
  const parts = [];
  const at = program.ops[item.first].at;
  parts.push(FT.el("h3", {}, item.kind === "op" ? item.op.text : FT.labels(item)[0]));
  parts.push(FT.el("p", {}, FT.el("span", { class: `tag ${item.role}` }, FT.roleName[item.role]), ` ${item.kind === "op" ? FT.placeText(at) : FT.lineRange(item)}`));
  if (item.kind === "op" && at >= 0) parts.push(FT.el("p", {}, FT.el("code", {}, ...FT.colored(FT.sourceText(at)))));
  parts.push(FT.el("p", {}, `${FT.number(costs.flops, "flop")}, ${FT.number(costs.bytes, "B")} of operands and results${costs.kept ? `; keeps ${FT.number(costs.kept, "B")}` : ""}`));
  if (item.op && item.op.unused) parts.push(FT.el("p", {}, "No result depends on it: it does not run."));
  if (item.op && item.op.policy) parts.push(FT.el("p", {}, FT.el("span", { class: "tag k" }, item.op.policy)));
  for (const [sub, times] of (item.op && item.op.subs) || []) {
    const inner = FT.programs[sub];
    parts.push(FT.el("p", {}, `${inner.path}: ${inner.name}, ${inner.ops.length} operations, ${times === 1 ? "runs once" : times < 0 ? "a rule that does not run here" : times ? `runs ${times} times` : "number of runs not known"}`));
  }
  const values = [];
  const seen = new Set();
  const add = (i, what, k) => {
    if (seen.has(what + i)) return;
    seen.add(what + i);
    const [name, aval, bytes] = program.vars[i];
    const maker = program.maker.get(i);
    values.push({ cells: [what, `${name}: ${aval}`, FT.number(bytes)], op: maker === undefined || k === maker ? null : [number, maker] });
  };
  for (let k = item.first; k < Math.min(item.end, item.first + 60); k++) {
    for (const i of program.ops[k].in) {
      const maker = program.maker.get(i);
      if (maker === undefined || maker < item.first || maker >= item.end) add(i, "reads", k);
    }
  }
  for (let k = item.first; k < Math.min(item.end, item.first + 60); k++) for (const i of program.ops[k].out) add(i, "makes", k);
  parts.push(FT.table(["", "value", "#bytes"], values));
  const kept = FT.data.residuals.filter((r) => r.program === number && r.made >= item.first && r.made < item.end);
  if (kept.length) {
    parts.push(FT.el("h3", {}, "residuals"));
    parts.push(FT.table(["#bytes", "=value", "kept for"], kept.map((r) => ({ cells: [FT.number(r.bytes, "B"), `${r.name}: ${r.aval}`, r.why], op: [number, r.readers[0]] }))));
  }
  if (item.kind !== "op") {
    parts.push(FT.el("h3", {}, "operations"));
    for (let k = item.first; k < Math.min(item.end, item.first + 60); k++) {
      const row = FT.el("div", { class: `oprow ${program.ops[k].role}` }, program.ops[k].text);
      row.addEventListener("click", () => FT.select(FT.reveal(number, k)));
      parts.push(row);
    }
  }
  return parts;
};
