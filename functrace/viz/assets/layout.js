// Positions of boxes and wires. A block (a program, or an open group) has two columns: its forward
// operations run downwards on the left, its reverse operations upwards on the right; dagre lays out
// each column. A wire between columns is drawn from side to side. An open item is a block in a box.
"use strict";

FT.SIZES = { char: 6.7, height: 36, padding: 10, head: 24, gap: 96, end: 20 };

FT.layoutBlock = (program, group, expanded, depth = 0) => {
  const items = FT.itemsOf(program, group);
  const owner = new Map(); // item by variable that it makes
  for (const item of items) {
    for (let k = item.first; k < item.end; k++) for (const i of program.ops[k].out) owner.set(i, item);
  }
  if (!group) items.push(...FT.wireEnds(program, items, owner));
  for (const item of items) FT.measure(item, expanded, depth);
  const wires = FT.wires(program, items, owner);
  const left = items.filter((item) => item.role !== "r");
  const right = items.filter((item) => item.role === "r");
  const a = FT.layoutColumn(left, wires, "TB");
  const b = FT.layoutColumn(right, wires, "BT");
  const height = Math.max(a.height, b.height);
  const shift = left.length ? a.width + (right.length ? FT.SIZES.gap : 0) : 0;
  FT.move(right, wires, shift, height - b.height);
  const drawn = wires.flatMap((wire) => (wire.points ? [wire] : FT.curves(program, wire)));
  return { items, wires: drawn, width: shift + b.width || a.width, height };
};

// Arguments, constants and results of a program; more than two with the same readers are one box.
FT.wireEnds = (program, items, owner) => {
  const readers = new Map(); // by outside variable, the items that read it
  for (const item of items) {
    for (let k = item.first; k < item.end; k++) {
      for (const i of program.ops[k].in) {
        if (owner.has(i)) continue;
        if (!readers.has(i)) readers.set(i, new Set());
        readers.get(i).add(item);
      }
    }
  }
  for (const i of program.inputs) if (!readers.has(i)) readers.set(i, new Set());
  const alike = new Map();
  for (const [i, reading] of readers) {
    const constant = program.constants.get(i);
    if (constant !== undefined && !/\[.+\]/.test(program.vars[i][1])) continue; // a number: see the operation's text
    const key = `${constant === undefined} ${[...reading].map((item) => item.key).join(" ")}`;
    if (!alike.has(key)) alike.set(key, []);
    alike.get(key).push(i);
  }
  const made = [];
  const add = (variables, what, role, title) => {
    const item = { kind: "end", what, key: `${what}${program.number}:${variables[0]}`, program, variables,
      role, title, first: 0, end: 0, opens: false };
    made.push(item);
    return item;
  };
  for (const variables of alike.values()) {
    const parts = variables.length > 2 ? [variables] : variables.map((i) => [i]);
    for (const part of parts) {
      const reading = [...readers.get(part[0])];
      const role = reading.length && reading.every((item) => item.role === "r") ? "r" : "f";
      const item = add(part, "in", role, FT.endTitle(program, part));
      for (const i of part) owner.set(i, item);
    }
  }
  const results = new Map();
  program.outputs.forEach((i) => {
    const from = owner.get(i);
    const key = from ? from.key : "";
    if (!results.has(key)) results.set(key, { role: from ? from.role : "f", variables: [] });
    results.get(key).variables.push(i);
  });
  let count = 0;
  for (const { role, variables } of results.values()) {
    const parts = variables.length > 2 ? [variables] : variables.map((i) => [i]);
    for (const part of parts) {
      const names = part.map((i) => program.vars[i][0]).join(", ");
      const item = add(part, `out${count++}.`, role, `return ${names}`);
      item.reads = part;
    }
  }
  return made;
};

FT.endTitle = (program, variables) => {
  const [i] = variables;
  const [name, aval] = program.vars[i];
  const constant = program.constants.get(i);
  if (variables.length > 1) {
    const what = constant !== undefined ? "constants" : program.inputs.includes(i) ? "arguments" : "values";
    return `${variables.length} ${what}: ${variables.map((j) => program.vars[j][0]).join(", ")}`;
  }
  return constant === undefined || constant === "…" ? `${name}: ${aval}${constant ? " constant" : ""}` : constant;
};

FT.measure = (item, expanded, depth) => {
  const { char, height, padding, head, end, gap } = FT.SIZES;
  if (item.kind === "end") {
    item.width = Math.max(28, FT.cut(item.title, 36).length * char + 12);
    item.height = end;
    return;
  }
  item.labels = FT.labels(item);
  item.costs = FT.costs(item);
  const kept = item.costs.kept ? FT.number(item.costs.kept, "B").length * 6 + 18 : 0;
  const first = item.labels[0].length * char + (item.opens ? 20 : 0) + kept;
  item.width = Math.max(80, first, item.labels[1].length * 6.1) + 16;
  item.height = height;
  item.isOpen = item.opens && expanded.has(item.key);
  if (!item.isOpen) return;
  const subs = item.kind === "op" ? FT.runSubs(item.op) : [];
  const blocks = item.kind === "op"
    ? subs.map(([sub]) => FT.layoutBlock(FT.programs[sub], null, expanded, depth + 1))
    : [FT.layoutBlock(item.program, item, expanded, depth + 1)];
  let x = padding;
  item.blocks = blocks.map((block, n) => {
    const placed = { block, x, y: head + padding + (item.kind === "op" ? 14 : 0), title: "" };
    if (item.kind === "op") {
      const [sub, times] = subs[n];
      const { path, name } = FT.programs[sub];
      placed.title = FT.cut(`${path} ${name}${times === 1 ? "" : ` × ${times || "?"}`}`, 48);
    }
    x += Math.max(block.width, placed.title.length * 6.1) + gap / 3;
    return placed;
  });
  item.width = Math.max(item.width, x - gap / 3 + padding);
  item.height = Math.max(...item.blocks.map(({ block, y }) => y + block.height)) + padding;
};

