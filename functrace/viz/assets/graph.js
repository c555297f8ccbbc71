// The graph as SVG: boxes, wires, zoom and pan.
"use strict";

FT.graph = {
  svg: document.getElementById("graph"),
  expanded: new Set(),
  view: { x: 0, y: 0, scale: 1 },
  boxes: [], // { item, node }: all boxes that are drawn, outer ones first
  layoutMs: 0,
};

FT.draw = () => {
  const { graph } = FT;
  const begin = performance.now();
  graph.block = FT.layoutBlock(FT.programs[0], null, graph.expanded);
  graph.layoutMs = performance.now() - begin;
  graph.boxes = [];
  graph.wires = [];
  graph.root = FT.svg("g");
  graph.svg.replaceChildren(FT.markers(), graph.root);
  FT.drawBlock(graph.block, graph.root, 0, 0);
  FT.place();
  document.body.dataset.boxes = graph.boxes.length;
  document.body.dataset.wires = graph.wires.length;
  document.body.dataset.layoutMs = graph.layoutMs.toFixed(1);
};

FT.markers = () => {
  const defs = FT.svg("defs");
  for (const [id, color] of [["arrow", "var(--dim)"], ["arrow-k", "var(--k)"]]) {
    const marker = FT.svg("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6,
      orient: "auto-start-reverse", markerUnits: "userSpaceOnUse" });
    marker.append(FT.svg("path", { d: "M0,0L8,4L0,8z", style: `fill:${color}` }));
    defs.append(marker);
  }
  return defs;
};

FT.drawBlock = (block, parent, dx, dy) => {
  const group = FT.svg("g", { transform: `translate(${dx},${dy})` });
  parent.append(group);
  const lines = FT.svg("g"), curves = FT.svg("g");
  group.append(lines);
  for (const wire of block.wires) {
    const width = wire.cross && wire.kept ? Math.min(5, 1.2 + Math.log10(1 + wire.bytes) / 2.2) : 1.1;
    const kind = wire.cross ? (wire.kept ? " cross" : " cross free") : "";
    const path = FT.svg("path", { class: `wire${kind}`, d: FT.wirePath(wire),
      "marker-end": wire.cross ? "url(#arrow-k)" : "url(#arrow)", style: `stroke-width:${width}` });
    path.addEventListener("mouseenter", (event) => FT.hoverWire(wire, path, event));
    path.addEventListener("mouseleave", FT.unhover);
    (wire.curve ? curves : lines).append(path);
    FT.graph.wires.push({ wire, path });
  }
  for (const item of block.items) FT.drawItem(item, group);
  group.append(curves); // above open boxes, where they may begin
};

FT.drawItem = (item, parent) => {
  const { x, y, width, height, role } = item;
  const classes = ["item", item.kind === "end" ? "edge" : role];
  if (item.isOpen) classes.push("open");
  if (item.opens && !item.isOpen) classes.push("stack");
  if (item.op && item.op.unused) classes.push("unused");
  const node = FT.svg("g", { class: classes.join(" "), transform: `translate(${x},${y})` });
  parent.append(node);
  FT.graph.boxes.push({ item, node });
  if (item.opens && !item.isOpen) {
    node.append(FT.svg("rect", { class: "back", x: 3, y: 3, width, height, rx: 4 }));
  }
  const round = item.kind === "end" ? 10 : 4;
  node.append(FT.svg("rect", { class: "box", width, height, rx: round }));
  if (item.kind === "end") {
    node.append(FT.svg("text", { x: 6, y: 14 }, FT.cut(item.title, 36)));
  } else {
    FT.drawLabels(item, node);
  }
  node.addEventListener("mouseenter", (event) => FT.hoverItem(item, event));
  node.addEventListener("mouseleave", FT.unhover);
  node.addEventListener("click", (event) => {
    event.stopPropagation();
    if (!FT.graph.moved) FT.select(item);
  });
  node.addEventListener("dblclick", (event) => {
    event.stopPropagation();
    FT.toggle(item);
  });
};

