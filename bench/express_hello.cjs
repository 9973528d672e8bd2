// The hello of bench/run in Express, in production mode and without what a plain text doesn't need.
// node express_hello.cjs NODE_MODULES PORT
const { createRequire } = require('node:module');
const [modules, port] = process.argv.slice(2);
const express = createRequire(`${modules}/`)('express');

const app = express();
app.disable('x-powered-by');
app.disable('etag');
app.get('/', (req, res) => res.type('text/plain').send('hello world'));
app.listen(Number(port), '127.0.0.1');
