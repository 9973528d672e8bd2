// The profile as the page uses it: filtered, merged and turned upside down on demand, always from
// the arrays that the command wrote. Nothing here touches the document.

export const KINDS = ['app', 'deps', 'core', 'native', 'wasm', 'kernel', 'gc', 'idle'];
const MARKS = ['', '*', '~'];

export function load(raw) {
  const count = raw.stacks.length;
  const profile = {
    counts: raw.counts, offCpu: raw.offCpu,
    frames: raw.frames.map(([name, file, line, kind, mark, column = 0], index) => ({
      index, name: raw.strings[name], file: raw.strings[file], line, column, kind: KINDS[kind], mark: MARKS[mark],
    })),
    frame: new Uint32Array(count), parent: new Uint32Array(count),
    self: new Float64Array(count), base: new Float64Array(count), total: 0, baseTotal: 0,
  };
  raw.stacks.forEach(([frame, parent, self, base = 0], i) => {
    profile.frame[i] = frame;
    profile.parent[i] = parent;
    profile.self[i] = self;
    profile.base[i] = base;
    profile.total += self;
    profile.baseTotal += base;
  });
  profile.differential = profile.baseTotal > 0;
  return profile;
}

/* Functions that differ only by mark are one when merged. */
function identity(profile, merged) {
  const ids = new Map();
  return profile.frames.map((f) => {
    const key = `${f.name}\0${f.file}\0${f.line}\0${f.column}\0${f.kind}\0${merged ? '' : f.mark}`;
    if (!ids.has(key)) ids.set(key, f.index);
    return ids.get(key);
  });
}

function emptyTree() {
  return { frame: 0, self: 0, base: 0, value: 0, baseValue: 0, children: new Map() };
}

function child(node, frame) {
  let next = node.children.get(frame);
  if (!next) node.children.set(frame, (next = { ...emptyTree(), frame }));
  return next;
}

/* The tree for the chosen view. Frames of hidden kinds are left out and their time goes to their
 * caller, so that the total never changes. */
export function build(profile, { hidden = new Set(), merged = false, inverted = false } = {}) {
  const same = identity(profile, merged);
  const shown = profile.frames.map((f) => !hidden.has(f.kind));
  const root = emptyTree();
  if (inverted) {
    for (let i = 1; i < profile.frame.length; i++) {
      if (!profile.self[i] && !profile.base[i]) continue;
      let node = root;
      root.value += profile.self[i];
      root.baseValue += profile.base[i];
      for (let at = i; at; at = profile.parent[at]) {
        if (!shown[profile.frame[at]]) continue;
        node = child(node, same[profile.frame[at]]);
        node.value += profile.self[i];
        node.baseValue += profile.base[i];
      }
      node.self += profile.self[i];
      node.base += profile.base[i];
    }
    return { root, merged };
  }
  const nodes = new Array(profile.frame.length);
  nodes[0] = root;
  for (let i = 1; i < nodes.length; i++) {
    const up = nodes[profile.parent[i]];
    nodes[i] = shown[profile.frame[i]] ? child(up, same[profile.frame[i]]) : up;
    nodes[i].self += profile.self[i];
    nodes[i].base += profile.base[i];
  }
  sum(root);
  return { root, merged };
}

/* Values from selves, without recursion: stacks may be thousands deep. */
function sum(root) {
  const order = [root];
  for (let i = 0; i < order.length; i++) order.push(...order[i].children.values());
  for (let i = order.length - 1; i >= 0; i--) {
    const node = order[i];
    node.value = node.self;
    node.baseValue = node.base;
    for (const c of node.children.values()) {
      node.value += c.value;
      node.baseValue += c.baseValue;
    }
  }
}

/* Self and total time by function; a recursive function's total counts once. */
export function hottest(profile, { hidden = new Set(), merged = true } = {}, limit = 50) {
  const same = identity(profile, merged);
  const rows = new Map();
  const row = (id) => {
    if (!rows.has(id)) rows.set(id, { frame: profile.frames[id], self: 0, total: 0 });
    return rows.get(id);
  };
  for (let i = 1; i < profile.frame.length; i++) {
    const self = profile.self[i];
    if (!self) continue;
    const seen = new Set();
    let first = true;
    for (let at = i; at; at = profile.parent[at]) {
      if (hidden.has(profile.frames[profile.frame[at]].kind)) continue;
      const id = same[profile.frame[at]];
      if (first) row(id).self += self;
      first = false;
      if (!seen.has(id)) {
        seen.add(id);
        row(id).total += self;
      }
    }
  }
  return [...rows.values()].sort((a, b) => b.self - a.self || b.total - a.total).slice(0, limit);
}

/* Time in stacks that hold a matching frame: each counts once, however many match. */
export function matched(profile, test) {
  const hit = profile.frames.map(test);
  const inside = new Uint8Array(profile.frame.length);
  let total = 0;
  for (let i = 1; i < inside.length; i++) {
    inside[i] = inside[profile.parent[i]] || (hit[profile.frame[i]] ? 1 : 0);
    if (inside[i]) total += profile.self[i];
  }
  return total;
}

/* What d3-flame-graph takes, cut where a block would be narrower than `smallest`. */
export function hierarchy(profile, tree, smallest) {
  const make = (node) => {
    const out = { id: node.frame, value: node.value, self: node.self, base: node.baseValue, children: [] };
    return out;
  };
  const top = make(tree.root);
  const todo = [[tree.root, top]];
  while (todo.length) {
    const [node, out] = todo.pop();
    for (const c of node.children.values()) {
      if (c.value < smallest || c.value === 0) continue;
      const next = make(c);
      out.children.push(next);
      todo.push([c, next]);
    }
  }
  return top;
}