// The parts of a wire between two columns: from the innermost open box that makes a value to those that
// read it. Positions are those in the block.
FT.curves = (program, wire) => {
  const found = new Map();
  for (const i of wire.vars) {
    for (const from of FT.innermost(wire.from, (item) => program.maker.get(i) >= item.first && program.maker.get(i) < item.end)) {
      for (const to of FT.innermost(wire.to, (item) => FT.reads(program, item, i))) {
        const key = `${from.item.key}>${to.item.key}`;
        if (!found.has(key)) found.set(key, { ...wire, from: from.item, to: to.item, start: from, stop: to, vars: [], bytes: 0, kept: false, curve: true });
        const part = found.get(key);
        const residual = FT.residualOf.get(`${program.number}:${i}`);
        part.vars.push(i);
        part.bytes += program.vars[i][2];
        part.kept = part.kept || Boolean(wire.cross && residual && residual.kept);
      }
    }
  }
  return [...found.values()];
};

FT.reads = (program, item, i) => {
  for (let k = item.first; k < item.end; k++) if (program.ops[k].in.includes(i)) return true;
  return false;
};

FT.innermost = (item, chosen, x = item.x, y = item.y) => {
  if (item.kind === "op" || item.kind === "end" || !item.isOpen) return [{ item, x, y }];
  const [{ block, x: dx, y: dy }] = item.blocks;
  const inner = block.items.filter(chosen);
  if (!inner.length) return [{ item, x, y }];
  return inner.flatMap((part) => FT.innermost(part, chosen, x + dx + part.x, y + dy + part.y));
};

// Wires between the items of a block; all variables between two items are one wire.
FT.wires = (program, items, owner) => {
  const found = new Map();
  const connect = (i, to) => {
    const from = owner.get(i);
    if (!from || from === to) return;
    const key = `${from.key}>${to.key}`;
    if (!found.has(key)) {
      const cross = from.role !== "r" && to.role === "r";
      found.set(key, { from, to, vars: [], bytes: 0, cross, kept: false });
    }
    const wire = found.get(key);
    if (wire.vars.includes(i)) return;
    wire.vars.push(i);
    wire.bytes += program.vars[i][2];
    const residual = FT.residualOf.get(`${program.number}:${i}`);
    if (wire.cross && residual && residual.kept) wire.kept = true;
  };
  for (const item of items) {
    for (const i of item.reads || []) connect(i, item);
    for (let k = item.first; k < item.end; k++) for (const i of program.ops[k].in) connect(i, item);
  }
  return [...found.values()];
};

FT.layoutColumn = (items, wires, direction) => {
  if (!items.length) return { width: 0, height: 0 };
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: direction, nodesep: 16, ranksep: 30, edgesep: 8, marginx: 4, marginy: 4,
    ranker: items.length > 150 ? "longest-path" : "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  const own = new Set(items);
  for (const item of items) graph.setNode(item.key, { width: item.width, height: item.height });
  for (const wire of wires) {
    if (own.has(wire.from) && own.has(wire.to)) graph.setEdge(wire.from.key, wire.to.key, {});
  }
  dagre.layout(graph);
  for (const item of items) {
    const node = graph.node(item.key);
    item.x = node.x - item.width / 2;
    item.y = node.y - item.height / 2;
  }
  for (const wire of wires) {
    if (own.has(wire.from) && own.has(wire.to)) wire.points = graph.edge(wire.from.key, wire.to.key).points;
  }
  const { width, height } = graph.graph();
  return { width, height };
};

FT.move = (items, wires, dx, dy) => {
  const own = new Set(items);
  for (const item of items) { item.x += dx; item.y += dy; }
  for (const wire of wires) {
    if (wire.points && own.has(wire.from)) wire.points = wire.points.map(({ x, y }) => ({ x: x + dx, y: y + dy }));
  }
};

FT.wirePath = (wire) => {
  if (wire.curve) {
    const { from, to, start, stop } = wire;
    const rightwards = start.x < stop.x;
    const x1 = rightwards ? start.x + from.width : start.x;
    const x2 = rightwards ? stop.x : stop.x + to.width;
    const y1 = start.y + Math.min(from.height, 36) / 2;
    const y2 = stop.y + Math.min(to.height, 36) / 2;
    const bend = Math.max(30, Math.abs(x2 - x1) / 2) * (rightwards ? 1 : -1);
    return `M${x1},${y1}C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
  }
  const p = wire.points;
  let path = `M${p[0].x},${p[0].y}`;
  for (let k = 1; k < p.length - 1; k++) {
    const mx = (p[k].x + p[k + 1].x) / 2, my = (p[k].y + p[k + 1].y) / 2;
    path += `Q${p[k].x},${p[k].y} ${k === p.length - 2 ? `${p[k + 1].x},${p[k + 1].y}` : `${mx},${my}`}`;
  }
  if (p.length === 2) path += `L${p[1].x},${p[1].y}`;
  return path;
};
