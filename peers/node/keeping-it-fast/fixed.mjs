// Reference 3's server, with the listener guard mended.
import { createApp, serve } from './app.mjs';
import { data, timestamp } from './content.mjs';
import { etagger } from './etagger-fixed.mjs';

const app = createApp();
app.use(etagger(app));
app.get('/seed/v1', function seed(req, res) {
  res.send(200, { data, url: req.url, ts: timestamp() });
});
serve(app);
