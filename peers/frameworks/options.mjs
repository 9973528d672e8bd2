// What every program here takes: --host ADDRESS --port N.
export function options() {
  const values = { host: '127.0.0.1', port: '3000' };
  const words = process.argv.slice(2);
  for (let i = 0; i < words.length; i += 2) {
    const name = words[i].replace(/^--/, '');
    if (!(name in values) || words[i + 1] === undefined) {
      console.error(`usage: node ${process.argv[1]} [--host ADDRESS] [--port N]`);
      process.exit(2);
    }
    values[name] = words[i + 1];
  }
  return { host: values.host, port: Number(values.port) };
}

// What Express and Fastify say by themselves, and so all must.
export const TEXT = 'text/plain; charset=utf-8';
export const JSON_TYPE = 'application/json; charset=utf-8';
