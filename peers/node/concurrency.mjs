// Reference 1 in Node: Express, with node:cluster and Piscina, in four configurations.
// The routes are the same in all; only what is underneath them changes.
process.env.NODE_ENV ??= 'production';
import cluster from 'node:cluster';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import express from 'express';
import { Piscina } from 'piscina';
import { burn, compute } from './work.mjs';

const USAGE = `usage: node concurrency.mjs [options]
  --mode plain|cluster|workers|cluster+workers   default plain
  --host ADDRESS      default 127.0.0.1
  --port PORT         default 3000
  --work fib|burn     what /fast and /slow compute; default fib
  --processes N       processes in the cluster modes; default one per core
  --threads N         workers per process in the worker modes; default one per core in all
  --nice N            how much the workers' priority is lowered; default 0`;

const MODES = ['plain', 'cluster', 'workers', 'cluster+workers'];

function fail(message) {
  console.error(`concurrency.mjs: ${message}\n${USAGE}`);
  process.exit(2);
}

function integer(name, text, min, max) {
  if (!/^\d+$/.test(text) || Number(text) < min || Number(text) > max)
    fail(`--${name} takes a number from ${min} to ${max}, not '${text}'`);
  return Number(text);
}

function readOptions() {
  let values;
  try {
    ({ values } = parseArgs({
      options: {
        mode: { type: 'string', default: 'plain' },
        host: { type: 'string', default: '127.0.0.1' },
        port: { type: 'string', default: '3000' },
        work: { type: 'string', default: 'fib' },
        processes: { type: 'string' },
        threads: { type: 'string' },
        nice: { type: 'string', default: '0' },
        help: { type: 'boolean', default: false },
      },
    }));
  } catch (error) {
    fail(error.message);
  }
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  if (!MODES.includes(values.mode)) fail(`--mode is one of ${MODES.join(', ')}`);
  if (!['fib', 'burn'].includes(values.work)) fail('--work is fib or burn');
  const cores = availableParallelism();
  const clustered = values.mode.startsWith('cluster');
  const processes = clustered ? integer('processes', values.processes ?? String(cores), 1, 1024) : 1;
  // One worker per core over all processes: more would only compete with each other.
  const threads = values.mode.endsWith('workers')
    ? integer('threads', values.threads ?? String(Math.max(1, Math.floor(cores / processes))), 1, 1024)
    : 0;
  return {
    host: values.host,
    port: integer('port', values.port, 0, 65535),
    work: values.work,
    nice: integer('nice', values.nice, 0, 19),
    clustered,
    processes,
    threads,
  };
}

function serve({ host, port, work, threads, nice }) {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag'); // no client here asks conditionally: don't hash every body
  const pool = threads
    ? new Piscina({
        filename: new URL('./worker.mjs', import.meta.url).href,
        minThreads: threads, // the whole pool exists before the first request
        maxThreads: threads,
        niceIncrement: nice,
      })
    : null;
  if (work === 'burn') burn(0.01); // the clock is set up before the first request

  app.get('/fast', (req, res) => {
    res.json(compute(work, 'fast'));
  });
  app.get(
    '/slow',
    pool
      ? async (req, res) => {
          res.json(await pool.run({ work, kind: 'slow' }));
        }
      : (req, res) => {
          res.json(compute(work, 'slow'));
        },
  );
  app.get('/health', (req, res) => {
    res.json({ ok: true });
  });
  const server = app.listen(port, host, (error) => {
    if (error) {
      console.error(`concurrency.mjs: can't listen on ${host}:${port}: ${error.code ?? error.message}`);
      process.exit(1);
    }
    console.error(`listening on ${host}:${server.address().port}, process ${process.pid}`);
  });
  server.keepAliveTimeout = 65_000; // longer than any pause of a load generator
}

const options = readOptions();
if (options.clustered && cluster.isPrimary) {
  for (let i = 0; i < options.processes; i++) cluster.fork();
  cluster.on('exit', (worker, code, signal) => {
    if (worker.exitedAfterDisconnect) return;
    console.error(`process ${worker.process.pid} ended (${signal ?? code}): stopping`);
    process.exit(1);
  });
  for (const signal of ['SIGTERM', 'SIGINT'])
    process.on(signal, () => {
      for (const worker of Object.values(cluster.workers)) {
        worker.exitedAfterDisconnect = true;
        worker.process.kill('SIGKILL');
      }
      process.exit(0);
    });
} else {
  serve(options);
}