FT.drawLabels = (item, node) => {
  const { width, height } = item;
  const left = item.opens ? 20 : 8;
  if (item.opens) {
    const sign = FT.svg("text", { class: "open", x: 6, y: 15 }, item.isOpen ? "▾" : "▸");
    sign.addEventListener("click", (event) => {
      event.stopPropagation();
      FT.toggle(item);
    });
    node.append(sign);
  }
  node.append(FT.svg("text", { class: item.isOpen ? "head" : "", x: left, y: 15 }, item.labels[0]));
  if (!item.isOpen) {
    node.append(FT.svg("text", { class: "sub", x: 8, y: 29 }, item.labels[1]));
    const share = Math.min(1, item.costs.flops / FT.wholeFlops);
    if (share > 0.002) {
      node.append(FT.svg("rect", { class: "heat", x: 1, y: height - 3, height: 2, width: Math.max(1, (width - 2) * share) }));
    }
  }
  if (item.costs.kept) {
    const text = FT.number(item.costs.kept, "B");
    const w = text.length * 6 + 8;
    node.append(FT.svg("rect", { class: "pill", x: width - w - 4, y: 4, width: w, height: 14, rx: 7 }));
    node.append(FT.svg("text", { class: "pilltext", x: width - w, y: 14 }, text));
  }
  for (const { block, x, y, title } of item.isOpen ? item.blocks : []) {
    if (title) node.append(FT.svg("text", { class: "sub", x, y: y - 6 }, title));
    FT.drawBlock(block, node, x, y);
  }
};

// -- zoom and pan --------------------------------------------------------------------------------

