import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { JSON_TYPE, options } from './options.mjs';

const { host, port } = options();
const app = new Hono();
app.get('/', (c) => c.text('hello world'));
app.get('/json', (c) => c.json({ hello: 'world' }, 200, { 'Content-Type': JSON_TYPE }));
app.get('/users/:id', (c) => {
  const name = c.req.query('name');
  return c.text(name === undefined ? c.req.param('id') : `${c.req.param('id')} ${name}`);
});
serve({ fetch: app.fetch, hostname: host, port }).keepAliveTimeout = 65_000;
