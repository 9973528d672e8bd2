// Reference 3's server in its final state: the JSON text is built directly, an id of the content is
// the etag instead of a hash, the URL itself is the key, and If-None-Match is answered.
import { createApp, serve } from './app.mjs';
import { data, timestamp } from './content.mjs';

const app = createApp();
app.get('/seed/v1', function seed(req, res) {
  const ts = timestamp();
  const etag = `"v1-${ts}"`;
  res.setHeader('Etag', etag);
  res.setHeader('Cache-Control', 'public, max-age=120');
  if (req.headers['if-none-match'] === etag) {
    res.writeHead(304);
    res.end();
    return;
  }
  res.send(200, `{"data":"${data}","url":"${req.url}","ts":${ts}}`);
});
serve(app);
