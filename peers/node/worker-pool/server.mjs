// The bookstore's route in Node: Express, and Piscina for the parsing.
//   node server.mjs [--host H] [--port P] [--threads N]
// No token is asked for: what is compared is the upload and the parsing.
process.env.NODE_ENV ??= 'production';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import express from 'express';
import { Piscina } from 'piscina';

const { values } = parseArgs({
  options: {
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '3000' },
    threads: { type: 'string', default: String(Math.max(1, availableParallelism() - 1)) },
  },
});

const pool = new Piscina({
  filename: new URL('./catalog.mjs', import.meta.url).href,
  minThreads: 1,
  maxThreads: Number(values.threads),
  idleTimeout: 60_000,
  maxQueue: 16,
});

const app = express();
app.disable('x-powered-by');
app.get('/health', (req, res) => res.json({ ok: true }));
app.post('/api/catalog/validate', express.raw({ type: 'text/csv', limit: '64mb' }),
  async (req, res) => {
    if (!Buffer.isBuffer(req.body)) return res.status(415).json({ ok: false, reason: 'text/csv only' });
    // A Buffer that shares its ArrayBuffer with others can't be transferred: copy that one.
    const whole = req.body.byteLength === req.body.buffer.byteLength;
    const bytes = whole ? new Uint8Array(req.body.buffer) : Uint8Array.from(req.body);
    const abort = new AbortController();
    res.once('close', () => res.writableFinished || abort.abort());
    try {
      const result = await pool.run({ bytes }, { transferList: [bytes.buffer], signal: abort.signal });
      res.status(result.ok ? 200 : 400).json(result);
    } catch (error) {
      if (error.name === 'AbortError') return;
      res.status(pool.queueSize >= pool.options.maxQueue ? 503 : 500).json({ ok: false, reason: error.message });
    }
  });

const server = app.listen(Number(values.port), values.host, (error) => {
  if (error) throw error;
  console.log(`listening on http://${values.host}:${server.address().port}`);
});

for (const signal of ['SIGTERM', 'SIGINT'])
  process.once(signal, () => server.close(async () => {
    await pool.close();
    process.exit(0);
  }));
