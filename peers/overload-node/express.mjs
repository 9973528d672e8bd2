// Express with overload-protection.
import express from 'express';
import overloadProtection from 'overload-protection';
import { options } from './options.mjs';

const { host, port, maxDelay, sampleMs, work } = options();
const app = express();
app.disable('x-powered-by');
app.disable('etag'); // nobody asks conditionally here; a hash of each body would be its cost alone
app.get('/livez', (request, response) => response.json({ status: 'live' }));
app.use(overloadProtection('express', {
  production: true,
  clientRetrySecs: 1,
  sampleInterval: sampleMs,
  maxEventLoopDelay: maxDelay,
}));
app.get('/work', (request, response) => response.json(work()));
const server = app.listen(port, host);
server.keepAliveTimeout = 65_000;
