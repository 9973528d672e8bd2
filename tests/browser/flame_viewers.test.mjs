// donmaz flame's files in the programs they are meant for: speedscope opens all four and exports what it
// understood; Chromium's own DevTools build their model of a .cpuprofile; `go tool pprof` reads its file
// when DONMAZ_GO is set. Arguments: DONMAZ.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { exact, npm, randomProfile, read, sums, write } from './flame_formats.mjs';
import { folder, launchWithDevTools, run } from './page.mjs';

const donmaz = path.resolve(process.argv[2]);
const SEEDS = [1, 2];

test('donmaz flame\'s files in their viewers', async (t) => {
  const home = await folder(t);
  const { context, devtools } = await launchWithDevTools(t, path.join(home, 'browser'));
  const cases = await Promise.all(SEEDS.map(async (seed) => {
    // Viewers show functions, not columns of them; two on one line are one to some.
    const stacks = randomProfile(seed, { files: ['', '/srv/app.js', '/srv/node_modules/x/index.js', 'node:internal/x'] });
    // And a few names mean something to them.
    for (const s of stacks) for (const f of s.frames) f.name = f.name.replaceAll(/[\0-\x1f;\ud800]|^\((root|program|garbage collector)\)$/g, '').trim() || 'x';
    const source = path.join(home, `in${seed}`), out = (end) => path.join(home, `out${seed}.${end}`);
    await writeFile(source, write.cpuprofile(stacks, seed));
    await run(donmaz, ['flame', '-o', '-', '-n', '0', '--from', source, '--collapsed', out('txt'), '--speedscope', out('speedscope.json'), '--pprof', out('pb'), '--cpuprofile', out('cpuprofile')]);
    return { stacks, out, total: stacks.reduce((sum, s) => sum + s.us, 0) };
  }));

  async function throughSpeedscope(file) {
    const page = await context.newPage();
    const index = pathToFileURL(npm.resolve('speedscope/dist/release/index.html'));
    await writeFile(path.join(home, 'empty.js'), '');
    await page.goto(`${index.href}#localProfilePath=${encodeURIComponent(path.join(home, 'empty.js').slice(1))}`);
    await page.waitForFunction(() => window.speedscope);
    await page.evaluate(([name, text]) => window.speedscope.loadFileFromBase64(name, text), [path.basename(file), (await readFile(file)).toString('base64')]);
    await page.waitForFunction((name) => document.title.includes(name) || document.querySelector('canvas'), path.basename(file));
    const download = page.waitForEvent('download');
    await page.keyboard.press('Control+s');
    const saved = path.join(home, `${path.basename(file)}.saved`);
    await (await download).saveAs(saved);
    await page.close();
    return JSON.parse(await readFile(saved, 'utf8'));
  }

  /* Its exports are evented or sampled; the events of a stack that stays open are one sample. */
  function stacksOf({ profiles: [profile], shared: { frames } }) {
    const scale = { none: 1, microseconds: 1, nanoseconds: 1e-3, milliseconds: 1e3 }[profile.unit];
    const frame = (i) => ({ file: '', line: 0, column: 0, ...frames[i], column: frames[i].col ?? 0 });
    if (profile.type === 'sampled') return profile.samples.map((stack, i) => ({ frames: stack.map(frame), us: profile.weights[i] * scale }));
    const open = [], out = [];
    let last = profile.startValue;
    for (const { type, frame: i, at } of profile.events) {
      if (at > last && open.length) out.push({ frames: open.map(frame), us: (at - last) * scale });
      last = at;
      if (type === 'O') open.push(i);
      else assert.equal(open.pop(), i);
    }
    return out;
  }

  for (const ending of ['speedscope.json', 'pb', 'cpuprofile', 'txt'])
    await t.test(`speedscope opens .${ending}`, async () => {
      for (const one of cases) {
        const seen = stacksOf(await throughSpeedscope(one.out(ending)));
        assert.equal(Math.round(seen.reduce((sum, s) => sum + s.us, 0)), one.total);
        // Places differ by format in how they are shown, and are part of the name in collapsed stacks.
        const bare = (frame) => (ending === 'txt' ? frame.name.replace(/ \S+:\d+(:\d+)?$/, '') : frame.name);
        assert.deepEqual(sums(seen, bare).map(([key, us]) => [key, Math.round(us)]), sums(one.stacks, (frame) => frame.name.replace(/^\(anonymous\)$/, '')));
      }
    });

  await t.test('the garbage collector is on nobody\'s stack in speedscope', async () => {
    const source = path.join(home, 'gc.txt'), out = path.join(home, 'gc.cpuprofile');
    await writeFile(source, 'a;b 1000\n(garbage collector) 500\na 2000\n(program) 300\n');
    await run(donmaz, ['flame', '-o', '-', '-n', '0', '--from', source, '--cpuprofile', out]);
    const seen = sums(stacksOf(await throughSpeedscope(out)), (frame) => frame.name).map(([key, us]) => [key, Math.round(us)]);
    assert.deepEqual(seen, [['(garbage collector)', 500], ['(program)', 300], ['a', 2000], ['a\nb', 1000]]);
  });

  await t.test('DevTools build the same tree of a .cpuprofile', async (t) => {
    const page = await context.newPage();
    await page.goto(`${devtools}/devtools/devtools_app.html`);
    const missing = await page.evaluate(() => import('/devtools/models/cpu_profile/cpu_profile.js').then(() => null, String));
    if (missing) return t.skip(`the DevTools of this Chromium keep their model elsewhere: ${missing}`);
    for (const one of cases) {
      const model = await page.evaluate(async (profile) => {
        const { CPUProfileDataModel: { CPUProfileDataModel } } = await import('/devtools/models/cpu_profile/cpu_profile.js');
        const built = new CPUProfileDataModel(profile), out = [];
        const walk = (node, frames) => {
          for (const child of node.children) {
            const next = [...frames, { name: child.functionName, file: child.url, line: child.lineNumber + 1, column: child.columnNumber + 1 }];
            if (child.self) out.push({ frames: next, us: child.self * 1000 });
            walk(child, next);
          }
        };
        walk(built.profileHead, []);
        return { stacks: out, total: built.profileHead.total * 1000, samples: built.samples.length };
      }, JSON.parse(await readFile(one.out('cpuprofile'), 'utf8')));
      assert.equal(Math.round(model.total), one.total);
      const near = (list) => list.map(([key, us]) => [key, Math.round(us)]);
      const path_ = (f) => exact({ ...f, file: f.file.startsWith('file:') ? decodeURIComponent(f.file.slice(7)) : f.file });
      assert.deepEqual(near(sums(model.stacks, path_)), sums(one.stacks, exact));
    }
    await page.close();
  });

  await t.test('go tool pprof reads the pprof file', async (t) => {
    // Go builds its tool first, which takes a minute.
    if (!process.env.DONMAZ_GO) return t.skip('part of `make stress-flame`; here flame-formats decodes such files with pprof-format');
    for (const one of cases) {
      const { stdout } = await run('go', ['tool', 'pprof', '-raw', one.out('pb')], { env: { ...process.env, PPROF_TMPDIR: home }, maxBuffer: 64 << 20 });
      const samples = stdout.slice(stdout.indexOf('Samples:'), stdout.indexOf('Locations')).split('\n').slice(2).filter((line) => /^\s*\d+:/.test(line));
      assert.equal(samples.reduce((sum, line) => sum + Number(/\d+/.exec(line)[0]), 0), one.total * 1000);
      assert.equal(samples.length, sums(read.pprof(await readFile(one.out('pb')))).length);
    }
  });
});
