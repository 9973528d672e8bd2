// As much of restify 7's shape as reference 3's server uses, on Node's own http: restify 7.1 itself
// no longer loads (its spdy needs a binding that Node has dropped). Middleware with next, routes,
// res.send, and an `after` event once a response is written.
import { EventEmitter } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { parseArgs } from 'node:util';

class App extends EventEmitter {
  #middleware = [];
  #routes = new Map();
  #server = createHttpServer((req, res) => this.#handle(req, res));

  use(handler) {
    this.#middleware.push(handler);
  }

  get(path, handler) {
    this.#routes.set(path, handler);
  }

  listen(port, host, ready) {
    this.#server.listen(port, host, ready);
    return this.#server;
  }

  #handle(req, res) {
    res.send = (status, body) => {
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      res.body = body;
      res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) });
      res.end(text);
    };
    res.once('finish', () => this.emit('after', req, res));
    const route = req.method === 'GET' ? this.#routes.get(req.url) : undefined;
    const chain = [...this.#middleware, route ?? notFound];
    let at = 0;
    const next = () => chain[at++]?.(req, res, next);
    next();
  }
}

function notFound(req, res) {
  res.send(404, { code: 'ResourceNotFound', message: `${req.url} does not exist` });
}

export function createApp() {
  return new App();
}

export function serve(app) {
  const { values } = parseArgs({
    options: { host: { type: 'string', default: '127.0.0.1' }, port: { type: 'string', default: '3000' } },
  });
  const server = app.listen(Number(values.port), values.host, () => {
    console.log(`listening on http://${values.host}:${server.address().port}`);
  });
}
