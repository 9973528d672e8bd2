import { node } from '@elysiajs/node';
import { Elysia } from 'elysia';
import { options } from './options.mjs';

const { host, port } = options();
new Elysia({ adapter: node() })
  .get('/', () => 'hello world')
  .get('/json', () => ({ hello: 'world' }))
  .get('/users/:id', ({ params, query }) => (query.name === undefined ? params.id : `${params.id} ${query.name}`))
  .listen({ hostname: host, port });
