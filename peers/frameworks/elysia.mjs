import { node } from '@elysiajs/node';
import { Elysia } from 'elysia';
import { FastResponse } from 'srvx';
import { JSON_TYPE, options, TEXT } from './options.mjs';

// Elysia's Node adapter names its own content types whatever set.headers says; a response of the
// server below it (which the adapter would make anyway) can have the ones that all stacks here have.
const text = { headers: { 'content-type': TEXT } };
const json = { headers: { 'content-type': JSON_TYPE } };

const { host, port } = options();
new Elysia({ adapter: node() })
  .get('/', () => new FastResponse('hello world', text))
  .get('/json', () => new FastResponse(JSON.stringify({ hello: 'world' }), json))
  .get('/users/:id', ({ params, query }) => new FastResponse(query.name === undefined ? params.id : `${params.id} ${query.name}`, text))
  .listen({ hostname: host, port });
