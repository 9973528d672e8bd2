// The same with the guard mended: one listener for good. The other faults are still there.
import { createHash } from 'node:crypto';

export function etagger(app) {
  const etags = new Map();
  let attached = false;

  function hash(text) {
    return createHash('sha512').update(text).digest('hex');
  }

  return function etag(req, res, next) {
    const key = hash(req.url);
    if (etags.has(key)) {
      res.setHeader('Etag', etags.get(key));
      res.setHeader('Cache-Control', 'public, max-age=120');
    }
    if (!attached) {
      app.on('after', function rememberEtag(request, response) {
        if (response.statusCode !== 200) return;
        const body = JSON.stringify(response.body);
        etags.set(hash(request.url), hash(body));
      });
      attached = true;
    }
    next();
  };
}
