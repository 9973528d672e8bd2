// The three endpoints in Express, the same for 4 and 5.
import { options } from './options.mjs';

export function serve(express) {
  const { host, port } = options();
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag'); // nobody here asks conditionally
  app.get('/', (req, res) => {
    res.type('text').send('hello world');
  });
  app.get('/json', (req, res) => {
    res.json({ hello: 'world' });
  });
  app.get('/users/:id', (req, res) => {
    res.type('text').send(req.query.name === undefined ? req.params.id : `${req.params.id} ${req.query.name}`);
  });
  app.listen(port, host).keepAliveTimeout = 65_000;
}
