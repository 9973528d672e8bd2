// What the tests of donmaz flame's files share: random profiles, written in each format it reads, and
// decoders of each it writes that owe nothing to it: npm packages where there are any, else the format's
// documentation.
//
// A profile here is a list of { frames: [{ name, file, line, column }], us } with distinct stacks.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

export const npm = createRequire(process.env.PLAYWRIGHT);
const { Profile } = npm('pprof-format');

/** Numbers in [0, n) that are the same for the same seed. */
export function random(seed) {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
}

const NAMES = ['main', 'a', 'get user', 'C:\\dir\\"q"', '<img src=x onerror=alert(1)></script>', 'größe', '\u{1f600}', '#tick', '# not a comment',
  '{brace}', '"quoted"', 'foo 12', 'foo 12 3', '~Foo', '*deref', 'operator()(int, char) const', 'std::map<int, (anonymous namespace)::X>::find', '(root)',
  '(program)', '(garbage collector)', 'x:7', 'tail ', ' lead', '\u007f', '\u2028line', '\ud800lone', '', 'a;b', 'tab\there', 'new\nline', '\u0000nul', '\u0001', '$&',
  'lambda#1}', "it's", 'x=y', '100%', '%41', '__proto__', 'constructor', 'toString'];
const FILES = ['', '', '/srv/app.js', '/srv/my app/größe.js', '/srv/100%.js', '/srv/%41.js', '/srv/a;b.js', '/srv/a#b?c.js', '/srv/q"uote\\.js', '/srv/a:7.js',
  'node:internal/x', 'wasm://wasm/9f', '/srv/node_modules/x/index.js', 'evalmachine.<anonymous>'];

/** Stacks that begin alike, repeat functions, and go from one frame to dozens. */
export function randomProfile(seed, { stacks = 30, names = NAMES, files = FILES } = {}) {
  const next = random(seed), pick = (list) => list[next(list.length)];
  const functions = Array.from({ length: 1 + next(25) }, () => {
    const file = pick(files), known = file && next(4);
    return { name: pick(names), file, line: known ? 1 + next(300) : 0, column: known && next(3) ? 1 + next(80) : 0 };
  });
  const all = new Map(), before = [[]];
  for (let i = 0; i < 1 + next(stacks); i++) {
    const base = pick(before), frames = base.slice(0, next(base.length + 1));
    for (let k = 1 + next(8); k > 0; k--) frames.push(pick(functions));
    before.push(frames);
    all.set(JSON.stringify(frames), { frames, us: 1 + next(next(3) ? 5000 : 2 ** 31) });
  }
  return [...all.values()];
}

/** The sum for each stack, by a text that tells stacks apart: what profiles are compared by. */
export function sums(stacks, text = exact) {
  const out = new Map();
  for (const { frames, us } of stacks) {
    const key = frames.map(text).join('\n');
    out.set(key, (out.get(key) ?? 0) + us);
  }
  return [...out].filter(([, us]) => us).sort(([a], [b]) => (a < b ? -1 : 1));
}

/** As UTF-8 holds it: half a surrogate pair becomes U+FFFD. */
const wellFormed = (text) => Buffer.from(text).toString();

/** A frame as every format but collapsed stacks keeps it. */
export function exact({ name, file, line, column }) {
  return JSON.stringify([wellFormed(name) || '(anonymous)', file, file ? line : 0, file ? column : 0]);
}

/** The same where only a line can be told. */
export const withoutColumn = (frame) => exact({ ...frame, column: 0 });

/** A frame as docs/flame.md says that collapsed stacks show it. */
export function collapsedFrame({ name, file, line, column }) {
  const clean = (text) => wellFormed(text).replaceAll(';', ':').replaceAll(/[\0-\x1f]/g, ' ');
  const place = /[ ;\0-\x1f]/.test(file) && file.startsWith('/') ? address(file) : clean(file);
  return (clean(name) || '(anonymous)') + (file && line ? ` ${place}:${line}${column ? `:${column}` : ''}` : file.startsWith('wasm:') ? ' [wasm]' : '');
}

const address = (file) => `file://${file.replaceAll(/[^!$&-/0-:=@-[\]_a-z~\u0080-\uffff]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)}`;