FT.place = () => {
  const { root, view } = FT.graph;
  root.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.scale})`);
};

FT.fit = () => {
  const { svg, block, view } = FT.graph;
  const { width, height } = svg.getBoundingClientRect();
  const scale = Math.min((width - 32) / block.width, (height - 32) / block.height, 1.25);
  view.scale = Math.max(scale, 0.05);
  view.x = (width - block.width * view.scale) / 2;
  view.y = Math.max(16, (height - block.height * view.scale) / 2);
  // A long program starts at its top, at a readable size.
  if (view.scale < 0.45) {
    view.scale = Math.min(0.8, Math.max(0.45, (width - 32) / block.width));
    view.x = Math.max(16, (width - block.width * view.scale) / 2);
    view.y = 16;
  }
  FT.place();
};

FT.zoom = (factor, cx, cy) => {
  const { svg, view } = FT.graph;
  const box = svg.getBoundingClientRect();
  const x = cx === undefined ? box.width / 2 : cx - box.left;
  const y = cy === undefined ? box.height / 2 : cy - box.top;
  const scale = Math.min(6, Math.max(0.03, view.scale * factor));
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
  FT.place();
};

FT.centerOn = (item) => {
  const found = FT.graph.boxes.find(({ item: other }) => other.key === item.key);
  if (!found) return;
  const { svg, view } = FT.graph;
  const outer = svg.getBoundingClientRect();
  const box = found.node.querySelector(".box").getBoundingClientRect();
  const seen = box.left >= outer.left && box.right <= outer.right && box.top >= outer.top && box.bottom <= outer.bottom;
  if (seen) return;
  view.x += outer.left + outer.width / 2 - (box.left + box.right) / 2;
  view.y += outer.top + outer.height / 2 - (box.top + box.bottom) / 2;
  FT.place();
};

FT.startPanZoom = () => {
  const { graph } = FT;
  const { svg, view } = graph;
  let last = null;
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    FT.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.clientX, event.clientY);
  }, { passive: false });
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    last = [event.clientX, event.clientY];
    graph.moved = false;
  });
  window.addEventListener("pointermove", (event) => {
    if (!last) return;
    const dx = event.clientX - last[0], dy = event.clientY - last[1];
    if (!graph.moved && Math.hypot(dx, dy) < 4) return;
    graph.moved = true;
    svg.classList.add("drag");
    view.x += dx;
    view.y += dy;
    last = [event.clientX, event.clientY];
    FT.place();
  });
  window.addEventListener("pointerup", () => {
    last = null;
    svg.classList.remove("drag");
  });
  svg.addEventListener("click", () => { if (!graph.moved) FT.select(null); });
};

// -- opening and closing -------------------------------------------------------------------------

FT.toggle = (item) => {
  if (!item.opens) return;
  const { expanded } = FT.graph;
  if (expanded.has(item.key)) expanded.delete(item.key);
  else expanded.add(item.key);
  FT.redraw(item);
};

// Draw again, with the box that was clicked in its place.
FT.redraw = (item) => {
  const { view } = FT.graph;
  const corner = () => {
    const found = item && FT.graph.boxes.find(({ item: other }) => other.key === item.key);
    return found ? found.node.querySelector(".box").getBoundingClientRect() : null;
  };
  const before = corner();
  FT.draw();
  const after = corner();
  if (before && after) {
    view.x += before.left - after.left;
    view.y += before.top - after.top;
    FT.place();
  }
  FT.markSelection();
};

// Open the boxes around an operation; return its item.
FT.reveal = (number, k) => {
  const { expanded } = FT.graph;
  const before = expanded.size;
  for (let at = [number, k]; at; ) {
    const [n, place] = at;
    let groups = FT.programs[n].groups;
    while (groups) {
      const group = groups.find(([, first, end]) => first <= place && place < end);
      if (!group || group[2] === group[1] + 1) break;
      expanded.add(FT.groupItem(FT.programs[n], group).key);
      groups = group[0] === "line" ? null : group[3];
    }
    at = FT.callers.get(n);
    if (at) expanded.add(`o${at[0]}:${at[1]}`);
  }
  if (expanded.size !== before) FT.redraw(null);
  return FT.opItem(FT.programs[number], k);
};

FT.MOST_OPEN = 400; // operations of a program that is opened as a whole
FT.FEW = 60; // boxes that are shown at first
FT.READABLE = 0.7; // least scale at first

// What is open at first: loops, branches and calls, then lines, while the whole graph stays readable.
FT.openFirst = () => {
  const { expanded, svg } = FT.graph;
  const box = svg.getBoundingClientRect();
  let count = 0, tries = 24;
  let waiting = [];
  const scaleOf = (block) => Math.min((box.width - 32) / block.width, (box.height - 32) / block.height);
  const least = Math.min(FT.READABLE, 0.95 * scaleOf(FT.layoutBlock(FT.programs[0], null, expanded)));
  const innerOf = (item) => item.kind === "op"
    ? FT.runSubs(item.op).flatMap(([sub]) => FT.itemsOf(FT.programs[sub], null))
    : FT.itemsOf(item.program, item);
  const add = (items) => {
    count += items.length;
    waiting.push(...items.filter((item) => item.opens));
  };
  add(FT.itemsOf(FT.programs[0], null));
  for (const lines of [false, true]) {
    const left = [];
    while (waiting.length && tries > 0) {
      const item = waiting.shift();
      if ((item.kind === "line") !== lines && !FT.holdsLoop(item)) { left.push(item); continue; }
      const inner = innerOf(item);
      if (count + inner.length > FT.FEW) continue;
      tries -= 1;
      expanded.add(item.key);
      if (scaleOf(FT.layoutBlock(FT.programs[0], null, expanded)) < least) expanded.delete(item.key);
      else add(inner);
    }
    waiting = left;
  }
};

FT.holdsLoop = (item) => {
  for (let k = item.first; k < item.end; k++) if (item.program.ops[k].subs) return true;
  return false;
};

FT.expandAll = () => {
  if (FT.data.totals.operations > FT.MOST_OPEN) {
    // One level more: boxes that are closed now.
    const closed = FT.graph.boxes.filter(({ item }) => item.opens && !item.isOpen);
    let room = FT.MOST_OPEN;
    for (const { item } of closed) {
      room -= item.children ? item.children.length || item.end - item.first : 10;
      if (room < 0) break;
      FT.graph.expanded.add(item.key);
    }
  } else {
    FT.programs.forEach((program) => {
      const open = (groups) => groups.forEach((group) => {
        FT.graph.expanded.add(FT.groupItem(program, group).key);
        open(group[3]);
      });
      open(program.groups);
      program.ops.forEach((op, k) => { if (op.subs) FT.graph.expanded.add(`o${program.number}:${k}`); });
    });
  }
  FT.redraw(null);
  FT.fit();
};
