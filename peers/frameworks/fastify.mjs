import Fastify from 'fastify';
import { options, TEXT } from './options.mjs';

const { host, port } = options();
const app = Fastify({ keepAliveTimeout: 65_000 });
app.get('/', (request, reply) => {
  reply.type(TEXT).send('hello world');
});
// Its way to be fast: the shape of the answer is told, and compiled into a serialiser.
const schema = { response: { 200: { type: 'object', properties: { hello: { type: 'string' } } } } };
app.get('/json', { schema }, (request, reply) => {
  reply.send({ hello: 'world' });
});
app.get('/users/:id', (request, reply) => {
  const { name } = request.query;
  reply.type(TEXT).send(name === undefined ? request.params.id : `${request.params.id} ${name}`);
});
await app.listen({ host, port });
