// The data of the page, and what follows from it: who makes and reads each variable, costs of boxes.
// An item of the graph is an operation, a group of operations, or an end of a wire (an argument, a
// constant, a result). Every text goes into the document through textContent.
"use strict";

const FT = { data: JSON.parse(document.getElementById("data").textContent) };

FT.programs = FT.data.programs.map((program, number) => {
  const maker = new Map();
  program.ops.forEach((op, k) => op.out.forEach((i) => maker.set(i, k)));
  const readers = new Map();
  program.ops.forEach((op, k) => {
    for (const i of op.in) {
      if (!readers.has(i)) readers.set(i, []);
      readers.get(i).push(k);
    }
  });
  const constants = new Map(program.constants);
  return { ...program, number, maker, readers, constants };
});

// The operation that runs each sub-program.
FT.callers = new Map();
FT.programs.forEach((program) =>
  program.ops.forEach((op, k) => (op.subs || []).forEach(([sub]) => FT.callers.set(sub, [program.number, k])))
);

FT.residualOf = new Map();
for (const r of FT.data.residuals) FT.residualOf.set(`${r.program}:${r.var}`, r);

// Operations by place in the source: pairs of program and operation.
FT.opsAt = new Map();
FT.programs.forEach((program) =>
  program.ops.forEach((op, k) => {
    if (op.at < 0) return;
    const [file, line] = FT.data.sources.places[op.at];
    const key = `${file}:${line}`;
    if (!FT.opsAt.has(key)) FT.opsAt.set(key, []);
    FT.opsAt.get(key).push([program.number, k]);
  })
);

FT.lineKey = (place) => {
  if (place < 0) return "";
  const [file, line] = FT.data.sources.places[place];
  return `${file}:${line}`;
};

FT.placeText = (place) => {
  if (place < 0) return "unknown line";
  const [file, line] = FT.data.sources.places[place];
  return `${FT.data.sources.files[file].name}:${line}`;
};

FT.sourceText = (place) => {
  if (place < 0) return "";
  const [file, line] = FT.data.sources.places[place];
  const found = FT.data.sources.files[file].lines.find(([n]) => n === line);
  return found ? found[1].trim() : "";
};

FT.number = (n, unit = "") => {
  if (n === 0) return `0 ${unit}`.trim();
  let prefixes = ["", "k", "M", "G", "T", "P"];
  if (n < 1) {
    prefixes = ["", "m", "µ", "n"];
    let k = 0;
    while (n < 1 && k < 3) { n *= 1000; k += 1; }
    return `${+n.toPrecision(3)} ${prefixes[k]}${unit}`;
  }
  let k = 0;
  while (n >= 1000 && k < 5) { n /= 1000; k += 1; }
  return `${+n.toPrecision(3)} ${prefixes[k]}${unit}`.trim();
};

FT.roleName = { f: "forward", r: "reverse", c: "recomputed" };

FT.el = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children); // strings become text nodes
  return made;
};

FT.svg = (tag, attributes = {}, text = null) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return made;
};

FT.cut = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "…");

// -- items -------------------------------------------------------------------------------------

FT.opItem = (program, k) => {
  const op = program.ops[k];
  return { kind: "op", key: `o${program.number}:${k}`, program, first: k, end: k + 1, role: op.role, op,
    opens: Boolean(op.subs) };
};

FT.groupItem = (program, [kind, first, end, children]) => {
  if (end === first + 1) return FT.opItem(program, first);
  return { kind, key: `g${program.number}:${kind}:${first}-${end}`, program, first, end, children,
    role: program.ops[first].role, opens: true };
};

// The sub-programs that an operation runs; rules of a custom derivative do not run there.
FT.runSubs = (op) => {
  const run = op.subs.filter(([, times]) => times >= 0);
  return run.length ? run : op.subs;
};

// The items of a block: a program, or the inside of a group.
FT.itemsOf = (program, group) => {
  if (group && group.kind === "line") {
    return Array.from({ length: group.end - group.first }, (_, k) => FT.opItem(program, group.first + k));
  }
  return (group ? group.children : program.groups).map((child) => FT.groupItem(program, child));
};

FT.costs = (item) => {
  let flops = 0, bytes = 0, kept = 0;
  for (let k = item.first; k < item.end; k++) {
    const op = item.program.ops[k];
    flops += op.flops;
    bytes += op.bytes;
    for (const i of op.out) {
      const residual = FT.residualOf.get(`${item.program.number}:${i}`);
      if (residual && residual.kept) kept += residual.bytes;
    }
  }
  return { flops, bytes, kept };
};

FT.wholeFlops = Math.max(1, FT.data.totals.flops);

FT.lineRange = (item) => {
  let low = Infinity, high = -1, file = -1;
  for (let k = item.first; k < item.end; k++) {
    const at = item.program.ops[k].at;
    if (at < 0) continue;
    const [f, line] = FT.data.sources.places[at];
    file = f;
    low = Math.min(low, line);
    high = Math.max(high, line);
  }
  if (file < 0) return "unknown lines";
  const name = FT.data.sources.files[file].name;
  return low === high ? `${name}:${low}` : `${name}:${low}–${high}`;
};

// Title and second line of an item.
FT.labels = (item) => {
  const { program } = item;
  if (item.kind === "op") {
    const { op } = item;
    const outs = op.out.map((i) => program.vars[i]);
    const times = op.subs && op.subs[0][1] !== 1 && op.subs[0][1] >= 0 ? ` × ${op.subs[0][1] || "?"}` : "";
    const title = outs.length === 1 ? `${outs[0][0]} = ${op.p}${times}` : `${op.p}${times}`;
    const avals = outs.map((v) => v[1]).join(" ");
    const place = op.at < 0 ? "" : ` · ${FT.placeText(op.at)}`;
    return [FT.cut(op.policy ? `${title} · ${op.policy}` : title, 40), FT.cut(avals, 30) + FT.cut(place, 24)];
  }
  const count = `${item.end - item.first} ops`;
  if (item.kind === "line") {
    const at = program.ops[item.first].at;
    return [FT.cut(FT.sourceText(at) || count, 44), `${FT.placeText(at)} · ${count}`];
  }
  if (item.kind === "repeat") {
    const steps = FT.countSteps(item);
    return [`${FT.lineRange(item)} × ${steps}`, `${steps} equal steps · ${count}`];
  }
  return [FT.lineRange(item), `${item.kind} · ${count}`];
};

FT.countSteps = (item) => {
  const count = (children) => children.reduce((n, [kind, , , inner]) => n + (kind === "section" ? count(inner) : 1), 0);
  return count(item.children);
};
