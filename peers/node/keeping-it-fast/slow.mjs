// Reference 3's server, slow: every request adds another listener.
import { createApp, serve } from './app.mjs';
import { data, timestamp } from './content.mjs';
import { etagger } from './etagger-slow.mjs';

const app = createApp();
app.use(etagger(app));
app.get('/seed/v1', function seed(req, res) {
  res.send(200, { data, url: req.url, ts: timestamp() });
});
serve(app);