export const write = {
  /** As the DevTools protocol documents Profiler.Profile; samples are shuffled, each stack has up to three, and the clock goes back at times. */
  cpuprofile(stacks, seed = 1) {
    const next = random(seed), frame = ({ name, file, line, column }) => ({
      functionName: name, scriptId: '0', url: file.startsWith('/') ? pathToFileURL(file).href : file, lineNumber: line - 1, columnNumber: column - 1 });
    const nodes = [{ id: 1, callFrame: frame({ name: '(root)', file: '', line: 0, column: 0 }), hitCount: 0, children: [] }], ids = new Map();
    const parts = [];
    for (const { frames, us } of stacks) {
      let at = nodes[0];
      for (let depth = 0, key = ''; depth < frames.length; depth++) {
        key += `${JSON.stringify(frames[depth])}\n`;
        if (!ids.has(key)) {
          ids.set(key, { id: nodes.length + 1, callFrame: frame(frames[depth]), hitCount: 0, children: [] });
          at.children.push(nodes.length + 1);
          nodes.push(ids.get(key));
        }
        at = ids.get(key);
      }
      const third = Math.floor(us / 3);
      for (const part of [third, third, us - 2 * third]) parts.push({ id: at.id, us: part, order: next(2 ** 30) });
    }
    parts.sort((a, b) => a.order - b.order);
    let time = 1_000_000;
    for (const part of parts) {
      part.at = time;
      time += part.us;
    }
    // In the file's order two neighbours are changed now and then, so that deltas are negative.
    for (let i = 1; i < parts.length; i++) if (next(5) === 0) [parts[i - 1], parts[i]] = [parts[i], parts[i - 1]];
    return JSON.stringify({ nodes, startTime: 1_000_000, endTime: time, samples: parts.map((p) => p.id),
      timeDeltas: parts.map((p, i) => p.at - (i ? parts[i - 1].at : 1_000_000)) });
  },

  collapsed(stacks) {
    return stacks.map(({ frames, us }) => `${frames.map(collapsedFrame).join(';').replace(/^#( |$)/, '\\#$1')} ${us}\n`).join('');
  },

  /** As `perf script` prints; the thread's name becomes the outermost frame. */
  perf(stacks) {
    return stacks.map(({ frames, us }, i) => {
      const [comm, ...rest] = frames;
      const lines = rest.reverse().map(({ name, file, line }) => (line
        ? `\t${(0x7f0000 + i).toString(16).padStart(16)} JS:~${name} ${file}:${line}+0x1f (/tmp/perf-12.map)`
        : `\t${(0x5500 + i).toString(16).padStart(16)} ${name}+0x1f (${file})`));
      return `${comm.name} 12/34 [001] ${(77.5 + i).toFixed(6)}:    ${us * 1000} cpu-clock:u: \n${lines.join('\n')}\n\n`;
    }).join('');
  },
};

export const read = {
  cpuprofile(text) {
    const profile = JSON.parse(text), nodes = new Map(profile.nodes.map((node) => [node.id, node])), parents = new Map(), us = new Map();
    for (const node of profile.nodes) for (const child of node.children ?? []) parents.set(child, node.id);
    let at = profile.startTime;
    const times = profile.timeDeltas.map((delta) => (at += delta));
    profile.samples.forEach((id, i) => {
      if (!nodes.has(id)) throw new Error(`no node ${id}`);
      us.set(id, (us.get(id) ?? 0) + (times[i + 1] ?? profile.endTime) - times[i]);
    });
    return [...us].map(([id, weight]) => {
      const frames = [];
      for (let walk = id; parents.has(walk); walk = parents.get(walk)) {
        const { functionName, url, lineNumber, columnNumber } = nodes.get(walk).callFrame;
        frames.unshift({ name: functionName, file: url.startsWith('file:') ? decodeURIComponent(url.slice(7)) : url, line: lineNumber + 1, column: columnNumber + 1 });
      }
      return { frames, us: weight };
    });
  },

  speedscope(text) {
    const file = JSON.parse(text), [profile] = file.profiles, unit = { none: 1, nanoseconds: 1e-3, microseconds: 1 }[profile.unit];
    const frames = file.shared.frames.map(({ name, file: place = '', line = 0, col = 0 }) => ({ name, file: place, line, column: col }));
    return profile.samples.map((stack, i) => ({ frames: stack.map((f) => frames[f]), us: Math.round(profile.weights[i] * unit) }));
  },

  pprof(bytes) {
    const p = Profile.decode(bytes), text = (i) => p.stringTable.strings[Number(i)];
    const unit = { count: 1, nanoseconds: 1e-3 }[text(p.sampleType[0].unit)];
    const functions = new Map(p.function.map((f) => [f.id, f])), locations = new Map(p.location.map((l) => [l.id, l]));
    return p.sample.map((sample) => ({
      us: Math.round(Number(sample.value[0]) * unit),
      frames: [...sample.locationId].reverse().map((id) => {
        const [line] = locations.get(id).line, f = functions.get(line.functionId);
        return { name: text(f.name), file: text(f.filename), line: Number(f.startLine), column: Number(line.column ?? 0) };
      }),
    }));
  },

  /** Frames as they stand: { text }. */
  collapsed(text) {
    return text.split('\n').filter(Boolean).map((line) => {
      const cut = line.lastIndexOf(' ');
      return { frames: line.slice(0, cut).split(';').map((frame) => ({ text: frame })), us: Number(line.slice(cut + 1)) };
    });
  },
};
