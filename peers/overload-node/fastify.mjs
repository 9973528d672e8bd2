// Fastify with @fastify/under-pressure.
import underPressure from '@fastify/under-pressure';
import Fastify from 'fastify';
import { options } from './options.mjs';

const { host, port, maxDelay, sampleMs, work } = options();
const app = Fastify({ keepAliveTimeout: 65_000 });
app.get('/livez', { config: { pressureHandler() {} } }, () => ({ status: 'live' }));
await app.register(underPressure, {
  maxEventLoopDelay: maxDelay,
  sampleInterval: sampleMs,
  retryAfter: 1,
});
const schema = { response: { 200: { type: 'object', properties: { worked: { type: 'boolean' } } } } };
app.get('/work', { schema }, () => work());
await app.listen({ host, port });
