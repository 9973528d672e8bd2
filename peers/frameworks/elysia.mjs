import { node } from '@elysiajs/node';
import { Elysia } from 'elysia';
import { JSON_TYPE, options, TEXT } from './options.mjs';

const { host, port } = options();
new Elysia({ adapter: node() })
  .get('/', ({ set }) => {
    set.headers['content-type'] = TEXT;
    return 'hello world';
  })
  .get('/json', ({ set }) => {
    set.headers['content-type'] = JSON_TYPE;
    return { hello: 'world' };
  })
  .get('/users/:id', ({ params, query, set }) => {
    set.headers['content-type'] = TEXT;
    return query.name === undefined ? params.id : `${params.id} ${query.name}`;
  })
  .listen({ hostname: host, port });
