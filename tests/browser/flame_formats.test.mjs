// donmaz flame's files: whatever it reads comes out of every format it writes with the same stacks and
// weights, as decoders other than its own see them. Arguments: DONMAZ.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { collapsedFrame, exact, npm, random, randomProfile, read, sums, withoutColumn, write } from './flame_formats.mjs';
import { folder } from './page.mjs';

const donmaz = path.resolve(process.argv[2]);
const Ajv = npm('ajv');
const schema = npm('speedscope/dist/release/file-format-schema.json');
const CASES = 24;

function flame(args) {
  return new Promise((done) => {
    execFile(donmaz, ['flame', '-o', '-', ...args], { maxBuffer: 64 << 20 }, (error, stdout, stderr) => done({ code: error?.code ?? 0, stdout, stderr }));
  });
}

test('the files of donmaz flame', async (t) => {
  const home = await folder(t);
  const valid = new Ajv({ strict: false }).compile(schema);

  async function convert(name, text) {
    const source = path.join(home, name), out = (end) => `${source}.${end}`;
    await writeFile(source, text);
    const run = await flame(['-n', '0', '--from', source, '--collapsed', out('txt'), '--speedscope', out('json'), '--pprof', out('pb'), '--cpuprofile', out('cpuprofile')]);
    assert.equal(run.code, 0, run.stderr);
    const speedscope = await readFile(out('json'), 'utf8');
    assert.ok(valid(JSON.parse(speedscope)), JSON.stringify(valid.errors));
    return { collapsed: await readFile(out('txt'), 'utf8'), speedscope, pprof: await readFile(out('pb')), cpuprofile: await readFile(out('cpuprofile'), 'utf8') };
  }

  /* Every output holds these stacks; `text` is how much of a frame the input could tell. */
  function holds(outputs, stacks, text, collapsed) {
    const wanted = sums(stacks, text);
    for (const format of ['speedscope', 'pprof', 'cpuprofile']) assert.deepEqual(sums(read[format](outputs[format]), text), wanted, format);
    assert.deepEqual(sums(read.collapsed(outputs.collapsed), (frame) => frame.text), collapsed, 'collapsed');
  }

  // A root that would read as a comment is written with a backslash.
  const escaped = (stacks) => sums(sums(stacks, collapsedFrame).map(([key, us]) => ({ frames: [key.replace(/^#( |\n|$)/, '\\#$1')], us })), (key) => key);

  for (let first = 1; first <= CASES; first += 6)
    await t.test(`.cpuprofile into every format and back, seeds ${first} to ${first + 5}`, async () => {
      await Promise.all(Array.from({ length: 6 }, async (_, i) => {
        const seed = first + i, stacks = randomProfile(seed);
        const once = await convert(`cpu${seed}`, write.cpuprofile(stacks, seed));
        holds(once, stacks, exact, escaped(stacks));
        const twice = await convert(`again${seed}`, once.cpuprofile);
        holds(twice, stacks, exact, escaped(stacks));
        assert.deepEqual(twice.collapsed.split('\n').sort(), once.collapsed.split('\n').sort());
        // Collapsed stacks keep less, but lose nothing more when read again.
        const third = await convert(`third${seed}`, once.collapsed);
        assert.deepEqual(third.collapsed.split('\n').sort(), once.collapsed.split('\n').sort());
        for (const format of ['speedscope', 'pprof', 'cpuprofile'])
          assert.equal(read[format](third[format]).reduce((sum, s) => sum + s.us, 0), stacks.reduce((sum, s) => sum + s.us, 0));
      }));
    });

  await t.test('collapsed stacks into every format and back', async () => {
    // Names that hold what separates stacks can't come from there.
    const names = ['main', '*deref', '~Foo', 'größe', '#tick', '{brace}', 'foo 12', 'x:7', "it's", 'a b c', '<x>', '100%', '__proto__'];
    for (let seed = 100; seed < 100 + CASES / 2; seed++) {
      const stacks = randomProfile(seed, { names, files: ['', '/srv/app.js', '/srv/my app/ü.js', 'node:internal/x'] });
      for (const s of stacks) for (const f of s.frames) if (!f.line) f.file = ''; // it has no file without a line
      // "*f place" is a mark of how V8 runs it.
      const unmarked = stacks.map((s) => ({ ...s, frames: s.frames.map((f) => (f.line ? { ...f, name: f.name.replace(/^[*~]/, '') } : f)) }));
      const once = await convert(`col${seed}`, write.collapsed(stacks));
      holds(once, unmarked, exact, escaped(stacks));
      const twice = await convert(`col2${seed}`, once.cpuprofile);
      assert.deepEqual(twice.collapsed.split('\n').sort(), once.collapsed.split('\n').sort());
    }
  });

  await t.test('perf script into every format and back', async () => {
    const names = ['main', 'operator()(int, char) const', 'std::map<int, (anonymous namespace)::X>::find', '[unknown]', 'größe', 'a;b', '~Foo', 'core::fmt::Write::write_fmt', 'x+y'];
    for (let seed = 200; seed < 200 + CASES / 2; seed++) {
      const stacks = randomProfile(seed, { names, files: ['/usr/lib/x (copy).so', '/srv/app.js', '/usr/bin/server', '[kernel.kallsyms]', '[vdso]'] });
      for (const s of stacks) {
        s.frames[0] = { name: `comm ${seed}`, file: '', line: 0, column: 0 };
        for (const f of s.frames) Object.assign(f, f.file !== '/srv/app.js' ? { line: 0, column: 0 } : { line: f.line || 1, column: 0 });
      }
      const once = await convert(`perf${seed}`, write.perf(stacks));
      const marks = (frame) => withoutColumn(frame);
      for (const format of ['speedscope', 'pprof', 'cpuprofile']) assert.deepEqual(sums(read[format](once[format]), marks), sums(stacks, marks), format);
      const twice = await convert(`perf2${seed}`, once.cpuprofile);
      assert.deepEqual(sums(read.pprof(twice.pprof)), sums(read.pprof(once.pprof)));
      assert.deepEqual(twice.collapsed.split('\n').sort(), once.collapsed.split('\n').sort()); // marks and the kernel's frames too
    }
  });

  await t.test('a stack thousands deep, one frame, functions built in', async () => {
    const deep = [{ us: 7, frames: Array.from({ length: 5000 }, (_, i) => ({ name: `d${i % 700}`, file: '', line: 0, column: 0 })) }];
    holds(await convert('deep', write.cpuprofile(deep)), deep, exact, escaped(deep));
    holds(await convert('deep2', write.collapsed(deep)), deep, exact, escaped(deep));
    const one = [{ us: 1, frames: [{ name: 'a', file: '', line: 0, column: 0 }] }];
    holds(await convert('one', write.cpuprofile(one)), one, exact, [['a', 1]]);
    // perf script --inline, -F +srcline, and a sample without a chain on one line.
    const inline = await convert('inline', 'server 1/2 [000] 1.000000:    2000000 cpu-clock:u: \n\t  5500 inner (inlined)\n  a.c:7\n\t  5500 outer+0x1 (/bin/s)\n  a.c:9\n\n'
      + 'server 1/2 [000] 1.1:    3000000 cpu-clock:u:  5500 alone+0x3 (/bin/s)\n');
    const at = (name, file) => ({ name, file, line: 0, column: 0 });
    assert.deepEqual(sums(read.pprof(inline.pprof)), sums([
      { us: 2000, frames: [at('server', ''), at('outer', '/bin/s'), at('inner', '')] }, { us: 3000, frames: [at('server', ''), at('alone', '/bin/s')] }]));
  });

  await t.test('equal and absent time deltas, ids from 0, and nodes that name their parents', async () => {
    const frame = (functionName) => ({ callFrame: { functionName, scriptId: '0', url: '', lineNumber: -1, columnNumber: -1 } });
    const stacks = [['a', 2000], ['a\nb', 1000]];
    const nodes = [{ id: 0, ...frame('(root)') }, { id: 1, parent: 0, ...frame('a') }, { id: 2, parent: 1, ...frame('b') }];
    for (const [name, more] of Object.entries({
      absent: { samples: [1, 2, 1], startTime: 0, endTime: 3000 }, equal: { samples: [1, 2, 1], startTime: 0, endTime: 3000, timeDeltas: [0, 1000, 1000] },
      back: { samples: [2, 1, 1], startTime: 0, endTime: 3000, timeDeltas: [1000, -1000, 2000] } }))
      assert.deepEqual(sums(read.collapsed((await convert(name, JSON.stringify({ nodes, ...more }))).collapsed), (f) => f.text), stacks, name);
  });

  await t.test('a file that contradicts itself is refused with the reason', async () => {
    const node = (id, more) => ({ id, callFrame: { functionName: `f${id}`, scriptId: '0', url: '', lineNumber: 0, columnNumber: 0 }, ...more });
    const time = { samples: [2], timeDeltas: [1], startTime: 0, endTime: 10 };
    for (const [profile, why] of [
      [{ nodes: [node(1)], ...time }, /sample 1 refers to node 2, which is not there/],
      [{ nodes: [node(1), node(2, { parent: 9 })], ...time }, /node 2 has the parent 9, which is not there/],
      [{ nodes: [node(1), node(2), node(2)], ...time }, /two nodes have the id 2/],
      [{ nodes: [node(1), { callFrame: {} }], ...time }, /has no "id"/],
      [{ nodes: [node(1), node(2)], ...time, timeDeltas: [1, 2] }, /1 "samples", but 2 "timeDeltas"/],
      [{ nodes: [], ...time }, /no "nodes"/],
      ['{"nodes":[]} {}', /something follows the end/],
    ]) {
      const source = path.join(home, 'bad');
      await writeFile(source, typeof profile === 'string' ? profile : JSON.stringify(profile));
      const run = await flame(['--from', source]);
      assert.equal(run.code, 3, run.stderr);
      assert.match(run.stderr, why);
    }
    const empty = path.join(home, 'empty');
    await writeFile(empty, JSON.stringify({ nodes: [node(1)], samples: [], timeDeltas: [], startTime: 0, endTime: 0 }));
    const run = await flame(['--from', empty]);
    assert.equal(run.code, 1);
    assert.match(run.stderr, /nothing was seen on a CPU/);
  });

  await t.test('numbers at the ends of what can be told are no overflow', async () => {
    const frame = (functionName) => ({ callFrame: { functionName, scriptId: '0', url: '', lineNumber: 9e18, columnNumber: -9e18 } });
    const nodes = [{ id: 1, ...frame('(root)'), children: [2] }, { id: 2, ...frame('a') }];
    for (const extreme of [9e18, -9e18, 1e300, -1e300]) {
      const run = await flame(['-n', '0', '--json', '-', '--from', await file(JSON.stringify({ nodes, samples: [2, 2], timeDeltas: [extreme, -extreme], startTime: -extreme, endTime: extreme }))]);
      assert.ok([0, 1].includes(run.code), run.stderr);
    }
    async function file(text) {
      const name = path.join(home, `x${random(text.length)(1e6)}`);
      await writeFile(name, text);
      return name;
    }
  });
});
