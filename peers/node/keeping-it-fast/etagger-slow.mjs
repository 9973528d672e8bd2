// Reference 3's middleware with its five faults, each marked.
import { createHash } from 'node:crypto';

export function etagger(app) {
  const etags = new Map();
  let attached = false;
  app.setMaxListeners(Infinity); // (2) the warning that would have shown fault (1) is off

  function hash(text) {
    return createHash('sha512').update(text).digest('hex');
  }

  return function etag(req, res, next) {
    const key = hash(req.url); // (3) hashed on each request
    if (etags.has(key)) {
      res.setHeader('Etag', etags.get(key)); // (5) If-None-Match is never looked at
      res.setHeader('Cache-Control', 'public, max-age=120');
    }
    let attachAfterEvent = true;
    if (attachAfterEvent === true) { // (1) always true: `attached` is what was meant
      app.on('after', function rememberEtag(request, response) {
        if (response.statusCode !== 200) return;
        const body = JSON.stringify(response.body); // (4) serialised again, only to be hashed
        etags.set(hash(request.url), hash(body));
      });
      attached = attachAfterEvent;
    }
    next();
  };
}
